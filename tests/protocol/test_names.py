"""Names of topics and groups, and the bits of topics."""

import pytest

from staticfire.protocol import permissions
from staticfire.protocol.names import (
    dead_letter_topic,
    fits_store,
    group_fault,
    group_of_topic,
    is_dead_letter_topic,
    is_retry_topic,
    is_system_group,
    is_system_topic,
    may_be_sent_to,
    may_create_group,
    pop_retry_topic,
    reply_topic,
    retry_topic,
    topic_fault,
)

ILLEGAL = "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"


@pytest.mark.parametrize("topic", ["orders", "%RETRY%g", "a|b", "A_b-9", "t" * 127])
def test_topics_that_a_broker_takes(topic: str) -> None:
    assert topic_fault(topic) is None


@pytest.mark.parametrize(
    ("topic", "remark"),
    [
        (None, "The specified topic is blank."),
        ("", "The specified topic is blank."),
        (" \t", "The specified topic is blank."),
        ("a b", ILLEGAL),
        ("a.b", ILLEGAL),
        ("caf\u00e9", ILLEGAL),
        ("orders\n", ILLEGAL),
        ("." * 200, ILLEGAL),
        ("t" * 128, "The specified topic is longer than topic max length."),
        ("%RETRY%" + "g" * 121, "The specified topic is longer than topic max length."),
    ],
)
def test_topics_that_a_broker_refuses_in_its_own_words(topic: str | None, remark: str) -> None:
    assert topic_fault(topic) == remark


@pytest.mark.parametrize(
    ("topic", "fits"),
    [("t" * 127, True), ("t" * 128, False), (retry_topic("g" * 248), True), (retry_topic("g" * 249), False),
     (dead_letter_topic("g" * 200), False)],
)  # fmt: skip
def test_only_retry_topics_may_be_long(topic: str, fits: bool) -> None:
    assert fits_store(topic) is fits


@pytest.mark.parametrize("group", ["billing", "%RETRY%g", "g" * 255])
def test_groups_that_are_taken(group: str) -> None:
    assert group_fault(group) is None
    assert may_create_group(group)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (None, "blank"),
        (" ", "blank"),
        ("g" * 256, "256 characters"),
        ("a b", "other than"),
        ("billing\n", "other than"),
    ],
)
def test_groups_that_are_refused(group: str | None, words: str) -> None:
    assert words in (group_fault(group) or "")
    assert group is None or not may_create_group(group)


def test_a_broker_creates_the_group_without_a_name_and_a_client_does_not() -> None:
    assert may_create_group("")
    assert group_fault("") == "the group is blank"


def test_topics_of_a_group() -> None:
    assert retry_topic("g") == "%RETRY%g"
    assert dead_letter_topic("g") == "%DLQ%g"
    assert is_retry_topic("%RETRY%g")
    assert not is_retry_topic("%DLQ%g")
    assert is_dead_letter_topic("%DLQ%g")
    assert [group_of_topic(topic) for topic in ("%RETRY%g", "%DLQ%g", "%RETRY%", "g")] == ["g", "g", "", None]
    assert pop_retry_topic("orders", "g") == "%RETRY%g_orders"
    assert pop_retry_topic("orders", "g", version=2) == "%RETRY%g+orders"
    assert reply_topic("DefaultCluster") == "DefaultCluster_REPLY_TOPIC"


def test_system_topics_and_who_may_be_sent_to() -> None:
    assert is_system_topic("TBW102")
    assert is_system_topic("rmq_sys_wheel_timer")
    assert is_system_topic("broker-a", added={"broker-a", "DefaultCluster"})
    assert not is_system_topic("broker-a")
    assert not is_system_topic("orders")
    assert not may_be_sent_to("SCHEDULE_TOPIC_XXXX")
    assert may_be_sent_to("TBW102")
    assert may_be_sent_to("%RETRY%g")


def test_system_groups() -> None:
    assert is_system_group("TOOLS_CONSUMER")
    assert is_system_group("CID_RMQ_SYS_x")
    assert not is_system_group("DEFAULT_CONSUMER")


@pytest.mark.parametrize(("perm", "text"), [(0, "---"), (2, "-W-"), (4, "R--"), (6, "RW-"), (7, "RWX"), (9, "--X")])
def test_permissions_as_people_read_them(perm: int, text: str) -> None:
    assert permissions.perm_text(perm) == text
    assert permissions.readable(perm) is ("R" in text)
    assert permissions.writable(perm) is ("W" in text)
    assert permissions.inherited(perm) is ("X" in text)


def test_the_flag_of_topics() -> None:
    flags = [permissions.topic_sys_flag(unit, sub) for unit in (False, True) for sub in (False, True)]
    assert flags == [0, 2, 1, 3]
