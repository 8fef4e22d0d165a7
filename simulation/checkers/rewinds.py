"""Queues that became shorter by a power loss while their readers were running.

Consumers get messages that aren't on the disk yet; with SYNC_FLUSH, too, before their producer is notified. When such
messages are lost, consumers still have their old offsets, after the end of the queue, and report them to the broker.
New messages at the lost offsets are skipped if they are stored before the consumers request the offsets again.
RocketMQ's members do the same. What a broker itself has after a start is never affected: it saves no offset ahead of
its log.
"""

from staticfire.simulation.checkers.events import ProcessBegan, ProcessEnded, QueuePlace, RunEvent
from staticfire.simulation.checkers.losses import SHORTENING
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
