"""What a message has besides its place, and how often it is stored: what checkers report, and what they excuse."""

from typing import Any

import pytest

from staticfire.simulation.checkers.contents import ContentsKept
from staticfire.simulation.checkers.delivery import StoredOnce
from staticfire.simulation.checkers.events import (
    CallBegan,
    Content,
    FaultBegan,
    FaultEnded,
    MessageFound,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
    TransactionEnded,
)
from staticfire.simulation.workload import Group, Producers, Topic, Workload
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

ORDERS = Workload([Topic("orders")], [Producers("orders", name="web")], [Group("billing", "orders")])
PLACE, RETRIES = ("broker-a", "orders", 0), ("broker-a", "%RETRY%billing", 0)
SENT = Content("orders", "red", 7, 60_003, "ID-1")


def seen(content: Content | None, is_retry: bool = False) -> list[RunEvent]:
    message = Seen("web-1/1", 0, int(is_retry), is_retry, content=content)
    return [
        SendBegan(60_000, "web-1/1", "orders", tag="red", body_crc=7),
        SendAcknowledged(60_010, "web-1/1", PLACE, 0, 0, message_id="ID-1"),
        CallBegan(80_000, 1, "billing", "billing-1", RETRIES if is_retry else PLACE, (message,)),
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"topic": "%RETRY%billing"}, "topic"),
        ({"tag": ""}, "tag"),
        ({"body_crc": 8}, "body"),
        ({"born_ms": 59_999}, "born"),
        ({"born_ms": 60_011}, "born"),
        ({"message_id": "ID-2"}, "id"),
    ],
)
def test_a_message_has_what_was_sent(changes: dict[str, Any], words: str) -> None:
    reported = said(ContentsKept(ORDERS), seen(SENT._replace(**changes)))
    assert bool(reported) is bool(words)
    assert all(words in one for one in reported)
    assert not said(ContentsKept(ORDERS), seen(None))


def test_a_retry_may_be_born_when_a_member_sends_it() -> None:
    for born_ms, is_said in ((70_000, False), (80_001, True), (0, True)):
        assert bool(said(ContentsKept(ORDERS), seen(SENT._replace(born_ms=born_ms), is_retry=True))) is is_said


def test_what_is_stored_is_compared_with_what_was_sent() -> None:
    for place, content, is_said in (
        (PLACE, SENT, False),
        (RETRIES, SENT._replace(topic="%RETRY%billing"), False),
        (RETRIES, SENT._replace(topic="%RETRY%billing", body_crc=8), True),
        (PLACE, SENT._replace(message_id="ID-2"), True),
    ):
        found = MessageFound(900_000, "web-1/1", place, 0, content=content)
        assert bool(said(ContentsKept(ORDERS), [*seen(None), found])) is is_said


@pytest.mark.parametrize(
    ("between", "is_said"),
    [
        ([], True),
        ([FaultBegan(63_000, "slow disk", "broker-a"), FaultEnded(64_000, "slow disk", "broker-a")], False),
        ([ProcessEnded(90_000, "broker-a", "killed"), ProcessBegan(91_000, "broker-a")], False),
        ([ProcessEnded(96_000, "broker-a", "killed"), ProcessBegan(97_000, "broker-a")], True),
    ],
)
def test_a_committed_message_is_stored_once_unless_something_happens_until_its_next_check(
    between: list[RunEvent], is_said: bool
) -> None:
    events: list[RunEvent] = [
        SendBegan(60_000, "web-1/1", "orders", is_half=True),
        SendAcknowledged(60_010, "web-1/1", PLACE, 0, 0),
        TransactionEnded(65_000, "web-1/1", is_commit=True),
        *between,
        *(MessageFound(900_000, "web-1/1", PLACE, offset) for offset in range(2)),
    ]
    assert bool(said(StoredOnce(ORDERS), events)) is is_said
