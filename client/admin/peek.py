"""Reads messages of a topic without side effects: it joins no group, and stores no offset."""

from collections import deque
from collections.abc import Iterable, Sequence

from staticfire.client.cluster.pull_answers import PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.protocol.messages import ReceivedMessage
from staticfire.runtime.ranges import INT64_MAX

# Each step backwards for the newest messages with a tag is this much longer than the one before.
STEP_GROWTH = 4
# At most this many offsets of a queue are looked at for messages with a tag; with a misspelt tag it would be all.
SEARCHED_MAX = 100_000
ALL_TAGS = "*"
# Per request; a RocketMQ's broker returns at most 32.
PULL_MESSAGES = 1_024


class PeekedMessages(list[ReceivedMessage]):
    """Messages, in the order in which they were stored."""

    def __init__(self, messages: Iterable[ReceivedMessage], searched: str = "") -> None:
        """`searched`: which messages were looked at, if others may match too; empty if none may."""
        super().__init__(messages)
        self.searched = searched

    @property
    def note(self) -> str:
        """A sentence for users about messages that weren't looked at; empty if there are none."""
        if not self.searched:
            return ""
        return f"{'only' if self else 'none of'} {self.searched} {'were looked at' if self else 'has these tags'}"


async def peek_messages(
    consumer: PullConsumer,
    queues: Sequence[MessageQueue],
    messages_max: int,
    *,
    offset: int | None = None,
    last: bool = False,
    tags: str = ALL_TAGS,
) -> PeekedMessages:
    """Return the oldest messages of queues, or with `last` the newest, in the order in which they were stored.

    `offset`: start at this queue offset. With `tags`, SEARCHED_MAX offsets of each queue are looked at, or
    `messages_max` if that is more. Raises: BrokerAnswer, NetworkError.
    """
    found: list[ReceivedMessage] = []
    searched_max = max(SEARCHED_MAX, messages_max)
    is_cut = False
    for queue in queues:
        if last:
            messages, is_whole = await _read_last(consumer, queue, tags, messages_max, searched_max)
        else:
            limit = INT64_MAX if tags == ALL_TAGS else searched_max
            messages, is_whole = await _read(consumer, queue, offset, tags, messages_max, limit)
        found += messages
        is_cut = is_cut or not is_whole
    found.sort(key=lambda message: (message.stored_ms, message.broker_name, message.queue_id, message.queue_offset))
    chosen = found[-messages_max:] if last else found[:messages_max]
    return PeekedMessages(chosen, _searched(searched_max, offset, last) if is_cut else "")


def _searched(searched_max: int, offset: int | None, last: bool) -> str:
    if offset is not None and not last:
        return f"the {searched_max:,} messages of each queue from offset {offset:,} on"
    return f"the {'newest' if last else 'oldest'} {searched_max:,} messages of each queue"


async def _read(
    consumer: PullConsumer, queue: MessageQueue, start: int | None, tags: str, messages_max: int, searched_max: int
) -> tuple[list[ReceivedMessage], bool]:
    """Return up to `messages_max` messages of a queue, and whether these are all that were requested.

    They aren't if there may be more after the offsets that were looked at.
    """
    offset = await consumer.min_offset(queue) if start is None else start
    stop = offset + searched_max
    found: list[ReceivedMessage] = []
    while len(found) < messages_max:
        if offset >= stop:
            return found, False
        result = await consumer.pull(queue, offset, tags, messages_max - len(found))
        found += (message for message in result.messages if message.queue_offset < stop)
        if result.status is PullStatus.OFFSET_ILLEGAL and result.next_offset > offset:
            offset = result.next_offset  # The messages before it are no longer stored.
            stop = offset + searched_max
        elif result.next_offset <= offset or stop >= result.max_offset <= result.next_offset:
            break
        else:
            offset = result.next_offset
    return found[:messages_max], True


async def _read_last(
    consumer: PullConsumer, queue: MessageQueue, tags: str, messages_max: int, searched_max: int
) -> tuple[list[ReceivedMessage], bool]:
    """Return the newest messages of a queue: backwards in growing steps, because few may have the tags.

    Also return whether these are all that were requested: False if there may be more before the offsets looked at.
    """
    end = stop = await consumer.max_offset(queue)
    start = max(0, stop - messages_max)
    found = await _read_range(consumer, queue, range(start, stop), tags, messages_max)
    if len(found) >= messages_max or start == 0:
        return found, True
    oldest, step = await consumer.min_offset(queue), messages_max
    first = max(oldest, end - searched_max)
    while len(found) < messages_max and start > first:
        step *= STEP_GROWTH
        start, stop = max(first, start - step), start
        found = [*await _read_range(consumer, queue, range(start, stop), tags, messages_max), *found]
    return found[-messages_max:], len(found) >= messages_max or first == oldest


async def _read_range(
    consumer: PullConsumer, queue: MessageQueue, offsets: range, tags: str, messages_max: int
) -> list[ReceivedMessage]:
    """Return the newest messages with these offsets of a queue.

    The last pull may also read messages after them. Those are fewer than `messages_max`: they were counted before.
    """
    found: deque[ReceivedMessage] = deque(maxlen=messages_max)
    offset = offsets.start
    while offset < offsets.stop:
        result = await consumer.pull(queue, offset, tags, min(PULL_MESSAGES, offsets.stop - offset))
        found += (message for message in result.messages if message.queue_offset < offsets.stop)
        if result.next_offset <= offset:
            break
        offset = result.next_offset
    return list(found)
