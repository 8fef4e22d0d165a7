"""`staticfire simulate` is stopped, or a process of it dies: what is known by then is told, and nobody stays behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.cli import main
from tests.cases import first_and_slow
from tests.house.source import ROOT

pytestmark = pytest.mark.row("S3")

HEAD = "from staticfire.simulation.workload import Group, Producers, Topic, Workload\n"
SHOP = "Workload([Topic('orders', 2)], [Producers('orders', 5{})], [Group('billing', 'orders')])\n"

STANDS_STILL = """
import os, signal, threading

def body(number):
    is_blocked = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with open("began", "w") as began:
        began.write(f"SIGINT is {'blocked' if is_blocked else 'open'}")
    threading.Event().wait()

workload = """
WAIT_S = 100


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("began")
    (tmp_path / "still.py").write_text(HEAD + STANDS_STILL + SHOP.format(", body=body"))
    return tmp_path


def _simulate(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Return it when a body of its workload stands still."""
    command = [sys.executable, "-m", "staticfire", "simulate", *arguments, "--no-shrink", "still.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    started = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert (folder / "began").read_text() == f"SIGINT is {'blocked' if '--jobs' in arguments else 'open'}"
    return started


@pytest.mark.parametrize("number", first_and_slow([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT], 2))
def test_processes_end_with_the_one_that_has_started_them(number: signal.Signals, folder: Path) -> None:
    with _simulate(folder, "--seeds", "3", "--jobs", "1") as simulating:
        simulating.send_signal(number)
        out, errors = simulating.communicate(timeout=WAIT_S)  # Until nobody has them open any more.
    reported = "" if number == signal.SIGKILL else "simulate: interrupted; so far:\nsimulate: 0 seeds, 0 failed"
    assert out.startswith(reported)
    assert "Traceback" not in errors
    assert simulating.returncode == (-number if number == signal.SIGKILL else 128 + number)


def test_a_run_that_is_interrupted_says_that_it_has_no_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "import os, signal\nworkload = " + SHOP.format(
        ", body=lambda n: os.kill(os.getpid(), signal.SIGTERM) or b'x'"
    )
    Path("stops.py").write_text(HEAD + text)
    assert main(["simulate", "--seed", "5", "--hours", "0.003", "stops.py"]) == 128 + signal.SIGTERM
    assert capsys.readouterr().out == "simulate: interrupted; there is no result for seed 5 yet\n"


def test_seeds_that_are_done_count_when_a_process_has_died(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dies = "import multiprocessing, os, signal\ndef workload(chance):\n"
    dies += "    if multiprocessing.parent_process() and chance.random() > 0.9: os.kill(os.getpid(), signal.SIGKILL)\n"
    Path("dies.py").write_text(f"{HEAD}{dies}    return {SHOP.format('')}")
    assert main(["simulate", "--seeds", "30", "--jobs", "1", "--hours", "0.002", "dies.py"]) == 1
    reported = capsys.readouterr()
    assert "simulate: stopped; so far:" in reported.out
    assert "0 failed" in reported.out
    assert "simulate: 0 seeds" not in reported.out
    assert "a process of the simulation has died" in reported.err
