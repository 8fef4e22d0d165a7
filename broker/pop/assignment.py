"""Assign queues to clients, decided by the broker. Pure. RocketMQ: QueryAssignmentProcessor."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from staticfire.protocol.requests.assignment import MODE_POP, QueueAssignment
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.pop import ALL_QUEUES

Queues = list[MessageQueue]


class Question(NamedTuple):
    """The client that requests an assignment, and the group's clients."""

    client_id: str
    client_ids: list[str]
    strategy: str
    mode: str | None
    share: int
    """`popShareQueueNum`."""


def average(queues: Sequence[MessageQueue], index: int, count: int) -> Queues:
    """Return a client's share: queues next to each other."""
    share, more = divmod(len(queues), count)
    first = index * share + min(index, more)
    return list(queues[first : first + share + (index < more)])


def average_by_circle(queues: Sequence[MessageQueue], index: int, count: int) -> Queues:
    """Return a client's share: every `count`-th queue."""
    return list(queues[index::count])


_STRATEGIES: dict[str, Callable[[Sequence[MessageQueue], int, int], Queues]] = {
    "AVG": average,
    "AVG_BY_CIRCLE": average_by_circle,
}


def assigned(queues: Queues, question: Question) -> list[QueueAssignment] | None:
    """Return the queues of a client; None if it must keep what it has."""
    strategy = _STRATEGIES.get(question.strategy)
    if strategy is None or not question.client_ids:
        return None
    queues = sorted(queues, key=lambda queue: (queue.topic, queue.broker_name, queue.queue_id))
    client_ids = sorted(question.client_ids)
    index = client_ids.index(question.client_id) if question.client_id in client_ids else -1
    if question.mode == MODE_POP:
        return _as(_popped(queues, index, len(client_ids), strategy, question.share), question.mode)
    if not question.client_id:
        return None
    return _as(strategy(queues, index, len(client_ids)) if index >= 0 else [], question.mode)


def _popped(
    queues: Queues, index: int, count: int, strategy: Callable[[Sequence[MessageQueue], int, int], Queues], share: int
) -> Queues:
    if share <= 0 or share >= count - 1:
        topics = {(queue.topic, queue.broker_name): None for queue in queues}
        return [MessageQueue(topic, broker, ALL_QUEUES) for topic, broker in topics]
    if index < 0:
        return []
    if count > len(queues):
        return [queues[index % len(queues)]] if queues else []
    shares = [strategy(queues, (index + step) % count, count) for step in range(share + 1)]
    return [queue for one in shares for queue in one]


def _as(queues: Queues, mode: str | None) -> list[QueueAssignment]:
    return [QueueAssignment(queue, mode) for queue in dict.fromkeys(queues)]


def in_mode(queues: Queues, mode: str | None) -> list[QueueAssignment]:
    """Return all queues as assignments."""
    return _as(queues, mode)
