"""The garbage collector of a process that runs nothing else, and of a user's program."""

import gc
import subprocess
import sys
from pathlib import Path

from staticfire.runtime.light_start import keep_loaded

ROOT = Path(__file__).resolve().parent.parent.parent
LOADS = """
import gc
from staticfire.runtime.light_start import collect_rarely, keep_loaded
collect_rarely()
before = gc.get_threshold()[0], gc.get_freeze_count()
keep_loaded()
print(before[0] > gc.get_threshold()[0], before[1], gc.get_freeze_count() > 1_000)
"""


def test_what_a_process_of_ours_has_loaded_isnt_examined_again() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "True 0 True\n"


def test_a_program_of_a_user_keeps_its_garbage_collector() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    keep_loaded()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
