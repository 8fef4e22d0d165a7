"""Selectors, which choose the queue of an ordered send. RocketMQ: MessageQueueSelector.

Any function of a topic's queues, the message and the key is allowed: `selector=lambda queues, message, key: queues[0]`.
"""

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import ClientError
from staticfire.protocol.messages import Message
from staticfire.protocol.tags import java_hash

# The maximum length of a selector's result in an error message.
CHOICE_CHARACTERS_MAX = 80
Selector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]


def by_hash(queues: Sequence[MessageQueue], _: Message, key: Any) -> MessageQueue:
    """Choose the queue by the key's hash: always the same queue while the topic's queues don't change.

    RocketMQ: SelectMessageQueueByHash. Text and numbers have the same hash codes as in Java, so a Java producer chooses
    the same queue.

    Raises: ClientError (a key of another type).
    """
    return queues[abs(_java_hash_code(key)) % len(queues)]


class ByRandom:
    """Chooses a queue at random. RocketMQ: SelectMessageQueueByRandom."""

    def __init__(self, random: Random | None = None) -> None:
        """`random`: one with a seed, if runs must be repeatable."""
        self._random = random or Random()

    def __call__(self, queues: Sequence[MessageQueue], _: Message, key: Any) -> MessageQueue:
        return queues[self._random.randrange(len(queues))]


class ByMachineRoom:
    """Chooses among the queues of some machine rooms, by the prefix of the broker's name: `east-broker-a`.

    RocketMQ: SelectMessageQueueByMachineRoom, which isn't implemented there and chooses nothing.
    """

    def __init__(self, rooms: Collection[str], inner: Selector | None = None, separator: str = "-") -> None:
        """`inner`: chooses one of these queues; by default by the hash of the key."""
        self._rooms = frozenset(rooms)
        self._inner = inner or by_hash
        self._separator = separator

    def __call__(self, queues: Sequence[MessageQueue], message: Message, key: Any) -> MessageQueue:
        """Raises: ClientError (none of the topic's queues is in any of the rooms)."""
        near = [queue for queue in queues if queue.broker_name.partition(self._separator)[0] in self._rooms]
        if not near:
            brokers = ", ".join(sorted({queue.broker_name for queue in queues}))
            raise ClientError(
                f"no queue of topic {message.topic} is in {', '.join(sorted(self._rooms))}: its brokers are {brokers}"
            )
        return self._inner(near, message, key)


def checked_choice(chosen: object, queues: Sequence[MessageQueue], topic: str) -> MessageQueue:
    """Return the queue that a selector has chosen. Raises: ClientError (it isn't one of the given queues)."""
    if isinstance(chosen, MessageQueue) and chosen in queues:
        return chosen
    given = repr(chosen)[:CHOICE_CHARACTERS_MAX]
    raise ClientError(
        f"the selector for topic {topic} returned {given} ({type(chosen).__name__}) instead of one of the "
        f"{len(queues)} queues that were passed to it; write for example selector=lambda queues, message, key: "
        "queues[0]"
    )


def _java_hash_code(key: Any) -> int:
    if isinstance(key, str):
        return java_hash(key)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, int) and -(2**63) <= key < 2**63:
        if -(2**31) <= key < 2**31:
            return key
        folded = (key ^ key >> 32) & 0xFFFFFFFF
        return folded - 2**32 if folded & 0x80000000 else folded
    raise ClientError(f"key={key!r}: a key must be a str or an int of at most 64 bits")
