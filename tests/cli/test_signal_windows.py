"""A signal at each step of `run`, `up` and `broker`: nothing is left behind, and the exit code is the one that is due.

The steps are the seams between those who take signals: the start of the cluster, that of the command, the event loop
and its end, the end of the cluster, and the last line of all.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import first_and_slow, slow
from tests.cli.commands import FREE_PORTS, ROOT, TIMEOUT_S, environment

Step = tuple[str, str]
STARTING: list[Step] = [
    ("SignalInbox.__init__", "return"),
    ("ProcessCluster.prepare", "return"),
    ("ProcessCluster._spawn", "call"),
    ("Children.spawn", "return"),
    ("Children.wait_ready", "call"),
    ("Children._read_link", "return"),
    ("ProcessCluster.start", "return"),
]
BESIDE_THE_COMMAND: list[Step] = [
    ("with_control", "call"),
    ("Popen._execute_child", "return"),
    ("ControlPort.__aenter__", "call"),
    ("until_exit", "call"),
    ("SignalInbox.take", "call"),
]
ENDING: list[Step] = [
    ("ProcessCluster.stop", "call"),
    ("Children.stop", "call"),
    ("Children.close", "call"),
    ("ProcessCluster.stop", "return"),
    ("SignalInbox.close", "call"),
    ("SignalInbox.close", "return"),
    ("main", "return"),
]
WAITS_FOR_A_SIGNAL = """
import pathlib, signal, sys
numbers = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
pathlib.Path(sys.argv[1]).touch()
sys.exit(10 + signal.sigwait(numbers))
"""


def signalled(folder: Path, step: Step, number: int, *arguments: str, wait_for: str = "-") -> tuple[int, str]:
    """Run staticfire with a signal at a step, without a terminal; return its exit code and stdout."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cli.signalled", *step, str(int(number)), wait_for, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=ROOT,
        env=environment(TMPDIR=str(folder)),
        start_new_session=True,
        check=False,
    )
    assert f"signalled at {step[0]}" in done.stderr
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize("step", first_and_slow(STARTING), ids="-".join)
def test_signal_before_the_command_is_there_ends_run_with_its_number(step: Step, tmp_path: Path) -> None:
    assert signalled(tmp_path, step, signal.SIGTERM, "run", "echo", "ran") == (128 + signal.SIGTERM, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("step", "number"),
    [
        *((BESIDE_THE_COMMAND[0], number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
        *(slow(step, signal.SIGTERM) for step in BESIDE_THE_COMMAND[1:]),
    ],
)
def test_signal_beside_the_command_is_the_commands(step: Step, number: signal.Signals, tmp_path: Path) -> None:
    ready = str(tmp_path / "ready")
    command = [sys.executable, "-c", WAITS_FOR_A_SIGNAL, ready]
    assert signalled(tmp_path, step, number, "run", "--", *command, wait_for=ready) == (10 + number, "")


@pytest.mark.parametrize("step", first_and_slow([("_end", "call"), *ENDING]), ids="-".join)
def test_signal_behind_the_commands_end_leaves_its_exit_code(step: Step, tmp_path: Path) -> None:
    assert signalled(tmp_path, step, signal.SIGTERM, "run", "sh", "-c", "exit 7") == (7, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "step", first_and_slow([*STARTING, ("with_control", "call"), ("until_stopped", "call")]), ids="-".join
)
def test_signal_at_any_step_ends_up_in_order(step: Step, tmp_path: Path) -> None:
    exit_code, _ = signalled(tmp_path, step, signal.SIGTERM, "up", *FREE_PORTS)
    assert exit_code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", [("settings_of", "call"), ("temporary_folder", "return"), ("become", "call")])
def test_signal_before_a_server_can_take_it_stops_it_in_order(step: Step, tmp_path: Path) -> None:
    flags = ["--set", "listenHost=127.0.0.1", "--port", "0"]
    assert signalled(tmp_path, step, signal.SIGTERM, "broker", *flags)[0] == 0
    assert list(tmp_path.iterdir()) == []
