"""Values that a listener sets in its context and that aren't numbers: they cost a retry or a default, never the
consumer.
"""

import pytest

from staticfire.client import ConsumeContext, ConsumeFromWhere, ConsumeStatus
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Heard, Messages, Shop, forever
from tests.scenarios.logged import LogLine, logged
from tests.scenarios.ordering import SUCCESS, SUSPEND, Ordering, Turn
from tests.scenarios.test_listener_exceptions import cancel_in_mid_listener

__all__ = ["logged"]


class Index:
    """A number of another library."""

    def __index__(self) -> int:
        return 3


class Broken:
    """A number that can't be read, and has no repr."""

    def __index__(self) -> int:
        raise ValueError("no number")

    def __repr__(self) -> str:
        raise ValueError("no repr")


NOT_NUMBERS = ["0", None, float("nan"), Broken()]
NAMES = ["str", "None", "nan", "broken"]


def warnings(logged: list[LogLine]) -> list[str]:
    """Return which values were reported, and what they were taken for."""
    lines = [line for line in logged if line.event == "listener_answer"]
    return [f"{line.fields['answer']} -> {line.fields['taken_for']}" for line in lines]


@pytest.mark.row("C4")
@pytest.mark.row("C5")
@pytest.mark.parametrize("way", ["async", "plain", "popped"])
@pytest.mark.parametrize("value", [NOT_NUMBERS[0], *NOT_NUMBERS[2:]], ids=[NAMES[0], *NAMES[2:]])
async def test_a_wrong_ack_index_means_that_the_messages_are_retried(
    world: SimulatedWorld, shop: Shop, way: str, value: object, logged: list[LogLine]
) -> None:
    heard: list[tuple[bytes, int]] = []

    def judge(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        [message] = messages
        heard.append((message.body, message.reconsume_times))
        if message.body == b"1" and message.reconsume_times == 0:
            context.ack_index = value  # type: ignore[assignment]
        return ConsumeStatus.CONSUME_SUCCESS

    async def judge_later(call: Heard) -> ConsumeStatus:
        return judge(call.messages, call.context)

    if way == "popped":
        await shop.admin.set_consume_mode(TOPIC, GROUP, "POP")
    first = ConsumeFromWhere.FIRST_OFFSET
    consumer = shop.consumer(
        "one", judge_later, consume_threads=1, consume_from_where=first, client_rebalance=way != "popped"
    )
    if way == "plain":
        consumer.listener(judge)
    await world.start("one", consumer)
    await shop.send(b"0", b"1", b"2", queue=0)
    await world.until(lambda: len(heard) == 4, within_ms=15_000)
    assert sorted(heard[:3]) == [(b"0", 0), (b"1", 0), (b"2", 0)]
    assert heard[3] == (b"1", 1)
    [line] = warnings(logged)
    assert line.startswith("context.ack_index=")
    assert line.endswith("-> RECONSUME_LATER")
    await world.run_for(seconds=1)
    assert sum(consumer.cached.values()) == 0


@pytest.mark.row("C5")
async def test_an_ack_index_of_another_library_counts(world: SimulatedWorld, shop: Shop) -> None:
    async def four(heard: Heard) -> ConsumeStatus:
        heard.context.ack_index = Index()  # type: ignore[assignment]
        return ConsumeStatus.CONSUME_SUCCESS

    bodies = [b"%d" % number for number in range(6)]
    await shop.send(*bodies, queue=0)
    await shop.start("one", four, consume_message_batch_max_size=10)
    await shop.until_heard(8, within_ms=15_000)
    assert sorted(shop.bodies[6:]) == bodies[4:]


@pytest.mark.row("C4")
@pytest.mark.parametrize("value", [*NOT_NUMBERS, 1 << 40], ids=[*NAMES, "too large"])
async def test_with_a_wrong_delay_level_the_broker_decides(
    world: SimulatedWorld, shop: Shop, value: object, logged: list[LogLine]
) -> None:
    async def fail_once(heard: Heard) -> ConsumeStatus:
        if heard.message.reconsume_times:
            return ConsumeStatus.CONSUME_SUCCESS
        heard.context.delay_level_when_next_consume = value  # type: ignore[assignment]
        return ConsumeStatus.RECONSUME_LATER

    await shop.start("one", fail_once)
    await shop.send(b"0", queue=0)
    await shop.until_heard(2, within_ms=11_000)
    assert shop.heard[1].uptime_ms - shop.heard[0].uptime_ms >= 10_000
    [line] = warnings(logged)
    assert line.startswith("context.delay_level_when_next_consume=")
    assert line.endswith("-> 0")


@pytest.mark.row("O4")
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=NAMES)
async def test_with_a_wrong_suspension_the_queue_waits_as_in_the_settings(
    world: SimulatedWorld, group: Ordering, value: object, logged: list[LogLine]
) -> None:
    async def react(turn: Turn) -> object:
        turn.context.suspend_current_queue_time_ms = value  # type: ignore[assignment]
        return SUSPEND if turn.message.reconsume_times == 0 else SUCCESS

    await group.start("one", react, suspend_current_queue_time_ms=300)  # type: ignore[arg-type]
    await group.shop.send(b"0", queue=0)
    await group.until(2, within_ms=1_000)
    assert group.turns[1].began_ms - group.turns[0].began_ms == 300
    [line] = warnings(logged)
    assert line.startswith("context.suspend_current_queue_time_ms=")
    assert line.endswith("-> -1")


@pytest.mark.row("O4")
async def test_a_suspension_may_be_a_fraction(world: SimulatedWorld, group: Ordering) -> None:
    async def react(turn: Turn) -> object:
        turn.context.suspend_current_queue_time_ms = 0.2 * 1_000  # type: ignore[assignment]
        return SUSPEND if turn.message.reconsume_times == 0 else SUCCESS

    await group.start("one", react)  # type: ignore[arg-type]
    await group.shop.send(b"0", queue=0)
    await group.until(2, within_ms=1_000)
    assert group.turns[1].began_ms - group.turns[0].began_ms == 200


async def test_a_consumer_whose_loop_crashes_logs_it(world: SimulatedWorld, shop: Shop, logged: list[LogLine]) -> None:
    await shop.start("one", forever)
    await cancel_in_mid_listener(shop)
    [line] = [line for line in logged if line.event == "loop_crashed"]
    assert line.level == "error"
    assert (line.fields["owner"], line.fields["loop"]) == (f"PushConsumer {GROUP}", f"listener of {GROUP}")
    assert "cancelled while it was running" in str(line.fields["error"])
    world.kill("one")
