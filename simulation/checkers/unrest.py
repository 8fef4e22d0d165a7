"""When something was broken: what excuses a duplicate, and what doesn't."""

from bisect import bisect_left

from staticfire.simulation.checkers.events import FaultBegan, FaultEnded, ProcessBegan, ProcessEnded, RunEvent

AFTERMATH_MS = 150_000
# A group learns of a dead member after 120 s, of a dead lock after 60 s.


class TroubledTimes:
    """The moments at which something began or ceased to be broken, and the times between them."""

    def __init__(self) -> None:
        self._moments: list[tuple[int, str]] = []
        self._open: dict[tuple[str, str], int] = {}
        self._times: list[tuple[int, int, str]] = []

    def see(self, event: RunEvent) -> None:
        match event:
            case FaultBegan(at_ms, what, target):
                self._open[what, target] = at_ms
                self._moments.append((at_ms, f"{what} {target}".rstrip()))
            case FaultEnded(at_ms, what, target):
                words = f"{what} {target}".rstrip()
                self._times.append((self._open.pop((what, target), at_ms), at_ms, words))
                self._moments.append((at_ms, f"end of {words}"))
            case ProcessBegan(at_ms, who):
                self._moments.append((at_ms, f"start of {who}"))
            case ProcessEnded(at_ms, who, how):
                self._moments.append((at_ms, f"{who} {how}"))
            case _:
                pass

    def cause(self, from_ms: int, to_ms: int) -> str | None:
        """Return what can explain that something of the first time came again at the second, None: nothing.

        `to_ms`: now.
        """
        if self._open:
            return next(f"{what} {target}" for what, target in self._open)
        return self._moment(from_ms - AFTERMATH_MS, to_ms)

    def during(self, from_ms: int, to_ms: int) -> str | None:
        """Return what was broken at some moment between two times, None: nothing."""
        for begin_ms, end_ms, words in self._times:
            if begin_ms <= to_ms and from_ms <= end_ms:
                return words
        still_open = (words for (words, _), begin_ms in self._open.items() if begin_ms <= to_ms)
        return next(still_open, None) or self._moment(from_ms, to_ms)

    def _moment(self, from_ms: int, to_ms: int) -> str | None:
        at = bisect_left(self._moments, (from_ms, ""))
        return self._moments[at][1] if at < len(self._moments) and self._moments[at][0] <= to_ms else None
