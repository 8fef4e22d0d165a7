"""The further kinds of workloads: each does what it is for, comes to rest, and has a checker that notices."""

from random import Random

import pytest

from staticfire.client import MessageModel
from staticfire.simulation.checkers import Checker
from staticfire.simulation.checkers.broadcast import ReachesEach
from staticfire.simulation.checkers.delivery import NothingLost
from staticfire.simulation.checkers.events import (
    BroadcastReceived,
    CallBegan,
    FaultBegan,
    GoneForGood,
    MessageFound,
    ProcessBegan,
    ProcessEnded,
    RecallBegan,
    RecallEnded,
    ReplyReceived,
    RunEvent,
    Seen,
    SendAcknowledged,
    SendBegan,
    SendFailed,
)
from staticfire.simulation.checkers.exchanges import RecallsKept, RepliesKept
from staticfire.simulation.runs.planning import plan_strikes
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.runs.swarm import plain_workload, swarm_workload
from staticfire.simulation.runs.swarm_kinds import KINDS, with_some
from staticfire.simulation.workload import Brokers, Group, Producers, Topic, Workload
from staticfire.simulation.workload.strikes import LASTING, Strike
from staticfire.simulation.world.chance import source_of_chance

pytestmark = pytest.mark.row("S3")

ORDERS = [Topic("orders", 2)]
SENDING = [Producers("orders", 3)]
PLACE = ("broker-a", "orders", 0)
HOURS = 0.006


def test_the_plain_part_of_a_seed_is_the_same_with_and_without_kinds() -> None:
    for seed in range(20):
        plain = plain_workload(source_of_chance(seed, "workload"))
        whole = swarm_workload(source_of_chance(seed, "workload"))
        assert whole.network == plain.network
        assert [group.name for group in whole.groups][: len(plain.groups)] == [group.name for group in plain.groups]
    workloads = [swarm_workload(source_of_chance(seed, "workload")) for seed in range(60)]
    alone = [seed for seed in range(60) if workloads[seed] == plain_workload(source_of_chance(seed, "workload"))]
    assert 8 < len(alone) < 45


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_adds_to_any_workload(kind: str) -> None:
    for seed in range(10):
        plain = plain_workload(Random(seed))
        assert with_some(Random(seed), plain, [kind]) != plain


def test_lite_pull_and_simple_consumers_come_to_rest() -> None:
    groups = [
        Group("polling", "orders", members=2, way="lite pull"),
        Group("receiving", "orders", members=2, way="simple", popped=True, batch=4),
    ]
    strikes = [Strike(8_000, "kill member", "polling-1"), Strike(9_000, "kill member", "receiving-1")]
    outcome = play(Workload(ORDERS, SENDING, groups), Play(1, HOURS, strikes=strikes, keeps_events=True))
    assert outcome.passed, outcome
    calls = [event for event in outcome.events if isinstance(event, CallBegan)]
    assert {call.member for call in calls} == {"polling-1", "polling-2", "receiving-1", "receiving-2"}


def test_each_request_gets_a_reply() -> None:
    workload = Workload(
        ORDERS, [Producers("orders", 2, clients=2, asks_ms=10_000)], [Group("answering", "orders", 2, replies=True)]
    )
    outcome = play(workload, Play(1, HOURS, keeps_events=True))
    assert outcome.passed, outcome
    assert sum(isinstance(event, ReplyReceived) for event in outcome.events) > 20


def test_some_messages_are_called_back_and_some_recalls_come_too_late() -> None:
    workload = Workload(
        ORDERS, [Producers("orders", 3, delay_ms=3_000, is_exact=True, recalls=0.8)], [Group("billing", "orders")]
    )
    outcome = play(workload, Play(1, HOURS, keeps_events=True))
    assert outcome.passed, outcome
    assert {event.outcome for event in outcome.events if isinstance(event, RecallEnded)} == {"recalled", "refused"}


BROADCAST = Group("news", "orders", 2, settings={"message_model": MessageModel.BROADCASTING})


def test_each_member_of_a_group_that_broadcasts_gets_all() -> None:
    strikes = [Strike(8_000, "kill member", "news-1", lasts_ms=5_000)]
    outcome = play(Workload(ORDERS, SENDING, [BROADCAST]), Play(1, HOURS, strikes=strikes, keeps_events=True))
    assert outcome.passed, outcome
    got = [event for event in outcome.events if isinstance(event, BroadcastReceived)]
    names = [{seen.name for event in got if event.member == member for seen in event.messages} for member in
             BROADCAST.member_names]  # fmt: skip
    assert names[0] == names[1]
    assert len(names[0]) > 50


@pytest.mark.parametrize("kind", LASTING)
def test_others_take_over_from_what_is_gone_for_good(kind: str) -> None:
    target = {"broker": "broker-b", "member": "shipping-2", "producer": "orders-producer-1"}[kind.split()[1]]
    groups = [Group("shipping", "orders", 2, ordered=True), Group("billing", "orders", 2)]
    workload = Workload(ORDERS, SENDING, groups, Brokers(2))
    outcome = play(workload, Play(1, HOURS, strikes=[Strike(8_000, kind, target)], keeps_events=True))
    assert outcome.passed, outcome
    gone_ms = next(event.at_ms for event in outcome.events if isinstance(event, GoneForGood))
    ends = [event.at_ms for event in outcome.events if isinstance(event, ProcessBegan) and event.who == target]
    assert max(ends) < gone_ms


