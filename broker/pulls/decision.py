"""Decide what a pull gets: messages, an offset from which to continue, or that it waits. Pure.

A pull is tried when it arrives, when a message arrives in its queue, and a last time, at its deadline or when the topic
or the group's offset has changed. The result of a try means the same each time; only whether the pull may wait differs:

    found nothing                the pull waits if it has just arrived and requests it, else it is answered
    found only other messages    it is answered. If it was woken by an arrival and nothing more follows, it waits after
                                 these messages instead, but only for a short time, so that the group's progress is seen
"""

from enum import Enum

import msgspec

from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.limits import (
    PULL_ANSWER_BYTES_MAX,
    PULL_ANSWER_MESSAGES_MAX,
    PULL_MANY_MAX,
    PULL_MESSAGES_MAX,
)
from staticfire.protocol.requests.pull import FLAG_SUSPEND, OFFSET_RESET, PullAnswer, PullMessage
from staticfire.protocol.requests.replication import SLAVE

MISMATCH_HOLD_MS_MAX = 5_000
# With our own codec a response may have this many times the messages of maxTransferCountOnMessageInMemory.
_NATIVE_SHARE = PULL_MANY_MAX // PULL_MESSAGES_MAX

FOUND = int(ResponseCode.SUCCESS)
_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_RETRY = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)
_CODES = {
    ReadStatus.NO_MATCHED_MESSAGE: _RETRY,
    ReadStatus.MESSAGE_WAS_REMOVING: _RETRY,
    ReadStatus.OFFSET_FOUND_NULL: _NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: _NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: _MOVED,
    ReadStatus.OFFSET_TOO_SMALL: _MOVED,
}


class Occasion(Enum):
    """Why a pull is tried."""

    CAME = "came"
    WOKEN = "woken"
    LAST = "last"


class Outcome(msgspec.Struct, gc=False):
    """What to do with a pull."""

    answer: PullAnswer
    """The response, complete except for the messages: `found` has their positions."""
    found: ReadResult | None = None
    """None: nothing was read."""
    hold_ms: int = 0
    """Above 0: instead of answering, hold the pull this long for messages from `found.next_offset` on, if possible."""


def most(requested: int, is_native: bool, settings: BrokerSettings) -> tuple[int, int]:
    """Return how many messages and bytes a response may have. One message is always allowed."""
    count_max = settings.max_transfer_count_on_message_in_memory
    if is_native:
        count_max *= _NATIVE_SHARE
    bytes_max = settings.max_transfer_bytes_on_message_in_memory
    return min(requested, count_max, PULL_ANSWER_MESSAGES_MAX), min(bytes_max, PULL_ANSWER_BYTES_MAX)


def decide(
    found: ReadResult, request: PullMessage, offset: int, occasion: Occasion, settings: BrokerSettings
) -> Outcome:
    """Return the outcome of a read at `offset`, which may be after the offset that the pull requested."""
    status = found.status
    if status is ReadStatus.FOUND:
        return Outcome(_answer(found, FOUND, "FOUND"), found)
    code, remark, hold_ms = _CODES.get(status), status.value, 0
    if code is None:  # The queue has no message.
        code = _NOT_FOUND if offset == 0 else _MOVED
    if code == _NOT_FOUND:
        if occasion is Occasion.CAME:
            hold_ms = hold_ms_of(request, settings)
        if offset > request.queue_offset:
            code, remark = _RETRY, ReadStatus.NO_MATCHED_MESSAGE.value
    elif code == _MOVED and settings.broker_role == SLAVE and not settings.offset_check_in_slave:
        # The slave may be behind its master, where this offset is right: the consumer tries it again.
        return Outcome(
            PullAnswer(
                0, offset, found.min_offset, found.max_offset, None, 0, 0, code=_RETRY, remark=remark
            ), found,
        )  # fmt: skip
    elif (
        occasion is Occasion.WOKEN and status is ReadStatus.NO_MATCHED_MESSAGE and found.next_offset >= found.max_offset
    ):
        hold_ms = MISMATCH_HOLD_MS_MAX
    return Outcome(_answer(found, code, remark), found, hold_ms)


def _answer(found: ReadResult, code: int, remark: str) -> PullAnswer:
    return PullAnswer(
        0, found.next_offset, found.min_offset, found.max_offset, None, 0, 0, code=code, remark=remark
    )  # fmt: skip


def moved(queue: Queue, offset: int) -> Outcome:
    """Return the outcome for a group that was reset: the offset from which to continue."""
    answer = PullAnswer(
        0, offset, queue.min_offset, queue.max_offset, None, 0, 0, code=_MOVED, remark=OFFSET_RESET
    )  # fmt: skip
    return Outcome(answer)


def hold_ms_of(request: PullMessage, settings: BrokerSettings) -> int:
    """Return how long a pull that found nothing may wait; 0: not at all."""
    if not request.sys_flag & FLAG_SUSPEND:
        return 0
    requested_ms = request.suspend_timeout_millis if settings.long_polling_enable else settings.short_polling_time_mills
    return min(max(0, requested_ms), settings.hold_ms_max)
