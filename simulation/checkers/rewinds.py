"""Queues that became shorter by a power loss while their readers were running.

Consumers get messages that aren't on the disk yet; with SYNC_FLUSH, too, before their producer is notified. When such
messages are lost, consumers still have their old offsets, after the end of the queue, and report them to the broker.
New messages at the lost offsets are skipped if they are stored before the consumers request the offsets again.
RocketMQ's members do the same. What a broker itself has after a start is never affected: it saves no offset ahead of
its log.
"""

from bisect import bisect_left, bisect_right

from staticfire.simulation.checkers.events import (
    CallBegan,
    MasterSeen,
    MessageFound,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    QueuePlace,
    RunEvent,
    SendAcknowledged,
    SendBegan,
)
from staticfire.simulation.checkers.losses import SHORTENING
from staticfire.simulation.checkers.older_masters import OlderMasters
from staticfire.simulation.workload.description import Workload

# Counted from the start of the broker: members find their locks, rebalance, and request offsets again.
CATCHES_UP_MS = 150_000


class Rewinds:
    """Which groups had running members during a power loss, and for how long that matters."""

    def __init__(self, workload: Workload) -> None:
        self._brokers = workload.brokers.names
        self._groups = {member: group.name for group in workload.groups for member in group.member_names}
        self._up: set[str] = set()
        self._until_ms: dict[tuple[str, str], float] = {}

    def see(self, event: RunEvent) -> None:
        """Process starts and ends of processes."""
        match event:
            case ProcessBegan(at_ms=at_ms, who=who):
                self._up.add(who)
                for group, broker in self._until_ms:
                    if broker == who and self._until_ms[group, broker] == float("inf"):
                        self._until_ms[group, broker] = at_ms + CATCHES_UP_MS
            case ProcessEnded(who=who, how=how):
                self._up.discard(who)
                if who in self._brokers and how in SHORTENING:
                    lived = {self._groups[member] for member in self._up if member in self._groups}
                    self._until_ms |= {(group, who): float("inf") for group in lived}
            case _:
                pass

    def have_been(self, group: str, place: QueuePlace) -> bool:
        """Return whether members of the group were running during a power loss of that queue's broker."""
        return (group, place[0]) in self._until_ms

    def matter(self, group: str, place: QueuePlace, at_ms: int) -> bool:
        """Return whether members may still have offsets from before a power loss."""
        return at_ms <= self._until_ms.get((group, place[0]), -1)


class PassedOffsets:
    """Which offsets the members of a group that filters may have passed before the queue became shorter.

    They pass messages that don't match up to the end of the queue, and no event tells how far. So each event that shows
    how long a queue is counts: a response to a producer, a call of any group, an offset. A message that is stored later
    than that, but at a lower offset, is one that they may skip. What was stored before, and survived, isn't. An older
    master that still runs beside the present one shows no ends: what is stored meanwhile may be skipped.
    """

    def __init__(self) -> None:
        self._began_ms: dict[str, int] = {}
        self._acknowledged_ms: dict[str, int] = {}
        self._elsewhere: set[str] = set()
        """Half and delayed messages: the offset in the response isn't one of their queue."""
        self._ends: dict[QueuePlace, tuple[list[int], list[int]]] = {}
        """When a queue was longer than ever before, and its end then."""
        self._shortened_ms: dict[str, list[int]] = {}
        self._older_masters = OlderMasters()

    def see(self, event: RunEvent) -> None:
        """Process what shows the end of a queue, and ends of brokers."""
        match event:
            case SendBegan(at_ms=at_ms, name=name):
                self._began_ms[name] = at_ms
                if event.due_ms or event.is_half:
                    self._elsewhere.add(name)
            case SendAcknowledged(at_ms=at_ms, name=name, place=place, offset=offset):
                self._acknowledged_ms[name] = at_ms
                if name not in self._elsewhere:
                    self._note_end(at_ms, place, offset + 1)
            case CallBegan(at_ms=at_ms, place=place, messages=messages):
                self._note_end(at_ms, place, max((seen.offset for seen in messages), default=-1) + 1)
            case OffsetSeen(at_ms=at_ms, place=place, offset=offset, end=end):
                self._note_end(at_ms, place, max(offset, end))
            case ProcessEnded(at_ms=at_ms, who=who, how=how) if how in SHORTENING:
                self._shortened_ms.setdefault(who, []).append(at_ms)
            case MasterSeen():
                self._older_masters.see(event)
            case _:
                pass

    def _note_end(self, at_ms: int, place: QueuePlace, end: int) -> None:
        times, ends = self._ends.setdefault(place, ([], []))
        if not ends or end > ends[-1]:
            times.append(at_ms)
            ends.append(end)

    def may_include(self, found: MessageFound) -> bool:
        """Return whether the queue was already longer, and became shorter, before a message was stored in it."""
        shortened_ms = self._shortened_ms.get(found.place[0], [])
        count = len(shortened_ms)
        if found.name in self._acknowledged_ms and found.name not in self._elsewhere:
            count = bisect_right(shortened_ms, self._acknowledged_ms[found.name])
        if not count:
            return False
        stored_ms = self._acknowledged_ms.get(found.name)
        if stored_ms is not None and self._older_masters.were_beside(stored_ms, 0, found.place[0]):
            return True
        from_ms = max(self._began_ms.get(found.name, 0), shortened_ms[count - 1])
        times, ends = self._ends.get(found.place, ([], []))
        known = bisect_left(times, from_ms)
        return known > 0 and found.offset < ends[known - 1]
