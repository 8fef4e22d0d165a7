"""How much work an act is, as a number that is the same on each machine."""

import gc
import sys
from collections.abc import Callable
from types import FrameType


def calls_in(act: Callable[[], object]) -> int:
    """Return how many calls an act takes: a measure of work that is the same on each machine.

    Garbage of other tests isn't collected meanwhile, because its finalizers would be counted.
    """
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return count
