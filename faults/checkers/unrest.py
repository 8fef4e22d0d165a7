"""When something was broken: what excuses a duplicate, and what doesn't."""

from bisect import bisect_left, insort

from staticfire.faults.checkers.events import (
    FaultBegan,
    FaultEnded,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
)

AFTERMATH_MS = 150_000
# A group learns of a dead member after 120 s, of a dead lock after 60 s.


class TroubledTimes:
    """The moments at which something began or ceased to be broken, and what is broken."""

    def __init__(self) -> None:
        self._moments: list[tuple[int, str]] = []
        self._open: dict[tuple[str, str], int] = {}

    def see(self, event: RunEvent) -> None:
        match event:
            case FaultBegan(at_ms, what, target):
                self._open[what, target] = at_ms
                insort(self._moments, (at_ms, f"{what} {target}".rstrip()))
            case FaultEnded(at_ms, what, target):
                self._open.pop((what, target), None)
                insort(self._moments, (at_ms, f"end of {what} {target}".rstrip()))
            case ProcessBegan(at_ms, who):
                insort(self._moments, (at_ms, f"start of {who}"))
            case ProcessEnded(at_ms, who, how):
                insort(self._moments, (at_ms, f"{who} {how}"))
            case _:
                pass

    def cause(self, from_ms: int, to_ms: int) -> str | None:
        """Return what can explain that something of the first time came again at the second, None: nothing."""
        if self._open:
            return next(f"{what} {target}" for what, target in self._open)
        at = bisect_left(self._moments, (from_ms - AFTERMATH_MS, ""))
        if at < len(self._moments) and self._moments[at][0] <= to_ms:
            return self._moments[at][1]
        return None
