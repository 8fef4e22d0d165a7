"""Queues that a loss of power has made shorter, while those who read them lived on.

Consumers get what the disk has not got yet; with SYNC_FLUSH, too, before its producer is told anything. When that is
lost, they still know where they stood: behind the end of the queue for a while. They tell the broker so, and what gets
the lost offsets anew is passed over if it is there before they ask again. RocketMQ's members do the same. What a broker
itself knows after a start is no part of it: it saves no offset ahead of its log.
"""

from staticfire.simulation.checkers.events import ProcessBegan, ProcessEnded, QueuePlace, RunEvent
from staticfire.simulation.workload.description import Workload

CATCHES_UP_MS = 150_000
# From the start of the broker: members find their locks, share queues anew and ask again.
_TAKING = ("without power", "crashed")


class Rewinds:
    """Which groups had members that lived through it, and how long that matters."""

    def __init__(self, workload: Workload) -> None:
        self._brokers = workload.brokers.names
        self._groups = {member: group.name for group in workload.groups for member in group.member_names}
        self._up: set[str] = set()
        self._until_ms: dict[tuple[str, str], float] = {}

    def see(self, event: RunEvent) -> None:
        """Hear of processes that begin and end."""
        match event:
            case ProcessBegan(at_ms=at_ms, who=who):
                self._up.add(who)
                for group, broker in self._until_ms:
                    if broker == who and self._until_ms[group, broker] == float("inf"):
                        self._until_ms[group, broker] = at_ms + CATCHES_UP_MS
            case ProcessEnded(who=who, how=how):
                self._up.discard(who)
                if who in self._brokers and how in _TAKING:
                    lived = {self._groups[member] for member in self._up if member in self._groups}
                    self._until_ms |= {(group, who): float("inf") for group in lived}
            case _:
                pass

    def have_been(self, group: str, place: QueuePlace) -> bool:
        """Whether members of the group have lived through one of that queue's broker."""
        return (group, place[0]) in self._until_ms

    def matter(self, group: str, place: QueuePlace, at_ms: int) -> bool:
        """Whether members may still stand where they stood before one."""
        return at_ms <= self._until_ms.get((group, place[0]), -1)
