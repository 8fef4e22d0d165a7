"""A group that consumes in order: each queue by one member, in order, whoever joins, leaves, hangs or dies."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from random import Random

import pytest
import pytest_asyncio
from structlog.testing import CapturingLogger

from staticfire.client import (
    ClientSettings,
    ConsumeFromWhere,
    MessageModel,
    MessageQueue,
    OrderedContext,
    OrderedStatus,
)
from staticfire.client.consume import listener_errors
from staticfire.faults.simulation import SimulatedWorld
from staticfire.protocol.names import dead_letter_topic, retry_topic
from staticfire.protocol.requests.locks import MessageQueue as LockedQueue
from tests.scenarios.consuming import GROUP, TOPIC, Messages, Shop
from tests.scenarios.ordering import SUCCESS, SUSPEND, Chances, Ordering, Turn, forever, taking

BOTH = [ClientSettings(), ClientSettings(protocol="rocketmq")]
BOTH_PROTOCOLS = pytest.mark.parametrize("group", BOTH, ids=["staticfire", "rocketmq"], indirect=True)

pytestmark = pytest.mark.row("O2")


@pytest_asyncio.fixture
async def group(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Ordering]:
    shop = Shop(world, getattr(request, "param", ClientSettings()))
    group = Ordering(await shop.open())
    yield group
    await shop.close()
    assert group.faults == []


def own(consumer: object) -> list[int]:
    return [queue.queue_id for queue in consumer.assignment if queue.topic == TOPIC]  # type: ignore[attr-defined]


def holder(group: Ordering, queue: int = 0) -> str | None:
    state = group.shop.brokers["broker-a"].state
    return state.queue_locks.holder(GROUP, LockedQueue(TOPIC, "broker-a", queue), state.machine.clock.uptime_ms())


# -- undisturbed -----------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_each_queue_is_heard_in_order_and_once(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 3))
    await group.feed(100, queues=4, pause_ms=1)
    await group.until(100)
    for queue in range(4):
        assert group.bodies_of(queue) == [b"%d" % number for number in range(25)]
    await world.run_for(ms=50)
    assert group.shop.is_committed()
    assert not any(turn.message.reconsume_times for turn in group.turns)


async def test_queues_are_worked_on_side_by_side(world: SimulatedWorld, group: Ordering) -> None:
    await group.feed(8, queues=4, pause_ms=0)
    await group.start("one", taking(world, 1_000), consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await group.until(8)
    begun = [turn.began_ms for turn in group.turns]
    assert max(begun[:4]) - min(begun[:4]) < 100
    assert 900 < begun[4] - begun[0] < 1_100


async def test_no_more_listeners_run_at_once_than_there_are_threads(world: SimulatedWorld, group: Ordering) -> None:
    consumer = await group.start("one", taking(world, 1_000), consume_threads=2)
    await group.feed(8, queues=4, pause_ms=0)
    await world.run_for(ms=500)
    assert len(group.turns) == 2
    consumer.update_consume_threads(4)
    await world.run_for(ms=200)
    assert len(group.turns) == 4
    consumer.update_consume_threads(1)
    await group.until(8)
    assert len({turn.began_ms for turn in group.turns[4:]}) >= 3


async def test_a_busy_queue_gives_way_after_a_while(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 1_000), consume_threads=1, max_time_consume_continuously_ms=3_500)
    await group.feed(12, queues=2, pause_ms=0)
    await group.until(12)
    assert [turn.context.queue.queue_id for turn in group.turns[:8]] == [0, 0, 0, 0, 1, 1, 1, 1]


async def test_batches_are_as_large_as_the_settings_say(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 1_000), consume_message_batch_max_size=4)
    await group.feed(10, queues=1, pause_ms=0)
    await group.until(10)
    assert [len(turn.messages) for turn in group.turns] == [1, 4, 4, 1]
    await world.run_for(ms=1_050)
    assert group.shop.committed(0) == 10


@pytest.mark.row("P2")
async def test_a_full_cache_is_pulled_again_when_there_is_room(world: SimulatedWorld, group: Ordering) -> None:
    settings = {"pull_threshold_for_queue": 10, "pull_batch_size": 4}
    consumer = await group.start("one", taking(world, 10), **settings)
    await group.shop.send(*[b"%d" % number for number in range(60)], queue=1)
    most = 0

    def follow() -> bool:
        nonlocal most
        most = max(most, *consumer.cached.values())
        return len(group.bodies) == 60

    await world.until(follow)
    assert most <= 10 + 4
    assert group.bodies == [b"%d" % number for number in range(60)]


@pytest.mark.row("O1")
async def test_broadcasting_needs_no_locks(world: SimulatedWorld, group: Ordering) -> None:
    for who in ("one", "two"):
        consumer = group.consumer(who, message_model=MessageModel.BROADCASTING)
        heard: list[bytes] = []

        @consumer.ordered_listener
        async def listen(messages: Messages, _: OrderedContext, heard: list[bytes] = heard) -> OrderedStatus:
            heard += [message.body for message in messages]
            return SUCCESS

        await world.start(who, consumer)
        assert len(consumer.assignment) == 4
        await group.shop.send(b"a", b"b", b"c", queue=0)
        await world.until(lambda heard=heard: heard == [b"a", b"b", b"c"])  # type: ignore[misc]
    assert holder(group) is None


async def test_a_plain_function_is_called_in_order_too(world: SimulatedWorld, group: Ordering) -> None:
    consumer = group.consumer("one")
    heard: list[bytes] = []

    @consumer.ordered_listener
    def listen(messages: Messages, context: OrderedContext) -> OrderedStatus:
        heard.append(messages[0].body)
        if messages[0].body == b"50" and messages[0].reconsume_times == 0:
            raise ValueError("out of luck")
        return SUCCESS

    await world.start("one", consumer)
    bodies = [b"%d" % number for number in range(100)]
    await group.shop.send(*bodies, queue=2)
    await world.until(lambda: len(heard) == 101)
    assert heard == [*bodies[:51], b"50", *bodies[51:]]
    await world.until(lambda: group.shop.committed(2) == 100, within_ms=50)


# -- answers ---------------------------------------------------------------------------------------------------------


@pytest.mark.row("O4")
@pytest.mark.parametrize("outcome", [SUSPEND, None, "nonsense", ValueError("out of luck")], ids=repr)
async def test_whatever_is_no_success_comes_again_and_holds_its_queue(
    world: SimulatedWorld, group: Ordering, outcome: object
) -> None:
    async def react(turn: Turn) -> OrderedStatus | None:
        if turn.message.body == b"1" and turn.message.reconsume_times < 2:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome  # type: ignore[return-value]
        return SUCCESS

    await group.start("one", react)
    await group.shop.send(b"0", b"1", b"2", queue=0)
    await group.shop.send(b"other", queue=1)
    await group.until(6)
    assert group.bodies_of(0) == [b"0", b"1", b"1", b"1", b"2"]
    again = [turn.began_ms for turn in group.turns if turn.message.body == b"1"]
    assert [later - before for before, later in pairwise(again)] == [1_000, 1_000]
    assert group.turns[-1].began_ms - again[0] == 2_000
    assert group.shop.ends(dead_letter_topic(GROUP)) == {}
    [other] = [turn for turn in group.turns if turn.message.body == b"other"]
    assert other.began_ms - again[0] < 100


@pytest.mark.row("O4")
async def test_the_context_says_how_long_a_queue_waits(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        turn.context.suspend_current_queue_time_ms = 200
        return SUSPEND if turn.message.reconsume_times == 0 else SUCCESS

    await group.start("one", react)
    await group.shop.send(b"0", queue=0)
    await group.until(2)
    assert group.turns[1].began_ms - group.turns[0].began_ms == 200


@BOTH_PROTOCOLS
@pytest.mark.row("O4")
@pytest.mark.row("A5")
async def test_what_failed_too_often_is_a_dead_letter_and_the_next_ones_follow(
    world: SimulatedWorld, group: Ordering
) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        return SUSPEND if turn.message.body == b"1" else SUCCESS

    await group.start("one", react, max_reconsume_times=2, suspend_current_queue_time_ms=100)
    await group.shop.send(b"0", b"1", b"2", queue=0)
    dead = dead_letter_topic(GROUP)
    await world.until(lambda: group.shop.committed(0) == 3)
    assert group.bodies == [b"0", b"1", b"1", b"1", b"2"]
    assert [turn.message.reconsume_times for turn in group.turns[1:4]] == [2, 2, 2], "one message, seen three times"
    assert sum(group.shop.ends(dead).values()) == 1
    assert sum(group.shop.ends(retry_topic(GROUP)).values()) == 0
    group.faults.clear()  # The watch doesn't know that a dead letter is passed.


@pytest.mark.row("O4")
async def test_what_no_broker_takes_stays_in_its_place(world: SimulatedWorld, group: Ordering) -> None:
    is_healed = False

    async def react(turn: Turn) -> OrderedStatus:
        return SUSPEND if turn.message.body == b"1" and not is_healed else SUCCESS

    await group.start("one", react, max_reconsume_times=1, suspend_current_queue_time_ms=100)
    await group.shop.send(b"0", b"1", b"2", queue=0)
    await group.until(2)
    world.partition("one", "broker-a")
    await world.run_for(seconds=20)
    assert len(group.bodies) > 4
    assert set(group.bodies[1:]) == {b"1"}
    is_healed = True
    world.heal("one")
    await world.until(lambda: group.shop.committed(0) == 3)
    assert group.bodies[-1] == b"2"
    group.faults.clear()  # The watch doesn't know that a dead letter is passed.


@pytest.mark.row("O3")
async def test_with_manual_commits_only_commit_moves_the_offset(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        turn.context.auto_commit = False
        return OrderedStatus.COMMIT if turn.message.body in (b"2", b"5") else SUCCESS

    await group.start("one", react)
    for number, committed in enumerate([0, 0, 3, 3, 3, 6, 6]):
        await group.shop.send(b"%d" % number, queue=0)
        await world.run_for(ms=100)
        assert max(group.shop.committed(0), 0) == committed
    assert len(group.turns) == 7
    group.faults.clear()  # The watch takes SUCCESS for done.


@pytest.mark.parametrize("answer", [OrderedStatus.COMMIT, OrderedStatus.ROLLBACK])
async def test_under_auto_commit_any_commit_is_a_success_and_no_exception(
    world: SimulatedWorld, group: Ordering, answer: OrderedStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(listener_errors, "log", log)

    async def react(turn: Turn) -> OrderedStatus:
        return answer

    await group.start("one", react)
    await group.shop.send(b"0", b"1", queue=0)
    await world.until(lambda: group.shop.committed(0) == 2, within_ms=1_000)
    group.faults.clear()  # The watch takes only SUCCESS for done.
    [told] = log.calls
    assert (told.args, told.kwargs["answer"]) == (("listener_answer",), repr(answer.name))


@pytest.mark.row("O3")
async def test_a_rollback_brings_back_all_that_was_taken(world: SimulatedWorld, group: Ordering) -> None:
    rolled: list[int] = []

    async def react(turn: Turn) -> OrderedStatus:
        turn.context.auto_commit = False
        if turn.message.body == b"2" and not rolled:
            rolled.append(turn.began_ms)
            return OrderedStatus.ROLLBACK
        return OrderedStatus.COMMIT if turn.message.body == b"3" else SUCCESS

    await group.start("one", react)
    await group.shop.send(b"0", b"1", b"2", b"3", queue=0)
    await group.until(7)
    assert group.bodies == [b"0", b"1", b"2", b"0", b"1", b"2", b"3"]
    assert group.turns[3].began_ms - rolled[0] == 1_000
    assert not any(turn.message.reconsume_times for turn in group.turns)
    await world.until(lambda: group.shop.committed(0) == 4, within_ms=50)


@pytest.mark.row("O3")
@pytest.mark.parametrize("status", [OrderedStatus.COMMIT, OrderedStatus.ROLLBACK])
async def test_with_auto_commit_both_are_a_success(
    world: SimulatedWorld, group: Ordering, status: OrderedStatus
) -> None:
    async def react(_: Turn) -> OrderedStatus:
        return status

    await group.start("one", react)
    await group.shop.send(b"0", b"1", queue=0)
    await world.until(lambda: group.shop.committed(0) == 2, within_ms=200)
    assert group.bodies == [b"0", b"1"]
    group.faults.clear()


async def test_a_listener_whose_own_awaiting_is_cancelled_has_failed(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        if turn.message.reconsume_times == 0:
            future = world.loop.create_future()
            future.cancel()
            await future
        return SUCCESS

    await group.start("one", react)
    await group.shop.send(b"0", queue=0)
    await group.until(2, within_ms=1_200)


# -- members come and go ---------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
@pytest.mark.row("O1")
@pytest.mark.row("R4")
@pytest.mark.row("R6")
async def test_members_that_join_and_leave_keep_the_order_and_repeat_nothing(
    world: SimulatedWorld, group: Ordering
) -> None:
    await group.start("one", taking(world, 30))
    feeding = asyncio.create_task(group.feed(400, queues=4, pause_ms=10))
    for _ in range(2):
        await world.run_for(ms=700)
        await group.start("two", taking(world, 45))
        await world.run_for(ms=700)
        await group.start("three", taking(world, 20))
        await world.run_for(ms=500)
        await world.stop("two")
        await world.run_for(ms=300)
        await world.stop("three")
    await feeding
    await group.until(400)
    for queue in range(4):
        assert group.bodies_of(queue) == [b"%d" % number for number in range(100)]
    assert {turn.who for turn in group.turns} == {"one", "two", "three"}
    await world.run_for(seconds=1)
    assert len(group.bodies) == 400
    assert group.shop.is_committed()


@pytest.mark.row("O1")
@pytest.mark.row("R4")
async def test_a_queue_is_given_away_when_its_listener_is_over(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one", taking(world, 90_000))
    await group.feed(8, queues=4, pause_ms=0)
    await group.until(4)
    second = await group.start("two", taking(world, 100))
    await world.run_for(ms=500)
    assert own(second) == []
    await world.run_for(seconds=85)
    assert own(second) == [], "a lock is renewed as long as a listener runs"
    await group.until(8, within_ms=10_000)
    over_ms = group.turns[0].began_ms + 90_000
    assert {turn.began_ms - over_ms < 150 for turn in group.turns[4:]} == {True}
    assert len(own(first)) == len(own(second)) == 2
    await world.run_for(ms=200)
    assert group.shop.committed(own(second)[0]) == 2


@pytest.mark.row("O1")
async def test_a_queue_changes_hands_within_a_moment(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one")
    second = await group.start("two")
    await world.run_for(ms=200)
    assert sorted(own(first) + own(second)) == [0, 1, 2, 3]
    await world.stop("one")
    await world.run_for(ms=150)
    assert own(second) == [0, 1, 2, 3]
    assert len({holder(group, queue) for queue in range(4)}) == 1


@pytest.mark.row("O1")
async def test_a_broker_that_tells_nobody_is_asked_again_soon(world: SimulatedWorld, group: Ordering) -> None:
    """What RocketMQ's brokers do: they don't say that a queue was unlocked."""
    broker = group.shop.brokers["broker-a"]
    await group.start("one", taking(world, 5_000))
    await group.feed(4, queues=4, pause_ms=0)
    await group.until(4)
    second = await group.start("two")
    await world.run_for(ms=300)
    state = broker.state.queue_locks
    real = state.unlock
    state.unlock = lambda *told: real(*told) and []  # type: ignore[method-assign]
    await world.until(lambda: len(own(second)) == 2, within_ms=5_300)
    assert world.uptime_ms - group.turns[0].began_ms < 5_000 + 400


@pytest.mark.row("O1")
async def test_the_locks_of_a_killed_member_last_their_minute(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", forever)
    await group.feed(8, queues=4, pause_ms=0)
    await group.until(4)
    killed_ms = world.uptime_ms
    group.kill("one")
    second = await group.start("two")
    await world.run_for(seconds=35)
    assert own(second) == []
    await group.until(12)
    assert 38_000 < world.uptime_ms - killed_ms < 61_500
    for queue in range(4):
        assert group.bodies_of(queue) == [b"0", b"0", b"1"]


@pytest.mark.row("O1")
async def test_locks_are_given_back_at_the_end_after_the_last_call(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 3_000))
    await group.feed(4, queues=1, pause_ms=0)
    await group.until(1)
    began_ms = world.uptime_ms
    stopping = asyncio.create_task(world.stop("one"))
    await world.run_for(ms=2_500)
    assert holder(group) is not None
    await stopping
    assert 2_900 < world.uptime_ms - began_ms < 3_300
    assert holder(group) is None
    assert (group.bodies, group.shop.committed(0)) == ([b"0"], 1)


@pytest.mark.row("O1")
async def test_a_coroutine_that_hangs_is_cancelled_at_the_end_and_its_queue_is_free(
    world: SimulatedWorld, group: Ordering
) -> None:
    await group.start("one", forever)
    await group.feed(4, queues=1, pause_ms=0)
    await group.until(1)
    await world.stop("one")
    assert holder(group) is None
    await group.start("two")
    await group.until(5)
    assert group.bodies == [b"0", b"0", b"1", b"2", b"3"]


async def test_a_hanging_listener_keeps_its_queue_and_no_other(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        return await forever(turn) if turn.context.queue.queue_id == 3 else SUCCESS

    await group.start("one", react)
    await group.feed(8, queues=4, pause_ms=0)
    await group.until(7)
    second = await group.start("two", react)
    await world.run_for(minutes=5)
    assert len(group.bodies) == 7
    assert 3 not in own(second)
    assert len(own(second)) == 1
    assert holder(group, 3) != holder(group, own(second)[0])


# -- brokers and connections -----------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
@pytest.mark.row("O1")
async def test_a_broker_that_dies_and_comes_back(world: SimulatedWorld, group: Ordering) -> None:
    await group.start("one", taking(world, 20))
    await group.start("two", taking(world, 20))
    await world.run_for(ms=300)
    await group.feed(100, queues=4, pause_ms=1)
    await group.until(40)
    for pause_ms in (300, 5_000, 40_000):
        world.kill("broker-a")
        await world.run_for(ms=pause_ms)
        await group.shop.start_broker("broker-a")
        await world.run_for(seconds=35)
        await group.feed(40, queues=4, pause_ms=1)
    await world.until(group.shop.is_committed, within_ms=120_000)
    for queue in range(4):
        heard = [turn.message.queue_offset for turn in group.turns if turn.context.queue.queue_id == queue]
        assert sorted(set(heard)) == list(range(25 + 3 * 10))
        assert len(heard) <= 55 + 3, "at most what was under way comes again"


@pytest.mark.row("O1")
async def test_a_member_that_is_cut_off_stops_before_its_locks_end(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one", taking(world, 500))
    await group.feed(600, queues=4, pause_ms=0)
    await group.until(20)
    world.isolate("one")
    cut_ms = world.uptime_ms
    await world.run_for(seconds=58)
    heard = [turn for turn in group.turns if turn.who == "one"]
    assert 0 < max(turn.began_ms for turn in heard) - cut_ms <= 31_000
    second = await group.start("two", taking(world, 100))
    await world.run_for(seconds=70)
    count = len(group.bodies_of(0))
    world.heal("one")
    await world.until(lambda: len(own(first)) == len(own(second)) == 2, within_ms=60_000)
    await world.run_for(seconds=30)
    assert len(group.bodies_of(0)) >= count
    await world.until(group.shop.is_committed, within_ms=200_000)


@pytest.mark.row("O1")
async def test_a_frozen_member_finds_its_queue_taken_and_keeps_out(world: SimulatedWorld, group: Ordering) -> None:
    first = await group.start("one", taking(world, 200))
    await group.feed(80, queues=4, pause_ms=0)
    await group.until(8)
    world.freeze("one")
    await world.run_for(ms=500)
    group._running.clear()
    second = await group.start("two", taking(world, 50))
    await world.run_for(seconds=180)
    assert own(second) == [0, 1, 2, 3]
    world.thaw("one")
    await world.until(lambda: len(own(first)) == len(own(second)) == 2, within_ms=60_000)
    await world.until(group.shop.is_committed, within_ms=60_000)
    await group.feed(40, queues=4, pause_ms=1)
    await world.until(group.shop.is_committed, within_ms=60_000)


@pytest.mark.row("O1")
async def test_a_lock_that_somebody_took_away_is_lost_at_once_and_the_queue_taken_anew(
    world: SimulatedWorld, group: Ordering
) -> None:
    consumer = await group.start("one", taking(world, 1_000))
    await group.feed(30, queues=1, pause_ms=0)
    await group.until(3)
    state = group.shop.brokers["broker-a"].state
    queue = LockedQueue(TOPIC, "broker-a", 0)
    state.queue_locks.unlock(GROUP, consumer.client.client_id, [queue])
    state.queue_locks.lock(GROUP, "stranger", [queue], state.machine.clock.uptime_ms())
    await world.run_for(ms=22_000)
    assert 0 not in own(consumer)
    count = len(group.turns)
    await world.run_for(ms=20_000)
    assert len(group.turns) == count
    state.queue_locks.unlock(GROUP, "stranger", [queue])
    await group.until(30)
    await world.until(group.shop.is_committed)
    assert MessageQueue(TOPIC, "broker-a", 0) in consumer.assignment


@pytest.mark.row("O1")
async def test_what_somebody_else_did_meanwhile_is_not_done_again(world: SimulatedWorld, group: Ordering) -> None:
    """The broker restarts and forgets the locks; before the owner is back, somebody consumes its queue further."""
    await group.start("one", taking(world, 1_000))
    await group.feed(10, queues=1, pause_ms=0)
    await group.until(2)
    world.partition("one", "broker-a")
    world.kill("broker-a")
    await group.shop.start_broker("broker-a")
    await world.run_for(ms=200)
    await group.shop.offsets.commit(GROUP, MessageQueue(TOPIC, "broker-a", 0), 8)
    heard = len(group.bodies)
    world.heal("one", "broker-a")
    await world.run_for(seconds=40)
    assert group.bodies[heard:] == [b"8", b"9"]
    group.faults.clear()  # The watch doesn't know who consumed the others.


async def test_an_offset_beyond_the_end_is_corrected_and_the_queue_is_ones_own_again(
    world: SimulatedWorld, group: Ordering
) -> None:
    await group.shop.admin.create_group(GROUP)
    await group.shop.offsets.commit(GROUP, MessageQueue(TOPIC, "broker-a", 0), 100)
    consumer = await group.start("one", offset_illegal_pause_ms=1_000)
    await world.run_for(ms=1_200)
    assert 0 in own(consumer)
    await group.shop.send(b"0", b"1", queue=0)
    await group.until(2)
    await world.until(lambda: group.shop.committed(0) == 2, within_ms=50)
    assert holder(group) == consumer.client.client_id


@pytest.mark.row("R8")
async def test_queues_of_a_topic_that_is_unsubscribed_are_unlocked(world: SimulatedWorld, group: Ordering) -> None:
    consumer = await group.start("one", taking(world, 1_000))
    await group.shop.send(b"0", b"1", queue=0)
    await group.until(1)
    consumer.unsubscribe(TOPIC)
    await world.run_for(ms=500)
    assert holder(group, 0) == consumer.client.client_id
    assert holder(group, 1) is None
    await world.run_for(ms=600)
    assert holder(group, 0) is None
    assert (group.bodies, group.shop.committed(0)) == ([b"0"], 1)


async def test_a_suspended_consumer_keeps_its_locks(world: SimulatedWorld, group: Ordering) -> None:
    consumer = await group.start("one")
    consumer.suspend()
    await world.run_for(minutes=3)
    assert holder(group) == consumer.client.client_id
    await group.shop.send(b"0", queue=0)
    consumer.resume()
    await group.until(1, within_ms=100)


async def test_a_broker_that_answers_no_more_is_not_worked_for(world: SimulatedWorld, group: Ordering) -> None:
    """Frozen, it keeps its connections; nobody can renew a lock."""
    await group.start("one", taking(world, 100))
    await group.shop.send(*[b"%d" % number for number in range(600)], queue=0)
    await group.until(5)
    world.freeze("broker-a")
    frozen_ms = world.uptime_ms
    await world.run_for(seconds=55)
    last_ms = max(turn.began_ms for turn in group.turns)
    assert last_ms - frozen_ms <= 30_000
    world.thaw("broker-a")
    await world.until(group.shop.is_committed, within_ms=120_000)
    assert group.bodies == [b"%d" % number for number in range(600)]


async def test_a_jump_in_message_time_waits_for_suspended_queues(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> OrderedStatus:
        return SUSPEND if turn.message.reconsume_times < 3 else SUCCESS

    await group.start("one", react)
    await group.shop.send(b"0", b"1", queue=0)
    await group.shop.advance(hours=1)
    assert group.bodies == [b"0"] * 4 + [b"1"] * 4


# -- by chance -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.row("O1")
@pytest.mark.row("O4")
async def test_whatever_happens_to_members_and_broker_the_order_holds(
    world: SimulatedWorld, group: Ordering, seed: int
) -> None:
    await Chances(group, Random(seed)).play(rounds=25)