def test_one_is_always_left() -> None:
    for seed in range(30):
        workload = with_some(Random(seed), plain_workload(Random(seed)), ["losses"])
        gone = {strike.target for strike in plan_strikes(workload, Random(seed), 3_600_000) if strike.kind in LASTING}
        assert workload.brokers.names[0] not in gone
        assert not gone.intersection(group.member_names[0] for group in workload.groups)


# -- what the checkers say ---------------------------------------------------------------------------------------------


def said(checker: Checker, *events: RunEvent) -> bool:
    for event in events:
        checker.see(event)
    checker.finish()
    return bool(checker.violations)


LATER = [SendBegan(1, "web/1", "orders", 5_000), SendAcknowledged(2, "web/1", PLACE, 0, 0)]
COMES = CallBegan(5_100, 1, "billing", "billing-1", PLACE, (Seen("web/1", 0, 0, False),))


@pytest.mark.parametrize(
    ("outcome", "comes", "is_said_by"),
    [
        ("recalled", True, RecallsKept),
        ("recalled", False, None),
        ("refused", True, None),
        ("refused", False, NothingLost),
        ("unknown", True, None),
        ("unknown", False, None),
        ("", True, None),
        ("", False, None),
    ],
)
def test_what_was_called_back_never_comes_and_the_rest_does(
    outcome: str, comes: bool, is_said_by: type[Checker] | None
) -> None:
    """Without an outcome, the program was killed before it got the response."""
    ends = [RecallEnded(4_001, "web/1", outcome)] if outcome else []
    end = [COMES, MessageFound(9_000, "web/1", PLACE, 0)] if comes else []
    workload = Workload(ORDERS, SENDING, [Group("billing", "orders")])
    for checker in (RecallsKept, NothingLost):
        is_said = said(checker(workload), *LATER, RecallBegan(4_000, "web/1"), *ends, *end)
        assert is_said is (checker is is_said_by)


@pytest.mark.parametrize(
    ("how", "at_ms", "is_said"),
    [("crashed", 4_008, False), ("crashed", 9_100, True), ("killed", 4_008, True), ("without power", 4_008, True)],
    ids=["its disk fails", "long after it", "it is killed", "it loses power"],
)
def test_a_recall_that_waits_for_a_disk_that_fails_may_be_lost(how: str, at_ms: int, is_said: bool) -> None:
    workload = Workload(
        ORDERS, SENDING, [Group("billing", "orders")], brokers=Brokers(1, {"flush_disk_type": "SYNC_FLUSH"})
    )
    events = [*LATER, RecallEnded(4_000, "web/1", "recalled"), ProcessEnded(at_ms, "broker-a", how), COMES]
    assert said(RecallsKept(workload), *events) is is_said


@pytest.mark.parametrize(
    ("ended_ms", "how", "is_said"),
    [
        (4_300, "failed over", False),
        (4_299, "failed over", True),
        (4_300, "killed", True),
    ],
    ids=["no slave had it", "a slave had it", "the same master"],
)
def test_a_recall_that_no_slave_has_may_be_lost_in_a_failover(ended_ms: int, how: str, is_said: bool) -> None:
    settings = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": 300}
    workload = Workload(ORDERS, SENDING, [Group("billing", "orders")], brokers=Brokers(1, settings, 1))
    recall = [RecallBegan(4_000, "web/1"), RecallEnded(ended_ms, "web/1", "recalled")]
    assert said(RecallsKept(workload), *LATER, *recall, ProcessEnded(4_500, "broker-a", how), COMES) is is_said


REQUESTED = SendBegan(200_000, "web/1", "orders")


@pytest.mark.parametrize(
    ("events", "is_said"),
    [
        ([REQUESTED, ReplyReceived(200_050, "web/1", "web/1")], False),
        ([REQUESTED, ReplyReceived(200_050, "web/1", "web/2")], True),
        ([REQUESTED, SendFailed(210_000, "web/1", "AnswerTimeout")], True),
        ([REQUESTED, FaultBegan(200_001, "kill broker", "broker-a"), SendFailed(210_000, "web/1", "")], False),
    ],
    ids=["its own", "another's", "none", "none, and a broker was killed"],
)
def test_a_request_gets_its_own_reply(events: list[RunEvent], is_said: bool) -> None:
    assert said(RepliesKept(Workload(ORDERS, [Producers("orders", asks_ms=10_000)])), *events) is is_said


def received(member: str, at_ms: int = 5, name: str = "web/1") -> BroadcastReceived:
    return BroadcastReceived(at_ms, "news", member, PLACE, (Seen(name, 0, 0, False),))


UP = [ProcessBegan(0, "news-1"), ProcessBegan(0, "news-2")]
LIES = MessageFound(900_000, "web/1", PLACE, 0)


@pytest.mark.parametrize(
    ("events", "is_said"),
    [
        ([*UP, received("news-1"), received("news-2"), LIES], False),
        ([*UP, received("news-1"), LIES], True),
        ([UP[0], received("news-1"), LIES], False),
        ([*UP, received("news-1"), ProcessEnded(9, "news-2", "killed"), LIES], False),
        ([*UP, received("news-2"), received("news-1", 300_000), received("news-1", 300_099), LIES], True),
        ([*UP, received("news-1"), received("news-2"), FaultBegan(9, "cut", ""), received("news-1", 99), LIES], False),
    ],
    ids=["both", "one of them", "the other is down", "the other is killed", "twice", "twice, and something is broken"],
)
def test_each_member_gets_all(events: list[RunEvent], is_said: bool) -> None:
    assert said(ReachesEach(Workload(ORDERS, SENDING, [BROADCAST])), *events) is is_said
