"""Offsets that groups have committed."""

from staticfire.faults.checkers.checker import Checker
from staticfire.faults.checkers.events import (
    FaultBegan,
    FaultEnded,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
)
from staticfire.faults.checkers.unrest import TroubledTimes
from staticfire.faults.workload.description import Workload

CHANGING_HANDS_MS = 45_000
# Members share queues anew every 20 s, and tell their offsets every 5 s.


class OffsetsGrow(Checker):
    """As long as a broker lives, no group goes back; and no group ever stands behind the end of a queue.

    A queue that changes hands is excused, in groups that take no locks: the new owner may have asked where to begin
    before the old one told how far it had come, and tells its own offsets from there on, as with RocketMQ.
    """

    promise = "a group never goes back while its broker and its members stay, and never stands beyond what exists"
    hears = (OffsetSeen, FaultBegan, FaultEnded, ProcessBegan, ProcessEnded)

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self._last: dict[tuple[str, QueuePlace], OffsetSeen] = {}
        self._troubled = TroubledTimes()

    def see(self, event: RunEvent) -> None:
        if not isinstance(event, OffsetSeen):
            self._troubled.see(event)
            return
        before = self._last.get((event.group, event.place))
        self._last[event.group, event.place] = event
        if event.offset > event.end:
            self.broken(
                event.at_ms, f"{event.group} stands at {event.offset} of {event.place}, which ends at {event.end}"
            )
        if before is None or before.life != event.life or event.offset >= before.offset:
            return
        is_in_order = self.groups[event.group].ordered
        if is_in_order or self._troubled.during(event.at_ms - CHANGING_HANDS_MS, event.at_ms) is None:
            self.broken(event.at_ms, f"{event.group} went back from {before.offset} to {event.offset} of {event.place}")
