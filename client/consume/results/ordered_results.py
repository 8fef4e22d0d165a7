"""What listeners of ordered consumption say, what they are told, and what follows from their answers. Pure.

RocketMQ: ConsumeOrderlyStatus, ConsumeOrderlyContext, ConsumeMessageOrderlyService.processConsumeResult.

    answer     auto_commit                 without
    SUCCESS    commit                      go on, nothing is committed
    COMMIT     commit                      commit all that was taken so far
    ROLLBACK   commit                      all that was taken so far comes again after a pause
    SUSPEND_   the messages come again     the messages come again
               after a pause               after a pause
"""

from collections.abc import Awaitable, Callable
from enum import Enum

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.results.consume_results import Messages
from staticfire.protocol.messages import ReceivedMessage

SUSPEND_MS_MIN = 10
SUSPEND_MS_MAX = 30_000


class OrderedStatus(Enum):
    """What a listener of ordered consumption returns."""

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    COMMIT = "COMMIT"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class OrderedContext:
    """What a listener of ordered consumption is told beside its messages, and may set."""

    __slots__ = ("auto_commit", "max_offset", "queue", "suspend_current_queue_time_ms")

    def __init__(self, queue: MessageQueue, max_offset: int = -1) -> None:
        self.queue = queue
        self.max_offset = max_offset
        """The offset of the queue's next message, as the newest pull has told; -1 where nobody knows."""
        self.auto_commit = True
        """False: SUCCESS commits nothing, COMMIT commits what was taken since the last one, ROLLBACK brings it back."""
        self.suspend_current_queue_time_ms = -1
        """How long the queue waits when it has to: 10 to 30,000; -1 as the settings say."""


AsyncOrderedListener = Callable[[Messages, OrderedContext], Awaitable[OrderedStatus | None]]
PlainOrderedListener = Callable[[Messages, OrderedContext], OrderedStatus | None]
OrderedListener = AsyncOrderedListener | PlainOrderedListener


class OrderedVerdict(Enum):
    """What becomes of the messages of a call."""

    COMMIT = "they are done, with all that were taken before"
    KEEP = "they stay taken, and the next ones follow"
    ROLL_BACK = "they come again, with all that were taken before"
    SUSPEND = "they come again"


def decide(status: OrderedStatus, auto_commit: bool) -> OrderedVerdict:
    """Return what follows from a listener's answer."""
    if status is OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
        return OrderedVerdict.SUSPEND
    if auto_commit or status is OrderedStatus.COMMIT:
        return OrderedVerdict.COMMIT
    return OrderedVerdict.KEEP if status is OrderedStatus.SUCCESS else OrderedVerdict.ROLL_BACK


def suspension_ms(context: OrderedContext, settings_ms: int) -> int:
    """Return how long a queue waits."""
    asked_ms = context.suspend_current_queue_time_ms
    return max(SUSPEND_MS_MIN, min(settings_ms if asked_ms == -1 else asked_ms, SUSPEND_MS_MAX))


def split_failed(messages: Messages, reconsume_times_max: int) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """Return which messages of a call are tried again, and which have been tried often enough."""
    again = [message for message in messages if message.reconsume_times < reconsume_times_max]
    return again, [message for message in messages if message.reconsume_times >= reconsume_times_max]
