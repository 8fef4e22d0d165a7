"""Reads messages of a topic without side effects: it joins no group, and stores no offset."""

from collections.abc import Sequence

from staticfire.client.cluster.pull_answers import PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.messages import ReceivedMessage


async def peek_messages(
    consumer: PullConsumer,
    queues: Sequence[MessageQueue],
    messages_max: int,
    *,
    offset: int | None = None,
    last: bool = False,
    tags: str = "*",
) -> list[ReceivedMessage]:
    """Return the oldest messages of queues, or with `last` the newest, in the order in which they were stored.

    `offset`: start at this queue offset. Raises: BrokerAnswer, NetworkError.
    """
    found: list[ReceivedMessage] = []
    for queue in queues:
        start = offset
        if last:
            start = max(0, await consumer.max_offset(queue) - messages_max)
        found += await _read(consumer, queue, start, tags, messages_max)
    found.sort(key=lambda message: (message.stored_ms, message.broker_name, message.queue_id, message.queue_offset))
    return found[-messages_max:] if last else found[:messages_max]


async def _read(
    consumer: PullConsumer, queue: MessageQueue, start: int | None, tags: str, messages_max: int
) -> list[ReceivedMessage]:
    """Return up to `messages_max` messages of a queue."""
    offset = await consumer.min_offset(queue) if start is None else start
    found: list[ReceivedMessage] = []
    while len(found) < messages_max:
        result = await consumer.pull(queue, offset, tags, messages_max - len(found))
        found += result.messages
        if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset > offset:
            offset = result.next_offset  # The messages before it are no longer stored.
        elif result.next_offset <= offset or result.next_offset >= result.max_offset:
            break
        else:
            offset = result.next_offset
    return found[:messages_max]
