"""Masters and slaves in the swarm: seeds without them stay what they were, checkers see what breaks a promise."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.simulation.checkers import Checker
from staticfire.simulation.checkers.delivery import Intact, NothingLost
from staticfire.simulation.checkers.events import (
    FaultBegan,
    FaultEnded,
    MasterSeen,
    MessageFound,
    NotSettled,
    OffsetSeen,
    ProcessBegan,
    ProcessEnded,
    ReplicaLog,
    ReplicasSeen,
    RunEvent,
    SendAcknowledged,
    SendBegan,
    TopicChanged,
    TopicsSeen,
)
from staticfire.simulation.checkers.losses import DECIDES, FAILED_OVER, GONE, LOST_MORE
from staticfire.simulation.checkers.replica_topics import TopicsKept
from staticfire.simulation.checkers.replicas import OffsetsCopied, OneMaster, QuorumKept, ReplicasEqual
from staticfire.simulation.runs.play import Play, play
from staticfire.simulation.runs.seeds import made_for
from staticfire.simulation.runs.swarm import single_workload, swarm_workload
from staticfire.simulation.workload import Brokers, Group, Nemesis, Producers, Topic, Workload
from staticfire.simulation.workload.strikes import REPLICA_STRIKES, SET_STRIKES, Strike
from tests.cases import first_and_slow
from tests.simulation.replicated import workload as replicated_workload

pytestmark = [pytest.mark.row("P7"), pytest.mark.row("S3")]

SEEDS = range(150)
SYNC: dict[str, Any] = {"broker_role": "SYNC_MASTER", "in_sync_replicas": 2, "slave_timeout": 500}


def workload(replicas: int = 1, **settings: Any) -> Workload:
    return Workload(
        brokers=Brokers(1, {"message_delay_level": "1s 2s 3s", **settings}, replicas),
        topics=[Topic("orders", 2)],
        producers=[Producers("orders", 5)],
        groups=[Group("billing", "orders", members=2)],
        settles_within_seconds=300.0,
    )


def test_seeds_without_slaves_are_what_they_were_before_there_were_any() -> None:
    made = {seed: made_for(swarm_workload, seed) for seed in SEEDS}
    singles = [seed for seed, one in made.items() if not one.brokers.replicas]
    assert all(repr(made[seed]) == repr(made_for(single_workload, seed)) for seed in singles)
    assert 0.8 < len(singles) / len(SEEDS) < 0.9


def test_seeds_with_slaves_differ_in_everything_that_matters() -> None:
    made = [made_for(replicated_workload, seed) for seed in SEEDS]
    assert {one.brokers.replicas for one in made} == {1, 2}
    assert {one.brokers.copies_awaited for one in made} == {1, 2}
    assert {one.brokers.fails_over for one in made} == {True, False}
    assert {kind for one in made for kind in one.nemesis.kinds} >= {*REPLICA_STRIKES, *SET_STRIKES}


@pytest.mark.parametrize("kind", first_and_slow((*REPLICA_STRIKES, *SET_STRIKES)))
def test_each_fault_of_replicas_strikes_and_heals(kind: str) -> None:
    target = "broker-a-1" if kind == "lose disk" else "broker-a"
    outcome = play(workload(**SYNC), Play(3, 0.007, strikes=[Strike(8_000, kind, target, 6_000, 7)]))
    assert outcome.passed, outcome
    assert outcome.states[kind] == 1
    if kind in ("fail over", "kill master", "elect lagging"):
        assert outcome.states.get("another master", 0) >= 1


def test_a_master_that_is_frozen_stops_when_it_is_thawed() -> None:
    strikes = [
        Strike(8_000, "freeze master", "broker-a", 8_000),
        Strike(9_000, "restart broker", "broker-a-0", 1_000),
    ]
    outcome = play(workload(**SYNC), Play(3, 0.007, strikes=strikes))
    assert outcome.passed, outcome
    assert outcome.states["restart broker"] == 1


@pytest.mark.parametrize("seed", first_and_slow(range(3)))
def test_the_disk_of_the_master_is_lost_and_nothing_else(seed: int) -> None:
    """The new machine is there before a slave has taken over, or after it."""
    strikes = [Strike(9_000, "lose disk", "broker-a-0", (100, 250, 5_000)[seed], seed)]
    outcome = play(workload(2, **SYNC), Play(seed, 0.007, strikes=strikes))
    assert outcome.passed, outcome
    assert outcome.states["another master"] == 1


def test_a_master_whose_nameserver_was_restarted_isnt_replaced() -> None:
    """Its slaves register before it, and the program that lets them take over sees a broker without a master."""
    strikes = [Strike(at_ms, "kill nameserver", "nameserver", 3_000, at_ms) for at_ms in (5_000, 20_000, 35_000)]
    outcome = play(workload(), Play(1, 0.011, strikes=strikes))
    assert outcome.passed, outcome
    assert outcome.states.get("another master", 0) == 0


def said(kind: type[Checker], of: Workload, *events: RunEvent) -> list[str]:
    checker = kind(of)
    for event in sorted(events, key=lambda one: one.at_ms):
        checker.see(event)
    checker.finish()
    return [violation.words for violation in checker.violations]


PLACE = ("broker-a", "orders", 0)
SENT = (SendBegan(1_000, "web-1/1", "orders"), SendAcknowledged(1_010, "web-1/1", PLACE, 0, 500))
FOUND = MessageFound(9_000, "web-1/1", PLACE, 0)
FAILOVER = (ProcessEnded(2_000, "broker-a", GONE), ProcessEnded(2_300, "broker-a", FAILED_OVER, 400))


def test_what_two_machines_acknowledged_must_be_there() -> None:
    sync = workload(**SYNC)
    assert said(QuorumKept, sync, *SENT, *FAILOVER) == [
        "2 machines of broker-a acknowledged web-1/1 (position 500), and it is gone at the end"
    ]
    assert not said(QuorumKept, sync, *SENT, *FAILOVER, FOUND)
    assert not said(QuorumKept, sync, *SENT, ProcessEnded(2_000, "broker-a", LOST_MORE, 0))
    assert said(QuorumKept, sync, *SENT, ProcessEnded(2_000, "broker-a", LOST_MORE, 900))
    assert not said(QuorumKept, workload(), *SENT, *FAILOVER)  # An asynchronous master promises nothing.


def test_what_an_asynchronous_failover_takes_is_what_followed_its_start() -> None:
    assert not said(NothingLost, workload(), *SENT, *FAILOVER)
    later = ProcessEnded(2_300, "broker-a", FAILED_OVER, 501)
    assert said(NothingLost, workload(), *SENT, later)
    assert said(NothingLost, workload(**SYNC), *SENT, *FAILOVER)


def test_two_masters_of_one_epoch() -> None:
    seen = (MasterSeen(1, "broker-a", "broker-a-0", 1), MasterSeen(2, "broker-a", "broker-a-1", 2))
    assert not said(OneMaster, workload(), *seen, MasterSeen(3, "broker-a", "broker-a-0", 3))
    words = "broker-a-0 is the master of broker-a in epoch 2, in which broker-a-1 was the master"
    assert said(OneMaster, workload(), *seen, MasterSeen(3, "broker-a", "broker-a-0", 2)) == [words]


def test_another_log_begins_with_an_old_epoch_only_after_all_was_lost() -> None:
    first = MasterSeen(1, "broker-a", "broker-a-0", 2, "one")
    other = MasterSeen(3, "broker-a", "broker-a-1", 2, "two")
    assert said(OneMaster, workload(), first, other)
    assert said(OneMaster, workload(), ProcessEnded(0, "broker-a", LOST_MORE, 0), first, other)
    lost = ProcessEnded(2, "broker-a", LOST_MORE, 0)
    assert not said(OneMaster, workload(), first, lost, other)
    assert said(OneMaster, workload(), first, lost, MasterSeen(3, "broker-a", "broker-a-1", 2, "one"))
    assert said(OneMaster, workload(), first, lost, other, MasterSeen(4, "broker-a", "broker-a-2", 2, "two"))


@pytest.mark.parametrize(("end", "is_said"), [(0, False), (300, True)])
def test_another_log_begins_with_an_old_epoch_if_the_one_before_was_empty(end: int, is_said: bool) -> None:
    first = [MasterSeen(at_ms, "broker-a", "broker-a-0", 1, "one", end if at_ms > 1 else 0) for at_ms in (1, 2)]
    assert bool(said(OneMaster, workload(), *first, MasterSeen(3, "broker-a", "broker-a-0", 1, "two", 0))) is is_said


@pytest.mark.parametrize(
    ("before", "is_said"),
    [
        ((), True),
        ((ProcessEnded(1_000, "broker-a-0", "killed"),), True),
        ((ProcessEnded(1_000, "broker-a-0", "without power"),), False),
        ((FaultBegan(1_000, "lose disk", "broker-a-1"),), False),
        ((ProcessEnded(1_000, "broker-a-0", "without power"), FaultEnded(2_000, "replication", "broker-a")), True),
        ((FaultBegan(1_000, "failing syncs", "broker-a-0"), FaultEnded(2_000, "replication", "broker-a")), False),
        ((ProcessEnded(1_000, "broker-b-0", "without power"),), True),
    ],
    ids=["nothing", "a kill", "power", "a disk", "in sync since", "its disk still fails", "another broker"],
)
def test_a_slave_that_refuses_to_copy_needs_a_reason(before: Sequence[RunEvent], is_said: bool) -> None:
    of = replace(workload(), brokers=replace(workload().brokers, count=2))
    found = said(ReplicasEqual, of, *before, FaultBegan(3_000, DECIDES, "broker-a"))
    words = "a slave of broker-a refuses to copy its master, and no machine of it has lost data"
    assert found == ([words] if is_said else [])


@pytest.mark.parametrize(("kept", "is_said"), [(900, True), (500, False)])
def test_what_a_loss_doesnt_reach_stays_where_it_is(kept: int, is_said: bool) -> None:
    lost, other = ProcessEnded(2_000, "broker-a", LOST_MORE, kept), MessageFound(9_000, "web-1/2", PLACE, 0)
    assert bool(said(Intact, workload(**SYNC), *SENT, lost, other)) is is_said


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (ReplicaLog("SLAVE", 1, 900, "d1", ""), ""),
        (ReplicaLog("SLAVE", 1, 900, "d2", ""), "the logs of broker-a differ"),
        (ReplicaLog("SLAVE", 1, 800, "d1", ""), "the logs of broker-a differ"),
        (ReplicaLog("SLAVE", 1, 900, "d1", "it has other messages"), "doesn't copy its master"),
        (None, "broker-a-1 isn't up at the end"),
    ],
)
def test_logs_that_differ(other: ReplicaLog | None, words: str) -> None:
    logs = {"broker-a-0": ReplicaLog("ASYNC_MASTER", 1, 900, "d1", "")} | (
        {} if other is None else {"broker-a-1": other}
    )
    found = said(ReplicasEqual, workload(), ReplicasSeen(9_000, "broker-a", logs))
    assert words in found[0] if words else not found


def offset(at_ms: int, value: int, life: int, end: int = 100) -> OffsetSeen:
    return OffsetSeen(at_ms, "billing", PLACE, value, end, life)


def test_offsets_after_a_failover_are_a_little_older_at_most() -> None:
    ended = ProcessEnded(30_000, "broker-a", GONE)
    began = ProcessBegan(30_400, "broker-a")
    seen = (offset(10_000, 40, 1), offset(29_500, 70, 1), ended, began)
    assert not said(OffsetsCopied, workload(), *seen, offset(30_500, 40, 2))
    assert said(OffsetsCopied, workload(), *seen, offset(30_500, 39, 2)) == [
        "billing was at 40 of ('broker-a', 'orders', 0) for 8000 ms before the failover, and is at 39 after it"
    ]
    assert not said(OffsetsCopied, workload(), *seen, offset(30_500, 39, 2, end=39))
    cut_off = (FaultBegan(20_000, "cut replicas", "broker-a"), FaultEnded(29_000, "cut replicas", "broker-a"))
    assert not said(OffsetsCopied, workload(), *cut_off, *seen, offset(30_500, 39, 2))


def test_more_copies_than_machines_are_an_error() -> None:
    with pytest.raises(UsageError, match="in_sync_replicas=3, but replicas=1 makes only 2 machines"):
        Brokers(1, {"in_sync_replicas": 3}, 1)
    with pytest.raises(UsageError, match="replicas=9; allowed are 0 to 4"):
        Brokers(1, {}, 9)


def test_faults_of_replicas_need_replicas() -> None:
    lone = Workload([Topic("orders")], [Producers("orders")], nemesis=Nemesis("fail over", 5.0))
    assert play(lone, Play(1, 0.005)).strikes == []


def changed(at_ms: int, queues: int, is_acknowledged: bool = True) -> TopicChanged:
    return TopicChanged(at_ms, "broker-a", "side-1", queues, at_ms - 100, is_acknowledged)


FAULT = [FaultBegan(3_900, "replication", "broker-a"), FaultEnded(6_000, "replication", "broker-a")]


@pytest.mark.parametrize(
    ("events", "queues", "is_said"),
    [
        ([changed(4_000, 2)], 2, False),
        ([changed(4_000, 2)], 0, True),
        ([changed(3_000, 2), changed(4_000, 4)], 2, True),
        ([changed(3_000, 2), changed(4_000, 0)], 2, True),
        ([changed(3_000, 2), changed(4_000, 0)], 0, False),
        ([changed(3_000, 2), changed(4_000, 4, is_acknowledged=False)], 0, False),
        ([*FAULT, changed(4_500, 2)], 0, False),
        ([*FAULT, changed(6_200, 2)], 0, False),
        ([*FAULT, changed(7_000, 2)], 0, True),
        ([changed(3_000, 2), *FAULT], 0, True),
        ([FaultBegan(3_900, "narrow network", ""), changed(4_500, 2)], 0, False),
        ([FaultBegan(3_900, "kill broker", "broker-b"), changed(4_500, 2)], 0, True),
        ([changed(3_000, 2), ProcessEnded(4_000, "broker-a", FAILED_OVER, 0)], 0, True),
        ([changed(3_000, 2), ProcessEnded(4_000, "broker-a", LOST_MORE, 0)], 0, False),
        ([changed(3_000, 2), NotSettled(9_000, ("why",))], 0, False),
    ],
    ids=[
        "kept", "lost", "queues lost", "deleted, and back", "deleted", "unknown", "a slave is away", "it was just away",
        "it was away before", "away afterwards", "all links", "another broker", "failed over", "all disks lost",
        "not at rest",
    ],
)  # fmt: skip
def test_what_was_acknowledged_of_a_topic_remains(events: list[RunEvent], queues: int, is_said: bool) -> None:
    seen = TopicsSeen(9_500, "broker-a", {"side-1": queues} if queues else {})
    assert bool(said(TopicsKept, workload(**SYNC), *events, seen)) is is_said
    assert not said(TopicsKept, workload(), *events, seen)
