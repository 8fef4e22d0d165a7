"""docs/tutorial.md and README: their programs and tests, saved as the page says, and run."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.commands import ROOT

PART = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
README_TEST = re.compile(r"^```python\n(from staticfire import PushConsumer\n.*?)^```$", re.MULTILINE | re.DOTALL)
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


def outcome_of(folder: Path) -> str:
    """Run pytest in a folder of its own, as a reader does; return its output."""
    (folder / "pytest.ini").write_text(INI)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=folder, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_the_tutorials_tests_pass(tmp_path: Path) -> None:
    parts = PART.findall((ROOT / "docs" / "tutorial.md").read_text())
    for name, text in parts:
        with (tmp_path / name).open("a") as file:
            file.write(f"{text}\n\n")
    assert {name for name, _ in parts} == {"billing.py", "test_billing.py"}
    said = outcome_of(tmp_path)
    assert "4 passed, 1 xfailed" in said, said


def test_readmes_test_passes(tmp_path: Path) -> None:
    (example,) = README_TEST.findall((ROOT / "README.md").read_text())
    (tmp_path / "test_billing.py").write_text(example)
    said = outcome_of(tmp_path)
    assert "1 passed" in said, said
