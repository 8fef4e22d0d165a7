"""How far a group has come in what was sent. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from staticfire.client import GroupMember, GroupView, MessageQueue

BROADCASTING = "BROADCASTING"
NAMED_MAX = 8


@dataclass(frozen=True, slots=True)
class QueueLeft:
    """A queue whose messages a group has not all consumed."""

    queue: MessageQueue
    consumed: int
    """The offset up to which it has; -1: none is known."""
    end: int

    @property
    def count(self) -> int:
        """How many messages are left."""
        return self.end - max(0, self.consumed)


def queues_left(ends: Mapping[MessageQueue, int], view: GroupView | None) -> list[QueueLeft]:
    """Return the queues that a group hasn't consumed up to these offsets; all of them for a group that isn't there.

    What counts is what brokers were told, and what members that are connected say of themselves: they tell brokers only
    every few seconds.
    """
    left = []
    for queue, end in ends.items():
        consumed = -1 if view is None else _consumed(queue, view)
        if consumed < end and end > 0:
            left.append(QueueLeft(queue, consumed, end))
    return left


def _consumed(queue: MessageQueue, view: GroupView) -> int:
    members = list(_said(queue, view.members))
    if view.message_model == BROADCASTING:
        return min(members) if len(members) == len(view.members) and members else -1
    committed = (
        one.committed
        for one in view.progress
        if (one.topic, one.broker_name, one.queue_id) == (queue.topic, queue.broker_name, queue.queue_id)
    )
    return max([*committed, *members], default=-1)


def _said(queue: MessageQueue, members: Iterable[GroupMember]) -> Iterable[int]:
    """Yield how far each member is that has the queue."""
    for member in members:
        for held in member.queues:
            if (held.topic, held.broker_name, held.queue_id) == (queue.topic, queue.broker_name, queue.queue_id):
                yield held.commit_offset


def left_text(left: Iterable[QueueLeft]) -> str:
    """Return what is left in words: how much, and where."""
    found = sorted(left, key=lambda one: (one.queue.topic, one.queue.broker_name, one.queue.queue_id))
    places = [f"{one.queue.topic} {one.queue.broker_name}/{one.queue.queue_id}: {one.count}" for one in found]
    more = f" and {len(places) - NAMED_MAX} more queues" if len(places) > NAMED_MAX else ""
    return f"{sum(one.count for one in found):,} left ({', '.join(places[:NAMED_MAX])}{more})"
