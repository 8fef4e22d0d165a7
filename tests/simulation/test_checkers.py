"""What excuses what: events as a run has them, and what checkers say to them."""

from collections.abc import Iterable

import pytest

from staticfire.faults.checkers import Checker
from staticfire.faults.checkers.delivery import NothingLost, ReachesAll, TransactionsKept
from staticfire.faults.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    MessageFound,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
    TransactionEnded,
)
from staticfire.faults.checkers.offsets import BeginsWhereItStands, OffsetsGrow
from staticfire.faults.workload import Brokers, Group, Topic, Workload
from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC

pytestmark = pytest.mark.row("S3")

ASYNC = Workload([Topic("orders")], groups=[Group("billing", "orders")])
SYNC = Workload(
    [Topic("orders")], groups=[Group("billing", "orders")], brokers=Brokers(1, {"flush_disk_type": "SYNC_FLUSH"})
)
PLACE = ("broker-a", "orders", 0)
BEGINNING = [ProcessBegan(0, "broker-a"), ProcessBegan(0, "billing-1")]
LOSS = [ProcessEnded(20, "broker-a", "without power"), ProcessBegan(30, "broker-a")]
MEMBER_DIES = [ProcessEnded(15, "billing-1", "killed")]


def said(checker: Checker, events: Iterable[RunEvent]) -> list[str]:
    for event in events:
        checker.see(event)
    checker.finish()
    return [violation.words for violation in checker.violations]


def consumed(name: str, offset: int) -> list[RunEvent]:
    return [CallBegan(10, 1, "billing", "billing-1", PLACE, (Seen(name, offset, 0, False),)), CallEnded(11, 1, True)]


@pytest.mark.parametrize(
    ("between", "is_excused"),
    [(LOSS, True), ([], False), (MEMBER_DIES + LOSS, False)],
    ids=["lived through it", "no loss of power", "the member that knew more is dead"],
)
def test_a_message_that_got_a_lost_offset_may_be_passed_over(between: list[RunEvent], is_excused: bool) -> None:
    events = [*BEGINNING, *consumed("lost", 7), *between, MessageFound(99, "new", PLACE, 7)]
    assert bool(said(ReachesAll(SYNC), events)) is not is_excused
    other_offset = [*BEGINNING, *consumed("lost", 7), *between, MessageFound(99, "new", PLACE, 8)]
    assert said(ReachesAll(SYNC), other_offset)


@pytest.mark.parametrize(
    ("workload", "synced", "is_safe", "is_found_missing"),
    [(SYNC, 50, True, True), (SYNC, 50, False, False), (SYNC, 500, False, True), (ASYNC, 50, True, False)],
    ids=["told as safe", "told that the disk was slow", "told so, and synced later", "it survives the process only"],
)
def test_what_may_be_gone_with_the_power_is_what_no_sync_covered(
    workload: Workload, synced: int, is_safe: bool, is_found_missing: bool
) -> None:
    sent = [SendBegan(1, "later/1", "orders", due_ms=5), SendAcknowledged(2, "later/1", PLACE, 0, 100, is_safe)]
    events = [*BEGINNING, *sent, ProcessEnded(20, "broker-a", "without power", synced)]
    assert bool(said(NothingLost(workload), events)) is is_found_missing


@pytest.mark.parametrize(
    ("offset", "between", "is_said"),
    [(3, [], True), (9, [], False), (3, [FaultBegan(90_000, "freeze member", "billing-1")], False)],
    ids=["what is done", "where it stands", "a member was frozen"],
)
def test_who_takes_over_a_queue_begins_where_the_group_stands(
    offset: int, between: list[RunEvent], is_said: bool
) -> None:
    stands = [OffsetSeen(1_000, "billing", PLACE, 9, 20, 1)]
    begins = CallBegan(100_000, 1, "billing", "billing-2", PLACE, (Seen("web/1", offset, 0, False),))
    assert bool(said(BeginsWhereItStands(SYNC), [*BEGINNING, *stands, *between, begins])) is is_said


@pytest.mark.parametrize(("at_ms", "is_excused"), [(1_000, True), (1_000_000, False)])
def test_members_stand_behind_the_end_of_a_queue_that_has_become_shorter_for_a_while(
    at_ms: int, is_excused: bool
) -> None:
    stands = OffsetSeen(at_ms, "billing", PLACE, 5, 3, 2)
    assert bool(said(OffsetsGrow(SYNC), [*BEGINNING, *LOSS, stands])) is not is_excused


@pytest.mark.parametrize(("offset", "is_excused"), [(6, True), (7, False)])
def test_what_a_member_told_of_a_shorter_queue_is_still_there_after_the_next_start(
    offset: int, is_excused: bool
) -> None:
    told = OffsetSeen(40, "billing", PLACE, 6, 5, 2, is_own=False)
    again = [ProcessEnded(50, "broker-a", "killed"), ProcessBegan(60, "broker-a")]
    kept = OffsetSeen(61, "billing", PLACE, offset, 5, 3, is_own=True)
    assert bool(said(OffsetsGrow(SYNC), [*BEGINNING, *LOSS, told, *again, kept])) is not is_excused


@pytest.mark.parametrize(("topic", "is_kept"), [("orders", True), (CHECK_MAX_TIME_TOPIC, True), ("", False)])
def test_a_committed_message_is_delivered_or_set_aside(topic: str, is_kept: bool) -> None:
    events: list[RunEvent] = [
        SendBegan(1, "web/1", "orders", is_half=True), SendAcknowledged(2, "web/1", PLACE, 0, 0),
        TransactionEnded(3, "web/1", True), *([MessageFound(9, "web/1", ("broker-a", topic, 0), 0)] if topic else []),
    ]  # fmt: skip
    assert bool(said(TransactionsKept(SYNC), events)) is not is_kept


def test_an_answer_may_have_been_under_way_when_its_broker_lost_power() -> None:
    began, told = SendBegan(1, "web/1", "orders"), SendAcknowledged(25, "web/1", PLACE, 0, 100)
    assert not said(NothingLost(ASYNC), [*BEGINNING, began, ProcessEnded(20, "broker-a", "without power", 50), told])
    assert said(NothingLost(ASYNC), [*BEGINNING, began, ProcessEnded(20, "broker-a", "without power", 500), told])
