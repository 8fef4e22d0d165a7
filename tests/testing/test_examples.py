"""The tests in examples/ pass as a reader would run them. `make test-oracle` runs them on a real RocketMQ, too."""

import subprocess
import sys

import pytest

from tests.house.source import ROOT


@pytest.mark.slow
@pytest.mark.slow
def test_examples_pass_in_two_processes_at_a_time() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", "examples/testing"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
