"""What is late, and what excuses it: events as a run has them, and what the checkers of lateness say to them."""

from collections.abc import Sequence

import pytest

from staticfire.client import MessageModel
from staticfire.simulation.checkers.asking import ChecksInTime, SendsSucceed
from staticfire.simulation.checkers.events import (
    BroadcastReceived,
    CallBegan,
    CallEnded,
    FaultBegan,
    FaultEnded,
    GoneForGood,
    NotSettled,
    ProcessBegan,
    ProcessEnded,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
    SendFailed,
    Settled,
    TransactionEnded,
)
from staticfire.simulation.checkers.lateness import ArrivesInTime
from staticfire.simulation.checkers.returning import RetriedInTime, ReturnsInTime
from staticfire.simulation.workload import Brokers, Group, Producers, Topic, Workload
from staticfire.simulation.workload.description import LITE_PULL, SIMPLE
from tests.simulation.test_checkers import said

pytestmark = pytest.mark.row("S3")

LEVELS = Brokers(1, {"message_delay_level": "1s 2s 3s 5s 8s"})
PULLED = Workload(
    [Topic("orders")], [Producers("orders", name="web")], groups=[Group("billing", "orders", members=2)], brokers=LEVELS
)
SYNCED = Workload(PULLED.topics, PULLED.producers, PULLED.groups, brokers=Brokers(1, {"flush_disk_type": "SYNC_FLUSH"}))
PAIR = Workload(PULLED.topics, PULLED.producers, PULLED.groups, brokers=Brokers(2))
SLOW = Workload([Topic("orders")], groups=[Group("billing", "orders", settings={"consume_threads": 1})])
POPPED = Workload([Topic("orders")], groups=[Group("billing", "orders", popped=True)])
FULL = Workload(
    [Topic("orders")],
    [Producers("orders", name="web")],
    groups=[Group("billing", "orders", members=2, popped=True, settings={"pop_threshold_for_queue": 2})],
)
FULL_PULLED = Workload(
    FULL.topics, FULL.producers, groups=[Group("billing", "orders", 2, settings={"pull_threshold_for_queue": 2})]
)
PAID = Workload([Topic("orders")], producers=[Producers("orders", name="web")])
PLACE = ("broker-a", "orders", 0)
RETRIES = ("broker-a", "%RETRY%billing", 0)
CUT_OFF = FaultBegan(50_000, "isolate member", "billing-2")
BEGINNING: list[RunEvent] = [ProcessBegan(0, who) for who in ("broker-a", "billing-1", "billing-2", "web-1")]


def after(*events: RunEvent) -> list[RunEvent]:
    return sorted([*BEGINNING, *events], key=lambda event: event.at_ms)


def sent(at_ms: int, due_ms: int = 0) -> list[RunEvent]:
    return [SendBegan(at_ms, "web-1/1", "orders", due_ms), SendAcknowledged(at_ms, "web-1/1", PLACE, 0, 0)]


def came(at_ms: int, call: int = 1, place: tuple[str, str, int] = PLACE, times: int = 0, popped: int = -1) -> CallBegan:
    seen = Seen("web-1/1", 0, times, times > 0, popped, popped + 5_000 if popped >= 0 else -1)
    return CallBegan(at_ms, call, "billing", "billing-1", place, (seen,))


@pytest.mark.parametrize(
    ("due_ms", "came_ms", "between", "is_said"),
    [
        (0, 60_400, (), False),
        (0, 61_000, (), True),
        (65_000, 66_400, (), False),
        (65_000, 67_000, (), True),
        (0, 70_000, (FaultBegan(60_100, "freeze broker", "broker-a"),), False),
        (0, 100_000, (FaultBegan(70_000, "freeze broker", "broker-a"),), True),
        (0, 61_000, (FaultBegan(60_100, "freeze producer", "web-1"),), True),
        (0, 64_000, (ProcessEnded(60_000, "billing-2", "stopped"),), False),
        (0, 70_000, (ProcessEnded(60_000, "billing-2", "stopped"),), True),
        (0, 70_000, (ProcessEnded(60_000, "billing-2", "killed"),), False),
        (0, 200_000, (CUT_OFF,), False),
        (0, 300_000, (CUT_OFF,), True),
        (0, 300_000, (CUT_OFF, FaultEnded(299_000, "isolate member", "billing-2")), True),
        (0, 300_000, (CUT_OFF, FaultBegan(55_000, "freeze member", "billing-1")), False),
    ],
    ids=[
        "at once", "late", "when it is due", "long after it is due", "its broker is frozen", "that was before",
        "what its producer does after that", "a member has left", "a while ago", "one was killed", "one is cut off",
        "and should be out of its group", "even if it comes back then", "nobody else is well",
    ],
)  # fmt: skip
def test_a_message_comes_in_time(due_ms: int, came_ms: int, between: Sequence[RunEvent], is_said: bool) -> None:
    events = after(*sent(60_000, due_ms), *between, came(came_ms))
    assert bool(said(ArrivesInTime(PULLED), events)) is is_said


