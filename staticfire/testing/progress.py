"""Compute which messages a group has not consumed yet. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from staticfire.client import GroupView, MessageQueue
from staticfire.protocol.lag import lag_of
from staticfire.protocol.names import pop_retry_topic
from staticfire.protocol.pop_handles import RETRY, RETRY_V2

BROADCASTING = "BROADCASTING"
NAMED_MAX = 8


@dataclass(frozen=True, slots=True)
class QueueLeft:
    """A queue in which a group has messages left to consume."""

    queue: MessageQueue
    consumed: int
    """The offset up to which the group has consumed, or -1 if none is known."""
    end: int
    popped: int = 0
    """The number of messages that were popped but not acknowledged. `consumed` is after them."""
    first: int = 0
    """The first offset that is still stored."""

    @property
    def count(self) -> int:
        """The number of messages left."""
        return lag_of(self.end, self.consumed, self.first, self.popped)


def queues_left(
    ends: Mapping[MessageQueue, int], view: GroupView | None, firsts: Mapping[MessageQueue, int] | None = None
) -> list[QueueLeft]:
    """Return the queues that a group hasn't consumed up to these offsets; all queues if there is no such group.

    `firsts`: the first offsets that are still stored, where they are known.

    This uses the offsets that brokers have and those that connected members report themselves, since members report to
    brokers only every few seconds. A popped message counts when it is acknowledged, or when a push consumer failed.
    """
    consumed_to = {} if view is None else _consumed(view)
    worked_on = {} if view is None else {one.queue: one for one in view.progress if one.working_from >= 0}
    left = []
    for queue, end in ends.items():
        consumed, working = consumed_to.get(queue, -1), worked_on.get(queue)
        popped = working.unacknowledged if working is not None and working.working_from < end else 0
        one = QueueLeft(queue, consumed, end, popped, (firsts or {}).get(queue, 0))
        if one.count:
            left.append(one)
    return left


def ends_of_returned(topic: str, view: GroupView | None) -> dict[MessageQueue, int]:
    """Return the ends of the retry queues with a topic's popped messages that will be redelivered."""
    if view is None:
        return {}
    names = [pop_retry_topic(topic, view.group, version) for version in (RETRY, RETRY_V2)]
    return {one.queue: one.end for one in view.progress if one.topic in names}


def _consumed(view: GroupView) -> dict[MessageQueue, int]:
    """Return the offset up to which a group has consumed, by queue."""
    said: dict[MessageQueue, list[int]] = {}
    for member in view.members:
        for held in member.queues:
            said.setdefault(held.queue, []).append(held.commit_offset)
    if view.message_model == BROADCASTING:
        return {queue: min(offsets) for queue, offsets in said.items() if len(offsets) == len(view.members)}
    for one in view.progress:
        said.setdefault(one.queue, []).append(one.committed)
    return {queue: max(offsets) for queue, offsets in said.items()}


def left_text(left: Iterable[QueueLeft]) -> str:
    """Describe what is left: how many messages, and in which queues."""
    found = sorted(left, key=lambda one: one.queue)
    places = [f"{one.queue}: {one.count}" for one in found]
    more = f" and {len(places) - NAMED_MAX} more queues" if len(places) > NAMED_MAX else ""
    return f"{sum(one.count for one in found):,} left ({', '.join(places[:NAMED_MAX])}{more})"
