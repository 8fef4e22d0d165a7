"""What listeners that consume in order answer, and what becomes of their messages."""

from itertools import pairwise

import pytest
from structlog.testing import CapturingLogger

from staticfire.client import (
    OrderedStatus,
)
from staticfire.client.cluster import program_errors
from staticfire.protocol.names import dead_letter_topic, retry_topic
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import in_both_protocols
from tests.scenarios.consuming import GROUP
from tests.scenarios.ordering import SUCCESS, SUSPEND, Ordering, Turn

BOTH_PROTOCOLS = in_both_protocols("group")

pytestmark = pytest.mark.row("O2")


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
    monkeypatch.setattr(program_errors, "log", log)

    async def react(turn: Turn) -> OrderedStatus:
        return answer

    await group.start("one", react)
    await group.shop.send(b"0", b"1", queue=0)
    await world.until(lambda: group.shop.committed(0) == 2, within_ms=1_000)
    group.faults.clear()  # The watch takes only SUCCESS for done.
    [reported] = log.calls
    assert (reported.args, reported.kwargs["answer"]) == (("listener_answer",), repr(answer.name))


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