@pytest.mark.parametrize("end", [NotSettled(90_000, ()), Settled(90_000)])
def test_what_never_comes_is_late_at_the_end(end: RunEvent) -> None:
    assert said(ArrivesInTime(PULLED), after(*sent(60_000), end))
    assert not said(ArrivesInTime(PULLED), after(*sent(60_000), came(60_100), end))


def ends(at_ms: int, how: str, safe_position: int = -1) -> list[RunEvent]:
    return [ProcessEnded(at_ms, "broker-a", how, safe_position), ProcessBegan(at_ms + 1_000, "broker-a")]


def test_what_may_be_gone_with_its_broker_is_not_late() -> None:
    events = after(*sent(60_000), *ends(60_200, "without power"), NotSettled(500_000, ()))
    assert not said(ArrivesInTime(PULLED), events)


@pytest.mark.parametrize(
    ("workload", "how", "safe_position"),
    [(PULLED, "killed", -1), (PULLED, "without power", 100), (SYNCED, "without power", -1), (SYNCED, "crashed", -1)],
)
@pytest.mark.parametrize(("came_ms", "is_said"), [(216_400, False), (217_000, True)])
def test_what_the_end_of_a_broker_leaves_is_expected(
    workload: Workload, how: str, safe_position: int, came_ms: int, is_said: bool
) -> None:
    events = after(*sent(64_900), *ends(65_000, how, safe_position), came(came_ms))
    assert bool(said(ArrivesInTime(workload), events)) is is_said


def test_what_waits_for_its_time_is_expected_over_the_end_of_its_broker() -> None:
    events = after(*sent(60_000, due_ms=360_000), *ends(65_000, "killed"))
    assert not said(ArrivesInTime(PULLED), [*events, came(361_400)])
    assert said(ArrivesInTime(PULLED), [*events, came(370_000)])


def test_a_retry_is_expected_over_the_end_of_its_broker_unless_it_may_not_have_been_sent_back() -> None:
    failed = [came(60_000), CallEnded(60_100, 1, False)]
    retried = came(400_000, 2, RETRIES, 1)
    assert said(RetriedInTime(PULLED), after(*failed, *ends(90_000, "killed"), retried))
    assert not said(RetriedInTime(PULLED), after(*failed, *ends(61_000, "killed"), retried))


def test_what_a_member_has_popped_before_it_died_may_come_after_its_invisible_time() -> None:
    for at_ms, is_said in ((125_000, False), (172_000, True)):
        events = after(*sent(60_000), ProcessEnded(60_100, "billing-2", "killed"), came(at_ms))
        assert bool(said(ArrivesInTime(FULL), events)) is is_said


TAGGED = Workload(PULLED.topics, PULLED.producers, [Group("billing", "orders", 2, expression="red || blue")])
EACH = Workload(
    PULLED.topics, PULLED.producers,
    [Group("billing", "orders", 2, settings={"message_model": MessageModel.BROADCASTING})],
)  # fmt: skip
POLLED = Workload(PULLED.topics, PULLED.producers, [Group("billing", "orders", 2, way=LITE_PULL)])
RECEIVED = Workload(
    PULLED.topics, PULLED.producers, [Group("billing", "orders", 2, way=SIMPLE, popped=True)], brokers=Brokers(1)
)


@pytest.mark.parametrize(("tag", "is_said"), [("red", True), ("green", False)])
def test_a_group_that_filters_gets_what_matches_in_time(tag: str, is_said: bool) -> None:
    begun, acknowledged = sent(60_000)
    begun = SendBegan(60_000, "web-1/1", "orders", tag=tag)
    assert bool(said(ArrivesInTime(TAGGED), after(begun, acknowledged, Settled(90_000)))) is is_said


