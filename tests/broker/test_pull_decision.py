"""What a pull gets of what was found, and when it waits."""

from typing import Any

import pytest

from staticfire.broker.pulls.decision import MISMATCH_HOLD_MS_MAX, Occasion, decide
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.outcomes import ReadResult, ReadStatus
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage

pytestmark = pytest.mark.row("P5")

FOUND, NOT_FOUND, RETRY, MOVED = 0, 19, 20, 21
CAME, WOKEN, LAST = Occasion.CAME, Occasion.WOKEN, Occasion.LAST

SETTINGS = BrokerSettings(hold_ms_max=20_000, short_polling_time_mills=1_000)


def found(status: ReadStatus, next_offset: int = 5) -> ReadResult:
    return ReadResult(status, next_offset, 0, 5, [], [], 0, 0, 0)


def a_pull(offset: int = 5, may_wait: bool = True, **changes: Any) -> PullMessage:
    flags = FLAG_SUBSCRIPTION | (FLAG_SUSPEND if may_wait else 0)
    pull = PullMessage("billing", "orders", 0, offset, 32, flags, 0, 15_000, "*")
    for name, value in changes.items():
        setattr(pull, name, value)
    return pull


@pytest.mark.parametrize("occasion", Occasion)
@pytest.mark.parametrize(
    ("status", "code"),
    [
        (ReadStatus.FOUND, FOUND),
        (ReadStatus.NO_MATCHED_MESSAGE, RETRY),
        (ReadStatus.MESSAGE_WAS_REMOVING, RETRY),
        (ReadStatus.OFFSET_FOUND_NULL, NOT_FOUND),
        (ReadStatus.OFFSET_OVERFLOW_ONE, NOT_FOUND),
        (ReadStatus.OFFSET_OVERFLOW_BADLY, MOVED),
        (ReadStatus.OFFSET_TOO_SMALL, MOVED),
        (ReadStatus.NO_MESSAGE_IN_QUEUE, MOVED),
    ],
)
def test_what_was_found_means_the_same_whenever_it_is_looked_at(
    occasion: Occasion, status: ReadStatus, code: int
) -> None:
    answer = decide(found(status), a_pull(), 5, occasion, SETTINGS).answer
    assert (answer.code, answer.remark) == (code, status.value)
    assert (answer.next_begin_offset, answer.min_offset, answer.max_offset) == (5, 0, 5)


def test_an_empty_queue_has_nothing_yet_for_who_begins_at_its_beginning() -> None:
    assert decide(found(ReadStatus.NO_MESSAGE_IN_QUEUE, 0), a_pull(0), 0, CAME, SETTINGS).answer.code == NOT_FOUND


@pytest.mark.parametrize(
    ("occasion", "status", "hold_ms"),
    [
        (CAME, ReadStatus.OFFSET_OVERFLOW_ONE, 15_000),
        (WOKEN, ReadStatus.OFFSET_OVERFLOW_ONE, 0),
        (LAST, ReadStatus.OFFSET_OVERFLOW_ONE, 0),
        (CAME, ReadStatus.NO_MATCHED_MESSAGE, 0),
        (WOKEN, ReadStatus.NO_MATCHED_MESSAGE, MISMATCH_HOLD_MS_MAX),
        (LAST, ReadStatus.NO_MATCHED_MESSAGE, 0),
        (CAME, ReadStatus.FOUND, 0),
        (WOKEN, ReadStatus.FOUND, 0),
        (CAME, ReadStatus.OFFSET_OVERFLOW_BADLY, 0),
    ],
)
def test_who_came_waits_for_a_message_who_was_woken_for_one_of_its_tags(
    occasion: Occasion, status: ReadStatus, hold_ms: int
) -> None:
    assert decide(found(status), a_pull(), 5, occasion, SETTINGS).hold_ms == hold_ms


@pytest.mark.parametrize(
    ("pull", "settings", "hold_ms"),
    [
        (a_pull(may_wait=False), SETTINGS, 0),
        (a_pull(suspend_timeout_millis=60_000), SETTINGS, 20_000),
        (a_pull(suspend_timeout_millis=-1), SETTINGS, 0),
        (a_pull(), BrokerSettings(long_polling_enable=False, short_polling_time_mills=1_000), 1_000),
    ],
)
def test_how_long_a_pull_waits(pull: PullMessage, settings: BrokerSettings, hold_ms: int) -> None:
    assert decide(found(ReadStatus.OFFSET_OVERFLOW_ONE), pull, 5, CAME, settings).hold_ms == hold_ms


def test_a_pull_that_waited_behind_other_tags_continues_from_there() -> None:
    answer = decide(found(ReadStatus.OFFSET_OVERFLOW_ONE), a_pull(3), 5, LAST, SETTINGS).answer
    assert (answer.code, answer.remark, answer.next_begin_offset) == (RETRY, "NO_MATCHED_MESSAGE", 5)
