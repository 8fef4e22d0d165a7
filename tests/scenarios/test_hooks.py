"""What programs hear around pulls, rebalances and consumption."""

import asyncio
from typing import Any

import pytest

from staticfire.client import (
    ConsumeCall,
    ConsumeFromWhere,
    ConsumeReturnType,
    ConsumerHook,
    ConsumeStatus,
    MessageModel,
    OrderedContext,
    OrderedStatus,
    PullCall,
    PullStatus,
    RebalanceCall,
)
from staticfire.client.consume.results.hooks import return_type
from staticfire.protocol.errors import ClientError
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import TOPIC, Heard, Messages, Shop
from tests.scenarios.logged import LogLine
from tests.scenarios.polling import QUEUE, lite_pull, poll_all

FIRST = ConsumeFromWhere.FIRST_OFFSET
OUTCOMES = ConsumeReturnType


class Notes(ConsumerHook):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.consumed: list[tuple[str, bytes, ConsumeReturnType | None, int]] = []
        self.pulls: list[tuple[int, PullStatus | None, int, str]] = []
        self.requested: list[int] = []
        self.shares: list[tuple[str, str, int, int, int]] = []

    def before_consume(self, call: ConsumeCall) -> None:
        self.consumed.append(("before", call.messages[0].body, call.outcome, call.took_ms))

    def after_consume(self, call: ConsumeCall) -> None:
        self.consumed.append(("after", call.messages[0].body, call.outcome, call.took_ms))

    def before_pull(self, call: PullCall) -> None:
        if call.queue == QUEUE:
            self.requested.append(call.queue_offset)

    def after_pull(self, call: PullCall) -> None:
        if call.queue == QUEUE:
            self.pulls.append((call.messages, call.status, call.next_offset, type(call.error).__name__))

    def before_rebalance(self, call: RebalanceCall) -> None:
        if call.topic == TOPIC:
            self.shares.append(("before", call.group, len(call.owned), len(call.dropped), len(call.taken)))

    def after_rebalance(self, call: RebalanceCall) -> None:
        if call.topic == TOPIC:
            self.shares.append(("after", call.group, len(call.owned), len(call.dropped), len(call.taken)))


async def says(heard: Heard) -> ConsumeStatus | None:
    """Do what the message says."""
    await asyncio.sleep(0.025)  # house: a listener that takes a while, in virtual time
    match heard.message.body:
        case b"EXCEPTION":
            raise ZeroDivisionError
        case b"RETURNNULL":
            return None
        case b"FAILED":
            return ConsumeStatus.RECONSUME_LATER
        case b"TIME_OUT":
            await asyncio.sleep(70)  # house: a listener that takes a while, in virtual time
            raise ZeroDivisionError
        case b"nonsense":
            return "fine"  # type: ignore[return-value]
    return ConsumeStatus.CONSUME_SUCCESS


EXPECTED = {
    b"SUCCESS": OUTCOMES.SUCCESS,
    b"EXCEPTION": OUTCOMES.EXCEPTION,
    b"RETURNNULL": OUTCOMES.RETURNNULL,
    b"FAILED": OUTCOMES.FAILED,
    b"nonsense": OUTCOMES.FAILED,
    b"TIME_OUT": OUTCOMES.TIME_OUT,
}


@pytest.mark.row("C3")
@pytest.mark.parametrize("body", EXPECTED, ids=lambda body: body.decode())
async def test_hooks_hear_how_each_call_ended(world: SimulatedWorld, shop: Shop, body: bytes) -> None:
    notes = Notes()
    model = MessageModel.BROADCASTING  # So that nothing comes again.
    consumer = shop.consumer("one", says, consume_timeout_ms=60_000, message_model=model)
    consumer.add_hook(notes)
    await world.start("one", consumer)
    await shop.send(body)
    await world.until(lambda: len(notes.consumed) == 2)
    took_ms = 70_025 if body == b"TIME_OUT" else 25
    assert notes.consumed == [("before", body, None, 0), ("after", body, EXPECTED[body], took_ms)]


@pytest.mark.row("C3")
async def test_a_plain_function_has_the_same_hooks(world: SimulatedWorld, shop: Shop) -> None:
    notes, consumer = Notes(), shop.consumer("one")
    consumer.add_hook(notes)

    @consumer.listener
    def listen(messages: Messages, context: object) -> ConsumeStatus:
        if messages[0].body == b"bad" and messages[0].reconsume_times == 0:
            raise ZeroDivisionError
        return ConsumeStatus.CONSUME_SUCCESS

    await world.start("one", consumer)
    await shop.send(b"good", b"bad", queue=0)
    await world.until(lambda: len(notes.consumed) == 6)
    assert [(body, outcome) for when, body, outcome, _ in notes.consumed if when == "after"] == [
        (b"good", OUTCOMES.SUCCESS),
        (b"bad", OUTCOMES.EXCEPTION),
        (b"bad", OUTCOMES.SUCCESS),
    ]


