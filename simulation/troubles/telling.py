"""Reads a trouble from a file, and plays it into lines."""

import re
from pathlib import Path

from staticfire.protocol.errors import UsageError
from staticfire.simulation.troubles.trouble import SEED, Trouble
from staticfire.simulation.workload.loading import run_file

_LEAVES_ONE = re.compile(r"^trouble\b.*=", re.MULTILINE)


def find_trouble(path: str) -> Trouble | None:
    """Return the trouble that a file defines, None if it defines none. Raises: UsageError, with line and reason."""
    file = Path(path)
    if not file.is_file() or not _LEAVES_ONE.search(file.read_text(encoding="utf-8", errors="replace")):
        return None
    found = run_file(path).get("trouble")
    if not isinstance(found, Trouble):
        raise UsageError(f"{path} defines an invalid `trouble`: write `trouble = Trouble(...)`")
    return found


def lines_of(trouble: Trouble, seed: int = SEED) -> list[dict[str, object]]:
    """Return one line per way, with its results."""
    return [{"way": way, **facts} for way, facts in trouble.play_all(seed).items()]
