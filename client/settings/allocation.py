"""Who gets which queues: every member of a group computes the same answer for itself. Pure.

RocketMQ: AllocateMessageQueueStrategy. Queues and client ids come sorted, the same at every member, so that each queue
has exactly one owner as soon as all members know of each other. More members than queues: the surplus get none.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import ClientError
from staticfire.protocol.names import is_retry_topic


class AllocateStrategy(Protocol):
    """A way to share queues."""

    @property
    def name(self) -> str:
        """RocketMQ's name of it."""

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of `client_id`, of all `queues` (sorted) and members `client_ids` (sorted).

        A client that isn't among the members gets nothing. Raises: ClientError when a share can't be computed.
        """


def own_index(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> int | None:
    """Return the place of a client among the members, None when it isn't one. Raises: ClientError."""
    if not client_id or not queues or not client_ids:
        raise ClientError(f"nothing to share: client {client_id!r}, {len(queues)} queues, {len(client_ids)} members")
    return client_ids.index(client_id) if client_id in client_ids else None


class Averagely:
    """Contiguous blocks whose sizes differ by at most one; the first members get the larger ones.

    10 queues and 3 members: 0-3, 4-6, 7-9. RocketMQ: AllocateMessageQueueAveragely.
    """

    name = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return one block."""
        index = own_index(client_id, queues, client_ids)
        if index is None:
            return []
        size, larger = divmod(len(queues), len(client_ids))
        start = index * size + min(index, larger)
        return list(queues[start : start + size + (index < larger)])


class AveragelyByCircle:
    """One queue each in turn, round and round. RocketMQ: AllocateMessageQueueAveragelyByCircle."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return every n-th queue, n being the number of members."""
        index = own_index(client_id, queues, client_ids)
        return [] if index is None else list(queues[index :: len(client_ids)])


AVERAGELY = Averagely()
AVERAGELY_BY_CIRCLE = AveragelyByCircle()


class ByConfig:
    """The queues that a member was given by hand, whoever else is there. RocketMQ: AllocateMessageQueueByConfig.

    Nobody looks whether two members were given the same queue, or a queue nobody. The group's retries would be such a
    queue: hardly anybody names them. So they are shared by a strategy of their own. In RocketMQ, and here with
    `retries=None`, nobody consumes them unless somebody was given them.
    """

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue], retries: AllocateStrategy | None = AVERAGELY) -> None:
        """`queues`: of all topics of the consumer."""
        self._own = frozenset(queues)
        self._retries = retries

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return what of the own queues is there."""
        if self._retries is not None and queues and is_retry_topic(queues[0].topic):
            return self._retries.allocate(group, client_id, queues, client_ids)
        return [queue for queue in queues if queue in self._own]
