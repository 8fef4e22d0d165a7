"""The demo of the flights, with fewer of them."""

import re
import subprocess
import sys

import pytest

from tests.cli.commands import ROOT, environment, one_line

pytestmark = [pytest.mark.row("C12"), pytest.mark.row("A5")]


@pytest.mark.slow
def test_every_flight_is_handled_or_dead_though_a_desk_is_killed() -> None:
    """The first 5,000 flights of the year; 31 of them were cancelled."""
    command = [sys.executable, "examples/flights/demo.py", "--flights", "5000"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    last = one_line("\n".join(done.stdout.splitlines()[-1:]))
    wanted = r"demo: sent=5000 consumed=4969 dead=31 lost=0 duplicates=\d+ seconds=[\d.]+"
    assert re.fullmatch(wanted, last), done.stdout + done.stderr


@pytest.mark.parametrize("flights", ["0", "-5"])
def test_without_a_flight_there_is_no_demo(flights: str) -> None:
    command = [sys.executable, "examples/flights/demo.py", f"--flights={flights}"]
    refused = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert refused.returncode == 2
    assert f"--flights {flights}: at least one has to fly" in refused.stderr
