"""What excuses what: events as a run has them, and what checkers say to them."""

from collections.abc import Iterable
from typing import ClassVar

import pytest
from msgspec.structs import replace

from staticfire.protocol.names import CHECK_MAX_TIME_TOPIC
from staticfire.simulation.checkers import Checker
from staticfire.simulation.checkers.checker import EVENTS_AT_ONCE, Checkers
from staticfire.simulation.checkers.delivery import NothingLost, TransactionsKept
from staticfire.simulation.checkers.events import (
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    MasterSeen,
    MessageFound,
    NotSettled,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
    TrafficEnded,
    TransactionEnded,
)
from staticfire.simulation.checkers.offsets import BeginsWhereItStands, OffsetsGrow
from staticfire.simulation.checkers.popping import AcknowledgedForGood, HeldUntilItsTime
from staticfire.simulation.checkers.reaching import ReachesAll
from staticfire.simulation.workload import Brokers, Group, Topic, Workload

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
def test_what_a_member_stored_of_a_shorter_queue_is_still_there_after_the_next_start(
    offset: int, is_excused: bool
) -> None:
    reported = OffsetSeen(40, "billing", PLACE, 6, 5, 2, is_own=False)
    again = [ProcessEnded(50, "broker-a", "killed"), ProcessBegan(60, "broker-a")]
    kept = OffsetSeen(61, "billing", PLACE, offset, 5, 3, is_own=True)
    assert bool(said(OffsetsGrow(SYNC), [*BEGINNING, *LOSS, reported, *again, kept])) is not is_excused


@pytest.mark.parametrize(("topic", "is_kept"), [("orders", True), (CHECK_MAX_TIME_TOPIC, True), ("", False)])
def test_a_committed_message_is_delivered_or_set_aside(topic: str, is_kept: bool) -> None:
    events: list[RunEvent] = [
        SendBegan(1, "web/1", "orders", is_half=True), SendAcknowledged(2, "web/1", PLACE, 0, 0),
        TransactionEnded(3, "web/1", True), *([MessageFound(9, "web/1", ("broker-a", topic, 0), 0)] if topic else []),
    ]  # fmt: skip
    assert bool(said(TransactionsKept(SYNC), events)) is not is_kept


def test_an_answer_may_have_been_under_way_when_its_broker_lost_power() -> None:
    began, reported = SendBegan(1, "web/1", "orders"), SendAcknowledged(25, "web/1", PLACE, 0, 100)
    assert not said(
        NothingLost(ASYNC), [*BEGINNING, began, ProcessEnded(20, "broker-a", "without power", 50), reported]
    )
    assert said(NothingLost(ASYNC), [*BEGINNING, began, ProcessEnded(20, "broker-a", "without power", 500), reported])


@pytest.mark.parametrize(
    ("read_at_ms", "is_excused"), [(15, True), (35, False)], ids=["known since before the loss", "ahead of the log"]
)
def test_what_a_member_stored_between_two_losses_may_be_there_though_no_one_saw_it(
    read_at_ms: int, is_excused: bool
) -> None:
    read = CallBegan(read_at_ms, 1, "billing", "billing-1", PLACE, (Seen("web/1", 5, 0, False),))
    second = [ProcessEnded(50, "broker-a", "crashed"), ProcessBegan(60, "broker-a")]
    events = sorted([*BEGINNING, *LOSS, read, *second], key=lambda event: event.at_ms)
    stands = OffsetSeen(61, "billing", PLACE, 6, 5, 3, is_own=True)
    assert bool(said(OffsetsGrow(SYNC), [*events, stands])) is not is_excused


# -- popped messages ---------------------------------------------------------------------------------------------------

RETRIES = ("broker-a", "%RETRY%billing_orders", 0)


def popped(call: int, at_ms: int, popped_ms: int, member: str = "billing-1", reconsume_times: int = 0) -> CallBegan:
    place = RETRIES if reconsume_times else PLACE
    seen = Seen("web/1", 0, reconsume_times, bool(reconsume_times), popped_ms, popped_ms + 5_000)
    return CallBegan(at_ms, call, "billing", member, place, (seen,))


@pytest.mark.parametrize(
    ("between", "popped_ms", "is_said"),
    [
        ([], 5_500, True),
        ([], 6_000, False),
        ([CallEnded(2_000, 1, False)], 5_500, False),
        ([ProcessEnded(2_000, "broker-a", "killed"), ProcessBegan(2_001, "broker-a")], 5_500, False),
        ([ProcessEnded(2_000, "billing-1", "stopping")], 5_500, False),
        ([ProcessEnded(2_000, "billing-3", "stopping")], 5_500, True),
        ([FaultBegan(500, "failing writes", "broker-a"), FaultEnded(900, "failing writes", "broker-a")], 5_500, True),
        ([FaultBegan(2_000, "failing writes", "broker-a")], 5_500, False),
    ],
    ids=[
        "early", "in time", "it was put off", "its broker has ended", "its member has left", "another has left",
        "a disk that failed before", "a disk that fails",
    ],
)  # fmt: skip
def test_a_popped_message_reaches_no_other_client_before_its_time(
    between: list[RunEvent], popped_ms: int, is_said: bool
) -> None:
    first, second = popped(1, 1_010, 1_000), popped(2, popped_ms, popped_ms, "billing-2", 1)
    events = sorted([*BEGINNING, first, *between], key=lambda event: event.at_ms)
    assert bool(said(HeldUntilItsTime(SYNC), [*events, second])) is is_said


