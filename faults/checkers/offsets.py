"""Offsets that groups have committed."""

from staticfire.faults.checkers.checker import Checker
from staticfire.faults.checkers.events import OffsetSeen, QueuePlace, RunEvent
from staticfire.faults.workload.description import Workload


class OffsetsGrow(Checker):
    """As long as a broker lives, no group goes back; and no group ever stands behind the end of a queue."""

    promise = "a group never goes back while its broker lives, and never stands beyond what exists"
    hears = (OffsetSeen,)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._last: dict[tuple[str, QueuePlace], OffsetSeen] = {}

    def see(self, event: RunEvent) -> None:
        if not isinstance(event, OffsetSeen):
            return
        before = self._last.get((event.group, event.place))
        self._last[event.group, event.place] = event
        if event.offset > event.end:
            self.broken(
                event.at_ms, f"{event.group} stands at {event.offset} of {event.place}, which ends at {event.end}"
            )
        if before is not None and before.life == event.life and event.offset < before.offset:
            self.broken(event.at_ms, f"{event.group} went back from {before.offset} to {event.offset} of {event.place}")
