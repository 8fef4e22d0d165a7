"""What a pull gets: messages, a word of where to go on, or a place among those that wait. Pure.

A pull is looked at when it comes, when a message arrives in its queue, and a last time, at its deadline or when
something changed under it. What it finds means the same each time; only whether it may wait differs:

    found nothing          it waits if it came just now and wants to, else it is answered
    found only others      it is answered, or waits on behind them if an arrival has woken it and nothing more is there:
                           for a short time, so that its group's progress shows
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

MISMATCH_HOLD_MS_MAX = 5_000
_NATIVE_SHARE = PULL_MANY_MAX // PULL_MESSAGES_MAX
# Over our own codec an answer may have that many times the messages of maxTransferCountOnMessageInMemory.

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
    """Why a pull is looked at."""

    CAME = "came"
    WOKEN = "woken"
    LAST = "last"


class Outcome(msgspec.Struct, gc=False):
    """What is to be done with a pull."""

    answer: PullAnswer
    """Complete but for the messages, whose places are in `found`."""
    found: ReadResult | None = None
    """None: nothing was read."""
    hold_ms: int = 0
    """Above 0: instead of being answered it waits so long for messages from `found.next_offset` on, if it can."""


def most(asked: int, is_native: bool, settings: BrokerSettings) -> tuple[int, int]:
    """Return how many messages and bytes an answer may have; one message it always may."""
    count_max = settings.max_transfer_count_on_message_in_memory
    if is_native:
        count_max *= _NATIVE_SHARE
    bytes_max = settings.max_transfer_bytes_on_message_in_memory
    return min(asked, count_max, PULL_ANSWER_MESSAGES_MAX), min(bytes_max, PULL_ANSWER_BYTES_MAX)


def decide(
    found: ReadResult, request: PullMessage, offset: int, occasion: Occasion, settings: BrokerSettings
) -> Outcome:
    """Return what a pull gets that found this at an offset, which may be behind the one that it asked for."""
    status = found.status
    if status is ReadStatus.FOUND:
        return Outcome(_answer(found, FOUND, "FOUND"), found)
    code, remark, hold_ms = _CODES.get(status), status.value, 0
    if code is None:  # the queue has no message
        code = _NOT_FOUND if offset == 0 else _MOVED
    if code == _NOT_FOUND:
        if occasion is Occasion.CAME:
            hold_ms = hold_ms_of(request, settings)
        if offset > request.queue_offset:
            code, remark = _RETRY, ReadStatus.NO_MATCHED_MESSAGE.value
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
    """Return what a pull gets whose group was reset: the offset from which it goes on."""
    answer = PullAnswer(
        0, offset, queue.min_offset, queue.max_offset, None, 0, 0, code=_MOVED, remark=OFFSET_RESET
    )  # fmt: skip
    return Outcome(answer)


def hold_ms_of(request: PullMessage, settings: BrokerSettings) -> int:
    """Return how long a pull that found nothing may wait, 0 for not at all."""
    if not request.sys_flag & FLAG_SUSPEND:
        return 0
    asked_ms = request.suspend_timeout_millis if settings.long_polling_enable else settings.short_polling_time_mills
    return min(max(0, asked_ms), settings.hold_ms_max)