def test_an_answer_that_came_late_is_older_than_what_came_after_it() -> None:
    assert not said(HeldUntilItsTime(SYNC), [popped(1, 8_000, 7_000, "billing-2", 1), popped(2, 8_100, 1_000)])


@pytest.mark.parametrize(
    ("pulled_ms", "popped_ms", "is_said"),
    [(2_500, 4_000, False), (1_900, 4_000, True), (2_500, 34_000, True)],
    ids=["pulled while there was no master", "pulled before", "popped when all members know the master"],
)
def test_members_that_pulled_while_there_was_no_master_may_set_the_group_back(
    pulled_ms: int, popped_ms: int, is_said: bool
) -> None:
    pulled = CallBegan(pulled_ms, 9, "billing", "billing-1", PLACE, (Seen("web/9", 9, 0, False),))
    ends = [ProcessEnded(2_000, "broker-a", "gone"), ProcessEnded(3_000, "broker-a", "failed over")]
    calls = [popped(1, popped_ms, popped_ms, "billing-2"), popped(2, popped_ms + 10, popped_ms + 10)]
    events = sorted([*BEGINNING, pulled, *ends, *calls], key=lambda event: event.at_ms)
    assert bool(said(HeldUntilItsTime(SYNC), events)) is is_said


@pytest.mark.parametrize(
    ("lost_ms", "pulled_ms", "is_said"),
    [(1_000, 3_000, False), (4_500, 3_000, True), (1_000, 0, True)],
    ids=["the mode of the group is lost", "it is lost later", "pulled before"],
)
def test_members_pull_when_a_broker_has_lost_the_mode_of_their_group(
    lost_ms: int, pulled_ms: int, is_said: bool
) -> None:
    pulled = CallBegan(pulled_ms, 9, "billing", "billing-1", PLACE, (Seen("web/9", 9, 0, False),))
    lost = ProcessEnded(lost_ms, "broker-b", "lost more", 0)
    calls = [popped(1, 5_000, 5_000, "billing-2"), popped(2, 5_010, 5_010)]
    events = sorted([*BEGINNING, lost, pulled, *calls], key=lambda event: event.at_ms)
    assert bool(said(HeldUntilItsTime(SYNC), events)) is is_said


@pytest.mark.parametrize(
    ("epochs", "is_said"),
    [((2, 0), False), ((2, 2), True), ((0, 2), True)],
    ids=["a machine with a new disk", "the same master", "the first slave has joined"],
)
def test_members_may_pull_when_a_machine_takes_itself_for_the_master_beside_it(
    epochs: tuple[int, int], is_said: bool
) -> None:
    masters = [MasterSeen(900 + number, "broker-b", f"b-{number}", epoch) for number, epoch in enumerate(epochs)]
    calls = [popped(1, 5_000, 5_000, "billing-2"), popped(2, 5_010, 5_010)]
    events = sorted([*BEGINNING, *masters, *calls], key=lambda event: event.at_ms)
    assert bool(said(HeldUntilItsTime(SYNC), events)) is is_said
    late = [popped(1, 99_000, 99_000, "billing-2"), popped(2, 99_010, 99_010)]
    assert said(HeldUntilItsTime(SYNC), sorted([*BEGINNING, *masters, *late], key=lambda event: event.at_ms))


def test_a_message_that_lies_there_twice_is_two_messages() -> None:
    events = [popped(1, 1_010, 1_000), popped(2, 1_020, 1_010, "billing-2")]
    found = [MessageFound(9_000, "web/1", PLACE, 0), MessageFound(9_000, "web/1", PLACE, 1)]
    assert said(HeldUntilItsTime(SYNC), [*events, found[0]])
    assert not said(HeldUntilItsTime(SYNC), [*events, *found])


@pytest.mark.parametrize(
    ("second", "is_said"),
    [
        (replace(popped(2, 1_020, 1_010, "billing-2"), place=("broker-a", "orders", 1)), False),
        (replace(popped(2, 1_020, 1_010, "billing-2"), messages=(Seen("web/1", 9, 0, False, 1_010, 6_010),)), False),
        (popped(2, 1_020, 1_010, "billing-2"), True),
        (popped(2, 1_020, 1_010, "billing-2", 1), True),
    ],
    ids=["from another queue", "from another offset", "from the same place", "a retry has a place of its own"],
)
def test_two_copies_on_a_broker_that_is_gone_were_delivered_from_two_places(second: CallBegan, is_said: bool) -> None:
    assert bool(said(HeldUntilItsTime(SYNC), [popped(1, 1_010, 1_000), second])) is is_said
    consumed_first = [popped(1, 1_010, 1_000), CallEnded(1_015, 1, True), second]
    assert bool(said(AcknowledgedForGood(SYNC), consumed_first)) is is_said


