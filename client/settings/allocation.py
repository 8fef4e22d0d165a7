"""Distributes queues among members: every member of a group computes the same result for itself. Pure.

RocketMQ: AllocateMessageQueueStrategy. Queues and client ids are sorted, and the same at every member. So each queue
has exactly one owner as soon as all members know each other. If there are more members than queues, some get none.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import ClientError
from staticfire.protocol.names import is_retry_topic


class AllocateStrategy(Protocol):
    """A way to distribute queues."""

    @property
    def name(self) -> str:
        """RocketMQ's name for it."""

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of `client_id`, given all `queues` (sorted) and the members `client_ids` (sorted).

        A client that isn't a member gets no queues. Raises: ClientError if the share can't be computed.
        """


def own_index(client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> int | None:
    """Return a client's index among the members; None if it isn't a member. Raises: ClientError."""
    if not client_id or not queues or not client_ids:
        raise ClientError(f"nothing to allocate: client {client_id!r}, {len(queues)} queues, {len(client_ids)} members")
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
    """One queue to each member in turn, again and again. RocketMQ: AllocateMessageQueueAveragelyByCircle."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return every n-th queue, where n is the number of members."""
        index = own_index(client_id, queues, client_ids)
        return [] if index is None else list(queues[index :: len(client_ids)])


AVERAGELY = Averagely()
AVERAGELY_BY_CIRCLE = AveragelyByCircle()


class ByConfig:
    """The queues that were configured for this member, whichever other members there are.

    RocketMQ: AllocateMessageQueueByConfig. There is no check that two members don't have the same queue, or that each
    queue has a member. The group's retry queues would have none, because few users configure them. So a separate
    strategy distributes these. In RocketMQ, and here with `retries=None`, they are consumed only if they are
    configured.
    """

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue], retries: AllocateStrategy | None = AVERAGELY) -> None:
        """`queues`: of all topics of the consumer."""
        self._own = frozenset(queues)
        self._retries = retries

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the configured queues that exist."""
        if self._retries is not None and queues and is_retry_topic(queues[0].topic):
            return self._retries.allocate(group, client_id, queues, client_ids)
        return [queue for queue in queues if queue in self._own]
