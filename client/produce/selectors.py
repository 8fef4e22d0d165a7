"""Ways to pick a queue for an ordered send. RocketMQ: MessageQueueSelector."""

from collections.abc import Callable, Sequence
from typing import Any

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import ClientError
from staticfire.protocol.messages import Message
from staticfire.protocol.tags import java_hash

Selector = Callable[[Sequence[MessageQueue], Message, Any], MessageQueue]


def by_hash(queues: Sequence[MessageQueue], _: Message, key: Any) -> MessageQueue:
    """Pick the queue of a key: always the same one while the topic's queues stay. RocketMQ: SelectMessageQueueByHash.

    Text and numbers have the hash codes that Java gives them, so a Java producer picks the same queue.

    Raises: ClientError (a key of another type).
    """
    return queues[abs(_java_hash_code(key)) % len(queues)]


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
    raise ClientError(f"key={key!r}: a key is text or a number of 64 bits")
