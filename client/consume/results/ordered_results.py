"""What listeners of ordered consumption receive and return, and what follows from their results. Pure.

RocketMQ: ConsumeOrderlyStatus, ConsumeOrderlyContext, ConsumeMessageOrderlyService.processConsumeResult.

    result     auto_commit                  without
    SUCCESS    commit                       continue, commit nothing
    COMMIT     commit                       commit all messages taken so far
    ROLLBACK   commit                       redeliver all messages taken so far after a pause
    SUSPEND_   redeliver these messages     redeliver these messages
               after a pause                after a pause
"""

from collections.abc import Awaitable, Callable
from enum import Enum

from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.results.consume_results import Messages
from staticfire.protocol.messages import ReceivedMessage

SUSPEND_MS_MIN = 10
SUSPEND_MS_MAX = 30_000
AS_IN_SETTINGS = -1


class OrderedStatus(Enum):
    """What a listener of ordered consumption returns."""

    SUCCESS = "SUCCESS"
    ROLLBACK = "ROLLBACK"
    COMMIT = "COMMIT"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"


class OrderedContext:
    """What a listener of ordered consumption receives next to its messages, and may set."""

    __slots__ = ("auto_commit", "max_offset", "queue", "suspend_current_queue_time_ms")

    def __init__(self, queue: MessageQueue, max_offset: int = -1) -> None:
        self.queue = queue
        self.max_offset = max_offset
        """The end of the queue at its last pull: the offset of its next message. -1 if unknown."""
        self.auto_commit = True
        """False: SUCCESS commits nothing, COMMIT commits all messages since the last commit, ROLLBACK redelivers them.
        """
        self.suspend_current_queue_time_ms = AS_IN_SETTINGS
        """How long the queue pauses when it must: 10 to 30,000 ms; -1 as in the settings."""


AsyncOrderedListener = Callable[[Messages, OrderedContext], Awaitable[OrderedStatus | None]]
PlainOrderedListener = Callable[[Messages, OrderedContext], OrderedStatus | None]
OrderedListener = AsyncOrderedListener | PlainOrderedListener


class OrderedVerdict(Enum):
    """What happens to the messages of a call."""

    COMMIT = "they are committed, with all messages taken before"
    KEEP = "they remain taken, and the next messages follow"
    ROLL_BACK = "they are redelivered, with all messages taken before"
    SUSPEND = "they are redelivered"


def decide(status: OrderedStatus, auto_commit: bool) -> OrderedVerdict:
    """Return what follows from a listener's status."""
    if status is OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
        return OrderedVerdict.SUSPEND
    if auto_commit or status is OrderedStatus.COMMIT:
        return OrderedVerdict.COMMIT
    return OrderedVerdict.KEEP if status is OrderedStatus.SUCCESS else OrderedVerdict.ROLL_BACK


def suspension_ms(context: OrderedContext, settings_ms: int) -> int:
    """Return how long a queue pauses."""
    wanted_ms = context.suspend_current_queue_time_ms
    return max(SUSPEND_MS_MIN, min(settings_ms if wanted_ms == AS_IN_SETTINGS else wanted_ms, SUSPEND_MS_MAX))


def split_failed(messages: Messages, reconsume_times_max: int) -> tuple[list[ReceivedMessage], list[ReceivedMessage]]:
    """Return the messages of a call to try again, and those that have been tried often enough."""
    again = [message for message in messages if message.reconsume_times < reconsume_times_max]
    return again, [message for message in messages if message.reconsume_times >= reconsume_times_max]
