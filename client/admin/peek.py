"""Reads messages of a topic without side effects: it joins no group, and stores no offset."""

from collections import deque
from collections.abc import Sequence

from staticfire.client.cluster.pull_answers import PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.messages import ReceivedMessage

# Each step backwards for the newest messages with a tag is this much longer than the one before.
STEP_GROWTH = 4
# Per request; a RocketMQ's broker returns at most 32.
PULL_MESSAGES = 1_024


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
        if last:
            found += await _read_last(consumer, queue, tags, messages_max)
        else:
            found += await _read(consumer, queue, offset, tags, messages_max)
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


async def _read_last(
    consumer: PullConsumer, queue: MessageQueue, tags: str, messages_max: int
) -> list[ReceivedMessage]:
    """Return the newest messages of a queue: backwards in growing steps, because few may have the tags."""
    stop = await consumer.max_offset(queue)
    start = max(0, stop - messages_max)
    found = await _read_range(consumer, queue, range(start, stop), tags, messages_max)
    if len(found) >= messages_max or start == 0:
        return found
    first, step = await consumer.min_offset(queue), messages_max
    while len(found) < messages_max and start > first:
        step *= STEP_GROWTH
        start, stop = max(first, start - step), start
        found = [*await _read_range(consumer, queue, range(start, stop), tags, messages_max), *found]
    return found[-messages_max:]


async def _read_range(
    consumer: PullConsumer, queue: MessageQueue, offsets: range, tags: str, messages_max: int
) -> list[ReceivedMessage]:
    """Return the newest messages with these offsets of a queue."""
    found: deque[ReceivedMessage] = deque(maxlen=messages_max)
    offset = offsets.start
    while offset < offsets.stop:
        result = await consumer.pull(queue, offset, tags, min(PULL_MESSAGES, offsets.stop - offset))
        found += (message for message in result.messages if message.queue_offset < offsets.stop)
        if result.next_offset <= offset:
            break
        offset = result.next_offset
    return list(found)
