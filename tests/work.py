"""How much work an act is, as a number that is the same on each machine."""

import sys
from collections.abc import Callable
from types import FrameType

from staticfire.protocol.lazy_names import CollectionPaused


def calls_in(act: Callable[[], object]) -> int:
    """Return how many calls an act takes: a measure of work that is the same on each machine.

    Garbage of other tests isn't collected meanwhile, because its finalizers would be counted.
    """
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    with CollectionPaused():
        sys.setprofile(note)
        try:
            act()
        finally:
            sys.setprofile(before)
    return count