@pytest.mark.row("C3")
@pytest.mark.parametrize("is_plain", [False, True], ids=["async", "plain"])
async def test_ordered_listeners_have_them_as_well(world: SimulatedWorld, shop: Shop, is_plain: bool) -> None:
    notes, consumer, answers = Notes(), shop.consumer("one"), list(OrderedStatus)
    consumer.add_hook(notes)

    def answer(messages: Messages, context: OrderedContext) -> OrderedStatus:
        context.auto_commit = False
        return answers.pop() if answers else OrderedStatus.COMMIT

    async def awaited(messages: Messages, context: OrderedContext) -> OrderedStatus:
        return answer(messages, context)

    consumer.ordered_listener(answer if is_plain else awaited)
    await world.start("one", consumer)
    await shop.send(b"a", b"b", b"c", queue=0)
    await world.until(lambda: shop.committed() == 3)
    outcomes = [outcome for when, _, outcome, _ in notes.consumed if when == "after"]
    assert outcomes[:4] == [OUTCOMES.FAILED, OUTCOMES.SUCCESS, OUTCOMES.FAILED, OUTCOMES.SUCCESS]
    assert set(outcomes[4:]) == {OUTCOMES.SUCCESS}


@pytest.mark.row("C3")
async def test_a_hook_that_raises_is_logged_and_disturbs_nothing(world: SimulatedWorld, shop: Shop) -> None:
    class Broken(ConsumerHook):
        def before_consume(self, call: ConsumeCall) -> None:
            raise ZeroDivisionError

        def after_consume(self, call: ConsumeCall) -> None:
            raise SystemExit(3)

        def before_pull(self, call: PullCall) -> None:
            raise ZeroDivisionError

        def after_rebalance(self, call: RebalanceCall) -> None:
            raise ZeroDivisionError

    notes, consumer = Notes(), shop.consumer("one")
    consumer.add_hook(Broken())
    consumer.add_hook(notes)
    await world.start("one", consumer)
    await shop.send(b"fine", queue=0)
    await shop.until_heard(1)
    await world.until(shop.is_committed)
    assert [outcome for _, _, outcome, _ in notes.consumed] == [None, OUTCOMES.SUCCESS]
    with pytest.raises(ClientError, match="has started: add hooks before the start"):
        consumer.add_hook(Notes())


@pytest.mark.row("C3")
@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, asyncio.CancelledError, GeneratorExit])
@pytest.mark.parametrize("hook", ["before_pull", "after_pull", "before_rebalance", "after_rebalance"])
@pytest.mark.parametrize("kind", ["push", "lite pull"])
async def test_whatever_a_hook_raises_once_the_consumer_continues(
    shop: Shop, logged: list[LogLine], kind: str, hook: str, error: type[BaseException]
) -> None:
    raised: list[object] = []

    def raise_once(call: object) -> None:
        if not raised:
            raised.append(call)
            raise error

    broken = ConsumerHook()
    setattr(broken, hook, raise_once)
    sent = [b"%d" % number for number in range(6)]
    await shop.send(*sent, queue=0)
    if kind == "push":
        consumer = shop.consumer("one", consume_from_where=FIRST)
        consumer.add_hook(broken)
        await shop.world.start("one", consumer)
        await shop.until_heard(6)
        heard = shop.bodies
    else:
        puller = lite_pull(shop, "one", consume_from_where=FIRST)
        puller.subscribe(TOPIC)
        puller.add_hook(broken)
        async with puller:
            heard = await poll_all(puller, 6)
    assert sorted(heard) == sent
    assert [line.fields["hook"] for line in logged if line.event == "hook_raised"] == [hook]


