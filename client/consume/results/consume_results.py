"""What listeners receive and return, and what follows from their results. Pure.

RocketMQ: ConsumeConcurrentlyStatus, ConsumeConcurrentlyContext, ConsumeMessageConcurrentlyService.processConsumeResult.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from math import isfinite
from operator import index

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.messages import ReceivedMessage


class ConsumeStatus(Enum):
    """What a listener returns."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeContext:
    """What a listener receives next to its messages, and may set."""

    __slots__ = ("ack_index", "delay_level_when_next_consume", "max_offset", "queue")

    def __init__(self, queue: MessageQueue, max_offset: int = -1) -> None:
        self.queue = queue
        self.max_offset = max_offset
        """The end of the queue at its last pull: the offset of its next message. It shows how far a message lags. -1 if
        unknown. RocketMQ: the property MAX_OFFSET of each message.
        """
        self.delay_level_when_next_consume = 0
        """When failed messages are redelivered: 0 the broker decides, 1..18 that delay level, -1 never (dead letter).
        """
        self.ack_index: int | None = None
        """On success, the index of the last message that is done: those after it are retried. None: all are done."""


Messages = tuple[ReceivedMessage, ...]
AsyncListener = Callable[[Messages, ConsumeContext], Awaitable[ConsumeStatus | None]]
PlainListener = Callable[[Messages, ConsumeContext], ConsumeStatus | None]
Listener = AsyncListener | PlainListener


def number_of(value: object) -> int | None:
    """Return a number that a listener has set in its context; None if it isn't one. A fraction is rounded down."""
    if isinstance(value, float):
        return int(value) if isfinite(value) else None
    try:
        return index(value)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 (it isn't a number, or the program's own type raises something)
        return None


def count_done(
    status: ConsumeStatus, ack_index: int | None, message_count: int, later_honours_ack_index: bool = False
) -> int:
    """Return how many messages of a batch are done, from the first; the others must be retried.

    `later_honours_ack_index`: RECONSUME_LATER retries only the messages after an ack_index that was set.
    """
    if status is ConsumeStatus.CONSUME_SUCCESS:
        return message_count if ack_index is None else max(0, min(ack_index + 1, message_count))
    if later_honours_ack_index and ack_index is not None:
        return max(0, min(ack_index + 1, message_count))
    return 0


def split_into_batches(messages: Sequence[ReceivedMessage], batch_max: int) -> list[Messages]:
    """Return the batches to call the listener with."""
    return [tuple(messages[at : at + batch_max]) for at in range(0, len(messages), batch_max)]
