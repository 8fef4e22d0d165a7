"""The demo of the flights, with fewer of them."""

import re
import subprocess
import sys

import pytest

from tests.face.commands import ROOT, environment, one_line


@pytest.mark.slow
def test_no_flight_is_lost_when_a_broker_is_killed() -> None:
    command = [sys.executable, "examples/flights/demo.py", "--flights", "5000"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    last = one_line("\n".join(done.stdout.splitlines()[-1:]))
    assert re.fullmatch(r"demo: sent=5000 stored=5000 lost=0 duplicates=\d+ seconds=[\d.]+", last), done.stdout
    assert done.returncode == 0
