"""Distribution by consistent hash: a member that joins or leaves moves only its own share. Pure.

RocketMQ: AllocateMessageQueueConsistentHash, ConsistentHashRouter. Each member has several places on a ring, and a
queue belongs to the next one at or after the queue's own place. So the shares are uneven: with ten places each, the
largest of a few members can be twice the smallest.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.settings.allocation import own_index
from staticfire.protocol.errors import UsageError

VIRTUAL_NODES = 10
VIRTUAL_NODES_MAX = 10_000


def md5_place(key: str) -> int:
    """Return the first four bytes of the key's MD5, as a number. RocketMQ: ConsistentHashRouter.MD5Hash."""
    # OpenSSL takes 3 MiB, so it is imported only if this strategy is used.
    from hashlib import md5

    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4])


class ConsistentHash:
    """Assigns each queue to the member that follows it on the ring."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES, place_of: Callable[[str], int] = md5_place) -> None:
        """`virtual_nodes`: the number of each member's places. `place_of`: a key's place, the same at all members.

        Raises: UsageError.
        """
        if not 1 <= virtual_nodes <= VIRTUAL_NODES_MAX:
            raise UsageError(f"virtual_nodes={virtual_nodes}: allowed are 1 to {VIRTUAL_NODES_MAX:,}")
        self._virtual_nodes = virtual_nodes
        self._place_of = place_of

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues whose next place on the ring is one of this client."""
        if own_index(client_id, queues, client_ids) is None:
            return []
        ring = self._ring(client_ids)
        places = sorted(ring)
        owned = []
        for queue in queues:
            at = bisect_left(places, self._place_of(_key_of(queue)))
            if ring[places[at % len(places)]] == client_id:
                owned.append(queue)
        return owned

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        """Return the member at each place. If two have the same place, the later one gets it."""
        return {
            self._place_of(f"{client_id}-{number}"): client_id
            for client_id in client_ids
            for number in range(self._virtual_nodes)
        }


def _key_of(queue: MessageQueue) -> str:
    """Return a queue as Java's MessageQueue.toString writes it."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
