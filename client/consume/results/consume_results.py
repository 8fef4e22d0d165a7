"""What listeners say, what they are told, and what follows from their answers. Pure.

RocketMQ: ConsumeConcurrentlyStatus, ConsumeConcurrentlyContext, ConsumeMessageConcurrentlyService.processConsumeResult.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.messages import ReceivedMessage


class ConsumeStatus(Enum):
    """What a listener returns."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeContext:
    """What a listener is told beside its messages, and may set."""

    __slots__ = ("ack_index", "delay_level_when_next_consume", "max_offset", "queue")

    def __init__(self, queue: MessageQueue, max_offset: int = -1) -> None:
        self.queue = queue
        self.max_offset = max_offset
        """The offset of the queue's next message, as the newest pull has told: how far behind its end a message is.
        -1 where nobody knows. RocketMQ: the property MAX_OFFSET of each message."""
        self.delay_level_when_next_consume = 0
        """When failed messages come again: 0 the broker decides, 1..18 that level, -1 never (dead letter)."""
        self.ack_index: int | None = None
        """On success, the last message that is done: those behind it are retried. None: all are done."""


Messages = tuple[ReceivedMessage, ...]
AsyncListener = Callable[[Messages, ConsumeContext], Awaitable[ConsumeStatus | None]]
PlainListener = Callable[[Messages, ConsumeContext], ConsumeStatus | None]
Listener = AsyncListener | PlainListener


def count_done(
    status: ConsumeStatus, ack_index: int | None, message_count: int, later_honours_ack_index: bool = False
) -> int:
    """Return how many messages of a batch, from the first on, are done; the others are to be retried.

    `later_honours_ack_index`: RECONSUME_LATER retries only what is behind an ack_index that was set.
    """
    if status is ConsumeStatus.CONSUME_SUCCESS:
        return message_count if ack_index is None else max(0, min(ack_index + 1, message_count))
    if later_honours_ack_index and ack_index is not None:
        return max(0, min(ack_index + 1, message_count))
    return 0


def split_into_batches(messages: Sequence[ReceivedMessage], batch_max: int) -> list[Messages]:
    """Return what the listener gets, call by call."""
    return [tuple(messages[at : at + batch_max]) for at in range(0, len(messages), batch_max)]