@pytest.mark.row("C3")
async def test_a_status_of_the_other_kind_of_listener_is_no_success(world: SimulatedWorld, shop: Shop) -> None:
    """The message is redelivered, so a hook must not hear that it is done."""
    ended: list[tuple[bytes, ConsumeReturnType | None, object, bool]] = []

    class Ends(ConsumerHook):
        def after_consume(self, call: ConsumeCall) -> None:
            ended.append((call.messages[0].body, call.outcome, call.status, call.is_success))

    async def any_order(heard: Heard) -> Any:
        return OrderedStatus.SUCCESS

    consumer = shop.consumer("one", any_order, consume_from_where=FIRST)
    consumer.add_hook(Ends())
    await world.start("one", consumer)
    await shop.send(b"any order", queue=0)
    await world.until(lambda: len(ended) == 1)
    assert ended.pop() == (b"any order", OUTCOMES.FAILED, OrderedStatus.SUCCESS, False)

    ordered = shop.consumer("two", group="ordered")
    ordered.add_hook(Ends())

    @ordered.ordered_listener
    def in_order(messages: Messages, context: OrderedContext) -> Any:
        return ConsumeStatus.CONSUME_SUCCESS

    await world.start("two", ordered)
    await shop.send(b"in order", queue=1)
    await world.until(
        lambda: any(body == b"in order" and call is ConsumeStatus.CONSUME_SUCCESS for body, _, call, _ in ended)
    )
    assert (b"in order", OUTCOMES.FAILED, ConsumeStatus.CONSUME_SUCCESS, False) in ended


def test_a_time_out_outranks_whatever_the_listener_said() -> None:
    for status, error in [(None, None), (None, ZeroDivisionError()), (ConsumeStatus.CONSUME_SUCCESS, None)]:
        call = ConsumeCall("billing", QUEUE, ())
        call.status, call.error, call.took_ms = status, error, 1_000
        assert return_type(call, 1_000) is OUTCOMES.TIME_OUT
        assert return_type(call, 1_001) is not OUTCOMES.TIME_OUT


@BOTH_PROTOCOLS
@pytest.mark.row("R9")
async def test_hooks_hear_of_each_pull_and_of_each_change_of_queues(world: SimulatedWorld, shop: Shop) -> None:
    notes = Notes()
    first = shop.consumer("one", consume_from_where=FIRST)
    first.add_hook(notes)
    await shop.send(b"0", b"1", queue=0)
    await world.start("one", first)
    await shop.until_heard(2)
    await shop.start("two")
    await world.run_for(ms=300)
    first.unsubscribe(TOPIC)
    await world.run_for(ms=300)
    assert notes.requested == [0, 2]
    assert notes.pulls == [(2, PullStatus.FOUND, 2, "NoneType")]
    shares = [(when, owned, dropped, taken) for when, _, owned, dropped, taken in notes.shares]
    assert shares[:4] == [("before", 0, 0, 8), ("after", 8, 0, 8), ("before", 8, 4, 0), ("after", 4, 4, 0)]
    assert shares[4:] == [("before", 4, 4, 0), ("after", 0, 4, 0)]


@BOTH_PROTOCOLS
@pytest.mark.parametrize("ends", ["given away", "left"])
async def test_hooks_hear_how_each_pull_ended_that_they_heard_of(world: SimulatedWorld, shop: Shop, ends: str) -> None:
    """The last pull of a queue is held by the broker while the queue, or the whole consumer, goes."""
    notes = Notes()
    consumer = shop.consumer("one", consume_from_where=FIRST)
    consumer.add_hook(notes)
    await shop.send(b"0", b"1", queue=0)
    await world.start("one", consumer)
    await shop.until_heard(2)
    await world.run_for(seconds=1)
    if ends == "left":
        await world.stop("one")
    else:
        consumer.unsubscribe(TOPIC)
    await world.run_for(minutes=1)
    assert notes.requested == [0, 2]
    assert len(notes.pulls) == 2


async def test_hooks_hear_why_there_was_no_answer(world: SimulatedWorld, shop: Shop) -> None:
    notes = Notes()
    consumer = shop.consumer("one")
    consumer.add_hook(notes)
    await world.start("one", consumer)
    await world.run_for(ms=300)
    world.kill("broker-a")
    await world.run_for(seconds=1)
    assert notes.pulls == [(0, None, -1, "ConnectionLost")]


async def test_a_lite_pull_consumer_has_hooks_around_its_polls(world: SimulatedWorld, shop: Shop) -> None:
    notes = Notes()
    consumer = lite_pull(shop, "one", consume_from_where=FIRST)
    consumer.add_hook(notes)
    await shop.send(b"0", b"1", queue=0)
    async with consumer:
        await consumer.assign([QUEUE])
        assert await poll_all(consumer, 2) == [b"0", b"1"]
        with pytest.raises(ClientError, match="add hooks before the start"):
            consumer.add_hook(Notes())
    assert [(when, outcome) for when, _, outcome, _ in notes.consumed] == [
        ("before", None),
        ("after", OUTCOMES.SUCCESS),
    ]
    assert notes.pulls == [(2, PullStatus.FOUND, 2, "NoneType")]
