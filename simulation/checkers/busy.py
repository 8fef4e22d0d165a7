"""Which members have time for a message: besides faults, a busy member excuses a delay."""

from math import inf

from staticfire.simulation.checkers.events import CallBegan, CallEnded, ProcessEnded, QueuePlace, RunEvent
from staticfire.simulation.checkers.full_queues import FullQueues
from staticfire.simulation.checkers.unrest import POP_INVISIBLE_MS
from staticfire.simulation.workload.description import PUSH, Group, Workload

# RocketMQ: consumeThreadMin.
THREADS = 20
# Runs set it for ordered groups as suspendCurrentQueueTimeMillis.
SUSPENDED_MS = 500


class BusyMembers:
    """The running calls, and until when each group had no free thread or no room for more messages of a queue."""

    def __init__(self, workload: Workload) -> None:
        self._calls: dict[int, CallBegan] = {}
        self._running: dict[str, int] = {}
        self._free_ms: dict[str, float] = {}
        self._queue_free_ms: dict[tuple[str, QueuePlace], float] = {}
        """For ordered groups: until when the other messages of a queue had to wait."""
        self._full = FullQueues(workload)
        self._threads = {group.name: threads_of(group) for group in workload.groups}
        self._groups = {group.name: group for group in workload.groups}

    def began(self, call: CallBegan) -> None:
        """Note the start of a listener's call."""
        self._calls[call.call] = call
        self._running[call.member] = self._running.get(call.member, 0) + 1
        self._full.began(call)
        if call.is_ordered:
            self._queue_free_ms[call.group, call.place] = inf

    def ended(self, ended: CallEnded) -> CallBegan | None:
        """Note the end of a call; return the call."""
        began = self._calls.pop(ended.call, None)
        if began is None:
            return None
        group = self._groups[began.group]
        self._full.ended(began, ended.at_ms)
        if self._running[began.member] >= self._threads[group.name]:
            # A message that a busy member couldn't consume within this time is redelivered after it.
            invisible_ms = group.settings.get("pop_invisible_time_ms", POP_INVISIBLE_MS) if group.popped else 0
            self._free_ms[group.name] = max(self._free_ms.get(group.name, 0), ended.at_ms + invisible_ms)
        self._running[began.member] -= 1
        if group.ordered:
            self._queue_free_ms[group.name, began.place] = ended.at_ms + (0 if ended.is_success else SUSPENDED_MS)
        return began

    def see(self, event: RunEvent) -> None:
        """Note which members run. Remove the calls of a member that is gone."""
        self._full.see(event)
        if isinstance(event, ProcessEnded) and self._running.pop(event.who, 0):
            for number, call in list(self._calls.items()):
                if call.member == event.who:
                    del self._calls[number]
                    if call.is_ordered:
                        self._queue_free_ms[call.group, call.place] = event.at_ms

    def until(self, group: Group, place: QueuePlace | None) -> float:
        """Return until when a member had no thread or no room for another message of a queue; infinity: still."""
        threads = self._threads[group.name]
        if any(self._running.get(member, 0) >= threads for member in group.member_names):
            return inf
        free_ms = self._free_ms.get(group.name, 0)
        if place is None:
            return free_ms
        return max(free_ms, self._queue_free_ms.get((group.name, place), 0), self._full.until(group, place))


def threads_of(group: Group) -> int:
    """Return how many calls of a member may run at the same time."""
    if group.way != PUSH:
        return 1  # Its program consumes one call after the other.
    return int(group.settings.get("consume_threads", THREADS))