@pytest.mark.parametrize(("how", "is_said"), [("failed over", False), ("killed", True)])
def test_after_a_failover_a_message_and_its_retry_are_two_copies(how: str, is_said: bool) -> None:
    """The new master doesn't know that the group had passed it, and has the retry, too."""
    again = popped(2, 3_010, 3_000, "billing-2")
    retry = popped(3, 3_020, 3_010, "billing-1", 1)
    events = [popped(1, 1_010, 1_000), ProcessEnded(2_000, "broker-a", how), ProcessBegan(2_100, "broker-a")]
    assert bool(said(HeldUntilItsTime(SYNC), [*events, again, retry])) is is_said


def test_a_message_was_delivered_by_the_master_that_it_was_popped_from() -> None:
    """A listener may be busy, and is called with it when the next master has delivered it, too."""
    failover = [ProcessEnded(2_000, "broker-a", "failed over"), ProcessBegan(2_100, "broker-a")]
    late, again = popped(1, 3_005, 1_000), popped(2, 3_010, 3_000, "billing-2")
    retry = popped(3, 3_020, 3_010, "billing-1", 1)
    assert not said(HeldUntilItsTime(SYNC), [*failover, late, again, retry])
    both_after = popped(1, 3_005, 2_500)
    assert said(HeldUntilItsTime(SYNC), [*failover, both_after, again, retry])


@pytest.mark.parametrize(
    ("ended_ms", "between", "is_said"),
    [
        (2_000, [], True),
        (5_900, [], False),
        (2_000, [FaultBegan(1_500, "cut", "billing-1"), FaultEnded(2_500, "cut", "billing-1")], False),
        (2_000, [FaultBegan(300, "cut", "billing-1"), FaultEnded(400, "cut", "billing-1")], True),
    ],
    ids=["nothing was broken", "too late", "its acknowledgement may be lost", "that was before"],
)
def test_what_was_consumed_in_time_comes_no_more(ended_ms: int, between: list[RunEvent], is_said: bool) -> None:
    call = [popped(1, 1_010, 1_000), CallEnded(ended_ms, 1, True)]
    events = sorted([ProcessBegan(0, "broker-a"), *call, *between], key=lambda event: event.at_ms)
    assert bool(said(AcknowledgedForGood(SYNC), [*events, popped(2, 6_100, 6_050, "billing-2", 1)])) is is_said


@pytest.mark.parametrize(("ended_ms", "is_said"), [(31_000, False), (32_500, True)])
def test_until_a_member_knows_the_new_master_it_acknowledges_to_the_old_one(ended_ms: int, is_said: bool) -> None:
    seen = (Seen("web/1", 0, 0, False, 30_000, 90_000),)
    events = [ProcessEnded(2_000, "broker-a", "failed over"), ProcessBegan(2_100, "broker-a")]
    events += [replace(popped(1, 30_010, 30_000), messages=seen), CallEnded(ended_ms, 1, True)]
    assert bool(said(AcknowledgedForGood(SYNC), [*events, popped(2, 90_100, 90_050, "billing-2", 1)])) is is_said


@pytest.mark.parametrize(
    ("due_ms", "end", "is_lost"),
    [
        (7_200_000, [NotSettled(600_000, ("1 messages wait for their delay",))], False),
        (5_000, [NotSettled(600_000, ("1 messages wait for their delay",))], True),
        (7_200_000, [], True),
    ],
    ids=["it still waits", "it was due", "nothing waits"],
)
def test_what_is_due_after_the_end_waits_and_is_not_lost(due_ms: int, end: list[RunEvent], is_lost: bool) -> None:
    sent = [SendBegan(1, "later", "orders", due_ms), SendAcknowledged(2, "later", PLACE, 0, 100)]
    assert bool(said(NothingLost(SYNC), [*BEGINNING, *sent, *end])) is is_lost


def test_checkers_get_all_events_in_order_though_many_at_once() -> None:
    class Keeps(Checker):
        hears = (CallEnded,)
        got: ClassVar[list[int]] = []

        def see(self, event: RunEvent) -> None:
            self.got.append(event.at_ms)

    class Fails(Checker):
        def see(self, event: RunEvent) -> None:
            if event.at_ms == EVENTS_AT_ONCE + 5:
                raise ValueError("it fails here")

    checkers = Checkers(ASYNC, [Fails, Keeps])
    for at_ms in range(2 * EVENTS_AT_ONCE + 10):
        checkers.see(CallEnded(at_ms, 1, True) if at_ms % 2 else TrafficEnded(at_ms))
    failed = checkers.finish()
    assert Keeps.got == list(range(1, 2 * EVENTS_AT_ONCE + 10, 2))
    assert [each.at_ms for each in failed] == [EVENTS_AT_ONCE + 5]
