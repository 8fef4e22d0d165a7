"""Which queues are full: their members have so many messages at work that they take no more.

RocketMQ's flow control: a member pulls or pops no further messages of a queue while it has more of them than its
threshold, and looks again every 50 ms. A pulled queue is full when its owner is. Popped queues of a topic and broker
belong to all members together, so they are full when every running member is.
"""

from collections import Counter

from staticfire.protocol.names import asked_for
from staticfire.simulation.checkers.events import CallBegan, ProcessBegan, ProcessEnded, QueuePlace, RunEvent
from staticfire.simulation.workload.description import Group, Workload

# RocketMQ: pullThresholdForQueue, popThresholdForQueue.
PULL_THRESHOLD, POP_THRESHOLD = 1_000, 96

_Source = tuple[str, str, str, int]
"""A group, and what it takes messages from: broker, topic, queue id. The id is -1 if it pops."""


class FullQueues:
    """The number of messages at work, and until when each queue was full."""

    def __init__(self, workload: Workload) -> None:
        self._groups = {group.name: group for group in workload.groups}
        self._members = {member: group.name for group in workload.groups for member in group.member_names}
        self._thresholds = {group.name: _threshold(group) for group in workload.groups}
        self._up: dict[str, set[str]] = {group.name: set() for group in workload.groups}
        self._at_work: dict[_Source, Counter[str]] = {}
        """The number of messages by member."""
        self._until_ms: dict[_Source, float] = {}

    def began(self, call: CallBegan) -> None:
        """Count the messages of a call."""
        source = _source(self._groups[call.group], call.place)
        self._at_work.setdefault(source, Counter())[call.member] += len(call.messages)

    def ended(self, call: CallBegan, at_ms: int) -> None:
        """Subtract the messages of a call that has ended."""
        source = _source(self._groups[call.group], call.place)
        was_full = self._is_full(source)
        self._at_work[source][call.member] -= len(call.messages)
        if was_full:
            self._until_ms[source] = at_ms

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
        source = _source(group, place)
        return float("inf") if self._is_full(source) else self._until_ms.get(source, 0)

    def _is_full(self, source: _Source) -> bool:
        group, counts = source[0], self._at_work.get(source, Counter())
        full = {member for member, count in counts.items() if count > self._thresholds[group]}
        return bool(full) and (not self._groups[group].popped or full >= self._up[group])


def _source(group: Group, place: QueuePlace) -> _Source:
    broker, topic, _ = place
    return (group.name, broker, asked_for(topic, group.name), -1) if group.popped else (group.name, *place)


def _threshold(group: Group) -> int:
    name, usual = ("pop", POP_THRESHOLD) if group.popped else ("pull", PULL_THRESHOLD)
    return int(group.settings.get(f"{name}_threshold_for_queue", usual))
