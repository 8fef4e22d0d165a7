"""Which segments go, and when sends are refused."""

from typing import Any

import pytest

from staticfire.broker.retention import HOUR_MS, Reason, RetentionPolicy, disk_words
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.outcomes import OldSegment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import DiskUse

GIB = 1 << 30
FOUR_O_CLOCK_MS = MessageMs((20_000 * 24 + 4) * HOUR_MS)
NOON_MS = MessageMs(FOUR_O_CLOCK_MS + 8 * HOUR_MS)


def reason(message_ms: int, age_hours: float, used_percent: int, behind_bytes: int = 0, **settings: Any) -> str | None:
    """Return why a segment goes whose newest message is that old."""
    policy = RetentionPolicy(BrokerSettings(**settings))
    segment = OldSegment(4096, MessageMs(message_ms - int(age_hours * HOUR_MS)))
    now_ms = MessageMs(message_ms)
    hour_ms = policy.last_hour_ms(MessageMs(now_ms - 10_000), now_ms)
    found = policy.reason_to_remove(segment, 4096 + behind_bytes, now_ms, used_percent, hour_ms)
    return None if found is None else found.value


@pytest.mark.row("F2")
@pytest.mark.parametrize(
    ("message_ms", "age_hours", "used_percent", "behind_bytes", "expected"),
    [
        (FOUR_O_CLOCK_MS, 72, 10, 0, "age"),
        (FOUR_O_CLOCK_MS + HOUR_MS - 1, 72, 10, 0, "age"),
        (FOUR_O_CLOCK_MS + HOUR_MS + 9_000, 72, 10, 0, None),
        (FOUR_O_CLOCK_MS + HOUR_MS + 9_000, 73, 10, 0, "age"),
        (FOUR_O_CLOCK_MS + HOUR_MS + 10_000, 73, 10, 0, None),
        (FOUR_O_CLOCK_MS, 71.9, 10, 0, None),
        (NOON_MS, 72, 75, 0, None),
        (NOON_MS, 72, 76, 0, "age"),
        (NOON_MS, 71.9, 85, 2 * GIB, None),
        (NOON_MS, 0, 86, GIB, "disk"),
        (NOON_MS, 0, 99, GIB - 1, None),
        (NOON_MS, 72, 86, 0, "age"),
    ],
)
def test_what_goes_depends_on_age_hour_and_disk(
    message_ms: int, age_hours: float, used_percent: int, behind_bytes: int, expected: str | None
) -> None:
    assert reason(message_ms, age_hours, used_percent, behind_bytes) == expected


def test_all_of_it_is_a_setting() -> None:
    assert reason(NOON_MS, 2, 10, file_reserved_time=2, delete_when="04;12") == Reason.AGE.value
    assert reason(NOON_MS, 2, 10, file_reserved_time=2, delete_when="") is None
    assert reason(NOON_MS, 80, 31, disk_max_used_space_ratio=30) == Reason.AGE.value
    assert reason(NOON_MS, 0, 31, 7, disk_space_clean_forcibly_ratio=30, clean_file_forcibly_keep_bytes=7) == "disk"
    assert reason(NOON_MS, 0, 99, 2 * GIB, clean_file_forcibly_enable=False) is None


def test_what_is_old_goes_at_any_hour_as_soon_as_young_messages_may_go() -> None:
    settings = {"disk_max_used_space_ratio": 80, "disk_space_clean_forcibly_ratio": 30}
    assert reason(NOON_MS, 80, 31, **settings) == "age"
    assert reason(NOON_MS, 80, 30, **settings) is None
    assert reason(NOON_MS, 80, 31, **settings, clean_file_forcibly_enable=False) is None


def test_who_asks_for_it_needs_no_hour() -> None:
    policy, segment = RetentionPolicy(BrokerSettings()), OldSegment(4096, MessageMs(NOON_MS - 72 * HOUR_MS))
    assert policy.reason_to_remove(segment, 4096, NOON_MS, 10, NOON_MS) is Reason.AGE
    assert policy.reason_to_remove(segment, 4096, MessageMs(NOON_MS - 1), 10, MessageMs(NOON_MS - 1)) is None


@pytest.mark.parametrize(
    ("since_ms", "now_ms", "expected_ms"),
    [
        (NOON_MS - 10 * HOUR_MS, NOON_MS, NOON_MS - 7 * HOUR_MS - 1),
        (NOON_MS - 7 * HOUR_MS, NOON_MS, None),
        (NOON_MS - 7 * HOUR_MS, NOON_MS + 100 * 24 * HOUR_MS, NOON_MS + 100 * 24 * HOUR_MS - 7 * HOUR_MS - 1),
        (FOUR_O_CLOCK_MS, FOUR_O_CLOCK_MS + 1, FOUR_O_CLOCK_MS + 1),
        (FOUR_O_CLOCK_MS, FOUR_O_CLOCK_MS, None),
        (FOUR_O_CLOCK_MS - 1, FOUR_O_CLOCK_MS - 1, None),
    ],
)
def test_an_hour_that_a_jump_passes_counts_to_its_last_moment(
    since_ms: int, now_ms: int, expected_ms: int | None
) -> None:
    policy = RetentionPolicy(BrokerSettings())
    assert policy.last_hour_ms(MessageMs(since_ms), MessageMs(now_ms)) == expected_ms
    assert RetentionPolicy(BrokerSettings(delete_when="")).last_hour_ms(MessageMs(0), MessageMs(now_ms)) is None


@pytest.mark.parametrize("hours", ["24", "4am", "-1", "04,16"])
def test_hours_that_are_none_are_refused(hours: str) -> None:
    with pytest.raises(UsageError, match=f"deleteWhen={hours} is not a list of hours"):
        RetentionPolicy(BrokerSettings(delete_when=hours))


@pytest.mark.row("F2")
def test_sends_are_refused_above_a_level_that_the_refusal_names() -> None:
    policy = RetentionPolicy(BrokerSettings())
    assert policy.refusal("/store", DiskUse(900, 1000)) is None
    refusal = str(policy.refusal("/store", DiskUse(901, 1000)))
    assert "the disk of /store is 91 % full, and above diskSpaceWarningLevelRatio=90 nothing is stored" in refusal
    assert "set a higher ratio" in refusal
    assert RetentionPolicy(BrokerSettings(disk_space_warning_level_ratio=100)).refusal("/", DiskUse(1, 1)) is None
    assert policy.refusal("/proc", DiskUse(0, 0)) is None


def test_how_full_the_disk_is_reads_as_in_rocketmq() -> None:
    assert disk_words(DiskUse(901, 1000)) == "CL:  0.91 CQ:  0.91 INDEX:  0.91"