def test_each_member_of_a_broadcasting_group_gets_a_message_in_time_unless_it_is_away() -> None:
    first, second = (
        BroadcastReceived(60_100, "billing", member, PLACE, (Seen("web-1/1", 0, 0, False),))
        for member in ("billing-1", "billing-2")
    )
    assert not said(ArrivesInTime(EACH), after(*sent(60_000), first, second, Settled(90_000)))
    assert said(ArrivesInTime(EACH), after(*sent(60_000), first, Settled(90_000)))
    for away in (ProcessEnded(59_000, "billing-2", "stopped"), ProcessEnded(60_200, "billing-2", "killed"),
                 FaultBegan(60_200, "freeze member", "billing-2")):  # fmt: skip
        assert not said(ArrivesInTime(EACH), after(*sent(60_000), first, away, Settled(400_000)))


@pytest.mark.parametrize(("workload", "late_ms"), [(POLLED, 1_000), (RECEIVED, 5_000)])
def test_programs_that_poll_or_receive_get_messages_in_time(workload: Workload, late_ms: int) -> None:
    assert not said(ArrivesInTime(workload), after(*sent(60_000), came(60_000 + late_ms - 600)))
    assert said(ArrivesInTime(workload), after(*sent(60_000), came(60_000 + late_ms)))
    other = CallBegan(59_000, 7, "billing", "billing-1", PLACE, (Seen("web-1/0", 9, 0, False),))
    busy = [*sent(60_000), other, CallEnded(70_000, 7, True)]
    assert not said(ArrivesInTime(POLLED), after(*busy, came(70_100)))


def test_a_broker_that_is_gone_for_good_excuses_nothing_for_ever() -> None:
    gone = [FaultBegan(65_000, "kill broker", "broker-b"), GoneForGood(65_000, "broker-b"),
            ProcessEnded(65_000, "broker-b", "killed"), FaultEnded(65_000, "kill broker", "broker-b")]  # fmt: skip
    for at_ms, is_said in ((200_000, False), (220_000, True)):
        assert bool(said(ArrivesInTime(PAIR), after(*gone, *sent(at_ms), came(at_ms + 10_000)))) is is_said
        failed = [SendBegan(at_ms, "web-1/1", "orders"), SendFailed(at_ms, "web-1/1", "no response")]
        assert bool(said(SendsSucceed(PAIR), after(*gone, *failed))) is is_said


def test_what_is_stored_on_a_broker_that_is_gone_for_good_is_not_expected() -> None:
    gone = [GoneForGood(60_100, "broker-a"), ProcessEnded(60_100, "broker-a", "killed")]
    assert not said(ArrivesInTime(PAIR), after(*sent(60_000), *gone, Settled(400_000)))


def test_a_member_without_a_free_thread_has_no_time() -> None:
    other = CallBegan(60_000, 7, "billing", "billing-1", PLACE, (Seen("web-1/0", 9, 0, False),))
    busy = [*sent(60_000), other, CallEnded(70_000, 7, True)]
    assert not said(ArrivesInTime(SLOW), after(*busy, came(70_100)))
    assert said(ArrivesInTime(SLOW), after(*busy, came(71_000)))
    assert said(ArrivesInTime(PULLED), after(*busy, came(70_100)))


def at_work(member: str, first: int, place: tuple[str, str, int], *ends_ms: int) -> list[RunEvent]:
    """A member gets messages of a queue at 60 s, one per call; these are the times at which it has consumed them."""
    events: list[RunEvent] = []
    for number, end_ms in enumerate(ends_ms, first):
        seen = Seen(f"web-1/{number}", number, 0, False)
        events += [CallBegan(60_000, number, "billing", member, place, (seen,)), CallEnded(end_ms, number, True)]
    return events


