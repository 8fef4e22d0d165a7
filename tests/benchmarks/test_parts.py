"""The measurements of single parts still run: they use the insides of what they measure, which change."""

import subprocess
import sys

import pytest

from tests.house.source import ROOT

SHORT = {
    "access": ["--sends", "640", "--rounds", "1"],
    "burst": ["--rounds", "2", "--only", "json_send"],
    "consume_path": ["--rounds", "2"],
    "faults_of_chaos": ["--rounds", "1", "--seconds", "1"],
    "journal": ["--rounds", "20", "--only", "pull_1"],
    "producer_encode": ["--rounds", "1", "--messages", "640"],
    "request_decoding": ["--kind", "HEART_BEAT"],
    "store_append": ["--records", "2000"],
    "unit_costs": ["--brokers", "10", "--rounds", "1"],
}


def test_each_part_is_tried_here() -> None:
    assert {path.stem for path in (ROOT / "benchmarks" / "parts").glob("[a-z]*.py")} == SHORT.keys()


@pytest.mark.parametrize("part", SHORT)
def test_a_part_is_measured(part: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.parts.{part}", *SHORT[part]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout
