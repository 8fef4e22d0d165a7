"""Which queues are full: their members have so many messages at work that they take no more.

RocketMQ's flow control: a member pulls or pops no further messages of a queue while it has more of them than its
threshold, and looks again every 50 ms. A pulled queue is full when its owner is. Popped queues of a topic and broker
belong to all members together, so they are full when every running member is.
"""

from math import inf

from staticfire.protocol.names import requested_topic
from staticfire.simulation.checkers.events import CallBegan, ProcessBegan, ProcessEnded, QueuePlace, RunEvent
from staticfire.simulation.workload.description import Group, Workload

# RocketMQ: pullThresholdForQueue, popThresholdForQueue.
PULL_THRESHOLD, POP_THRESHOLD = 1_000, 96

_Source = tuple[str, QueuePlace]
"""A group, and what it takes messages from: a queue; the queue id is -1 if it pops."""


class FullQueues:
    """The number of messages at work, and until when each queue was full."""

    def __init__(self, workload: Workload) -> None:
        self._groups = {group.name: group for group in workload.groups}
        self._members = {member: group.name for group in workload.groups for member in group.member_names}
        self._thresholds = {group.name: _threshold(group) for group in workload.groups}
        self._up: dict[str, set[str]] = {group.name: set() for group in workload.groups}
        self._at_work: dict[_Source, dict[str, int]] = {}
        """The number of messages by member."""
        self._until_ms: dict[_Source, float] = {}

    def began(self, call: CallBegan) -> None:
        """Count the messages of a call."""
        counts = self._at_work.setdefault(self._source(call.group, call.place), {})
        counts[call.member] = counts.get(call.member, 0) + len(call.messages)

    def ended(self, call: CallBegan, at_ms: int) -> None:
        """Subtract the messages of a call that has ended."""
        source = self._source(call.group, call.place)
        counts = self._at_work[source]
        count = counts[call.member]
        if count > self._thresholds[call.group] and self._is_full(source):
            self._until_ms[source] = at_ms
        counts[call.member] = count - len(call.messages)

    def see(self, event: RunEvent) -> None:
        """Note which members run. What a member had at work ends with it."""
        if isinstance(event, ProcessBegan) and event.who in self._members:
            self._up[self._members[event.who]].add(event.who)
        elif isinstance(event, ProcessEnded) and event.who in self._members:
            self._up[self._members[event.who]].discard(event.who)
            for counts in self._at_work.values():
                counts.pop(event.who, None)

    def until(self, group: Group, place: QueuePlace) -> float:
        """Return until when a queue was full; infinity: it still is."""
        source = self._source(group.name, place)
        return inf if self._is_full(source) else self._until_ms.get(source, 0)

    def _is_full(self, source: _Source) -> bool:
        name, _ = source
        full = {member for member, count in self._at_work.get(source, {}).items() if count > self._thresholds[name]}
        return bool(full) and (not self._groups[name].popped or full >= self._up[name])

    def _source(self, group: str, place: QueuePlace) -> _Source:
        if self._groups[group].popped:
            return group, (place[0], requested_topic(place[1], group), -1)
        return group, place


def _threshold(group: Group) -> int:
    name, usual = ("pop", POP_THRESHOLD) if group.popped else ("pull", PULL_THRESHOLD)
    return int(group.settings.get(f"{name}_threshold_for_queue", usual))