@pytest.mark.parametrize(
    ("workload", "one", "other", "came_ms", "is_said"),
    [
        (FULL, (60_900, 60_900, 60_900), (60_700, 60_700, 60_900), 61_150, False),
        (FULL, (60_900, 60_900, 60_900), (60_700, 60_700, 60_900), 61_250, True),
        (FULL, (62_000, 62_000, 62_000), (60_700, 62_000), 60_550, True),
        (FULL_PULLED, (60_900, 60_900, 60_900), (), 61_350, False),
        (FULL_PULLED, (60_900, 60_900, 60_900), (), 61_450, True),
        (FULL_PULLED, (60_900, 60_900), (), 60_550, True),
    ],
    ids=["both are full", "one had room", "one has always room", "its owner is full", "it had room", "and always"],
)
def test_a_member_with_more_messages_than_its_threshold_takes_no_more(
    workload: Workload, one: Sequence[int], other: Sequence[int], came_ms: int, is_said: bool
) -> None:
    place = ("broker-a", "orders", 1) if workload is FULL else PLACE
    full = [*at_work("billing-1", 10, place, *one), *at_work("billing-2", 20, place, *other)]
    assert bool(said(ArrivesInTime(workload), after(*sent(60_010), *full, came(came_ms)))) is is_said


@pytest.mark.parametrize(("at_ms", "words"), [(62_900, "100 ms early"), (63_100, ""), (64_000, "late")])
def test_a_retry_comes_when_its_level_says(at_ms: int, words: str) -> None:
    heard = said(RetriedInTime(PULLED), after(came(60_000), CallEnded(60_000, 1, False), came(at_ms, 2, RETRIES, 1)))
    assert [words in each for each in heard] == [True] * bool(words)


@pytest.mark.parametrize(("at_ms", "words"), [(67_900, "100 ms early"), (78_100, ""), (79_000, "late")])
def test_a_retry_that_could_not_be_sent_back_keeps_its_level(at_ms: int, words: str) -> None:
    """It is consumed again from its place after 5 s each time, with a higher count that only the member knows."""
    events: list[RunEvent] = [came(60_000), CallEnded(60_000, 1, False)]
    for times, ms in enumerate((63_000, 68_000, 73_000), 1):
        events += [came(ms, 1 + times, RETRIES, times), CallEnded(ms, 1 + times, False)]
    sent_back = CallBegan(at_ms, 5, "billing", "billing-1", RETRIES, (Seen("web-1/1", 1, 2, True),))
    heard = said(RetriedInTime(PULLED), after(*events, sent_back))
    assert [words in each for each in heard] == [True] * bool(words)


@pytest.mark.parametrize(("at_ms", "words"), [(69_900, "100 ms early"), (70_100, "")])
def test_a_retry_that_the_member_sends_itself_has_its_own_count(at_ms: int, words: str) -> None:
    """The broker stored the first retry and could not say so. The member sends the next one with its own count."""
    stored = CallBegan(68_000, 3, "billing", "billing-1", RETRIES, (Seen("web-1/1", 0, 1, True),))
    resent = CallBegan(at_ms, 4, "billing", "billing-1", RETRIES, (Seen("web-1/1", 1, 2, True),))
    events = [came(60_000), CallEnded(60_000, 1, False), came(65_000, 2, PLACE, 1), CallEnded(65_000, 2, False)]
    heard = said(RetriedInTime(PULLED), after(*events, stored, CallEnded(68_000, 3, False), resent))
    assert [words in each for each in heard if "early" in each] == [True] * bool(words)


@pytest.mark.parametrize(
    ("has_failed", "again_ms", "is_said"),
    [
        (True, 69_000, True),
        (True, 70_100, False),
        (True, 103_000, True),
        (False, 66_000, False),
        (False, 99_000, True),
    ],
    ids=["put off for less", "put off", "late", "not acknowledged", "not acknowledged, and late"],
)
def test_a_popped_message_comes_again_in_time(has_failed: bool, again_ms: int, is_said: bool) -> None:
    ended = CallEnded(60_000, 1, False) if has_failed else CallEnded(65_500, 1, True)
    events = after(came(59_000, popped=59_000), ended, came(again_ms, 2, PLACE, 1, popped=again_ms))
    assert bool(said(ReturnsInTime(POPPED), events)) is is_said


@pytest.mark.parametrize(("asked_ms", "is_said"), [(90_000, False), (97_000, True)])
def test_an_open_transaction_is_checked(asked_ms: int, is_said: bool) -> None:
    half = [SendBegan(58_000, "web-1/1", "orders", is_half=True), SendAcknowledged(58_000, "web-1/1", PLACE, 0, 0)]
    assert bool(said(ChecksInTime(PAID), after(*half, TransactionEnded(asked_ms, "web-1/1", True)))) is is_said


