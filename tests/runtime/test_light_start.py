"""The garbage collector of a process that runs nothing else, and of a user's program."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BEGIN = "import gc\nfrom staticfire.runtime.light_start import *\nof_python = gc.get_threshold()\n"
LOADED = "keep_loaded()\nprint(gc.get_threshold() == of_python, gc.get_freeze_count() > 1_000)\n"


def _printed(program: str) -> str:
    """Return what a process of its own prints: what is frozen in the process of the tests changes with each test."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return done.stdout


def test_what_a_process_of_ours_has_loaded_isnt_examined_again() -> None:
    assert _printed(f"{BEGIN}collect_rarely()\n{LOADED}") == "False True\n"


def test_a_program_of_a_user_keeps_its_garbage_collector() -> None:
    assert _printed(BEGIN + LOADED) == "True False\n"
