"""How much work an act is, as a number that is the same on each machine."""

import sys
from collections.abc import Callable
from types import FrameType


def calls_in(act: Callable[[], object]) -> int:
    """Return how many calls an act takes: a measure of work that is the same on each machine."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
    return count