@pytest.mark.parametrize(("clients", "is_said"), [(1, False), (2, True)], ids=["the only one", "one of two"])
def test_a_program_that_is_gone_for_good_gets_no_checks(clients: int, is_said: bool) -> None:
    workload = Workload([Topic("orders")], producers=[Producers("orders", clients=clients, name="web")])
    half = [SendBegan(58_000, "web-1/1", "orders", is_half=True), SendAcknowledged(58_000, "web-1/1", PLACE, 0, 0)]
    gone = [FaultBegan(60_000, "kill producer", "web-1"), GoneForGood(60_000, "web-1"),
            FaultEnded(60_000, "kill producer", "web-1")]  # fmt: skip
    assert bool(said(ChecksInTime(workload), after(*half, *gone, Settled(500_000)))) is is_said


@pytest.mark.parametrize(
    ("ends", "flush", "is_said"),
    [
        (ProcessEnded(58_010, "broker-a", "without power", 700), "ASYNC_FLUSH", False),
        (ProcessEnded(58_010, "broker-a", "crashed", 700), "ASYNC_FLUSH", False),
        (ProcessEnded(57_999, "broker-a", "without power", 700), "ASYNC_FLUSH", False),
        (ProcessEnded(57_990, "broker-a", "without power", 700), "ASYNC_FLUSH", True),
        (ProcessEnded(58_010, "broker-a", "without power", 701), "ASYNC_FLUSH", True),
        (ProcessEnded(58_010, "broker-a", "killed", 700), "ASYNC_FLUSH", True),
        (ProcessEnded(58_010, "broker-b", "without power", 700), "ASYNC_FLUSH", True),
        (ProcessEnded(58_010, "broker-a", "without power", 700), "SYNC_FLUSH", True),
    ],
    ids=[
        "lost with the power", "lost in a crash", "lost, and the response was in flight", "sent after that",
        "on the disk before", "killed", "another broker", "SYNC_FLUSH",
    ],
)  # fmt: skip
def test_a_half_message_that_may_be_lost_is_not_checked(ends: ProcessEnded, flush: str, is_said: bool) -> None:
    workload = Workload(PAID.topics, PAID.producers, brokers=Brokers(2, {"flush_disk_type": flush}))
    half = [SendBegan(57_998, "web-1/1", "orders", is_half=True), SendAcknowledged(58_000, "web-1/1", PLACE, 0, 700)]
    events = after(*half, ends, ProcessBegan(58_500, ends.who), Settled(500_000))
    assert bool(said(ChecksInTime(workload), events)) is is_said


@pytest.mark.parametrize(
    ("between", "is_said"),
    [
        ((), True),
        ((FaultBegan(59_000, "freeze nameserver", "nameserver"),), False),
        ((FaultEnded(1_000, "cut", "web-1"),), False),
    ],
    ids=["nothing", "the nameserver is frozen", "it was cut off a moment ago"],
)  # fmt: skip
def test_a_send_fails_only_for_a_reason(between: Sequence[RunEvent], is_said: bool) -> None:
    events = after(*between, SendBegan(60_000, "web-1/1", "orders"), SendFailed(63_000, "web-1/1", "no answer"))
    assert bool(said(SendsSucceed(PAID), events)) is is_said


@pytest.mark.parametrize(
    ("isolated", "is_said"),
    [("answering-2", False), ("billing-1", True)],
    ids=["a member of the group that replies", "a member of another group"],
)
def test_a_request_needs_the_group_that_replies(isolated: str, is_said: bool) -> None:
    workload = Workload(
        [Topic("questions"), Topic("orders")],
        producers=[Producers("questions", name="asking", asks_ms=20_000), Producers("orders", name="web")],
        groups=[Group("answering", "questions", members=2, replies=True), Group("billing", "orders")],
    )
    starts = [ProcessBegan(0, who) for who in ("nameserver", "broker-a", "answering-1", "answering-2", "billing-1")]
    request = [SendBegan(62_000, "asking-1/1", "questions"), SendFailed(82_000, "asking-1/1", "no reply")]
    events = [*starts, FaultBegan(60_000, "isolate member", isolated), *request]
    assert bool(said(SendsSucceed(workload), events)) is is_said
