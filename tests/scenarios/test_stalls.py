"""A program that its machine stops for seconds: a response that comes meanwhile isn't late."""

import asyncio
from typing import Self

import pytest

from staticfire.client import Message, Producer, ProducerSettings, SendResult
from staticfire.client.produce.pending_send import NO_QUEUE, PendingSend
from staticfire.client.produce.waiting_sends import WaitingSends
from staticfire.client.produce.waiting_time import WaitingTime
from staticfire.protocol.errors import AnswerTimeout, ConnectFailed
from staticfire.protocol.requests.send import ManyMessage
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.pending_answers import EXTENSION_MAX_S, deadline
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.scenarios.consuming import NAMESRV, TOPIC, Shop

WIRE = ManyMessage("", 0, b"", b"")
ONE_TRY = ProducerSettings(retry_times_when_send_failed=0)  # Within 3 s.


class Till:
    """A program that sends messages when it is let to."""

    def __init__(self, producer: Producer, is_connected: bool, count: int = 1) -> None:
        self._producer = producer
        self._is_connected = is_connected
        self._count = count
        self.go = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._producer.__aenter__()
        await self._producer.queues(TOPIC)
        if self._is_connected:
            await self._producer.send(Message(TOPIC, b"0"))
        self.outcome = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.__aexit__(None, None, None)

    def stop(self) -> None:
        self.outcome.cancel()

    async def wait(self) -> None:
        await asyncio.wait([self.outcome])

    async def _send(self) -> SendResult:
        await self.go.wait()
        if self._count == 1:
            return await self._producer.send(Message(TOPIC, b"1"))
        return (await self._producer.send_many([Message(TOPIC, b"1")] * self._count))[0]


async def frozen_while_it_sends(
    world: SimulatedWorld, seconds: float, delay_ms: float, is_connected: bool = True, count: int = 1
) -> "asyncio.Task[SendResult]":
    """Freeze a program one second after it began to send, and let it continue. Return the outcome of the send."""
    producer = Producer("shop", NAMESRV, ONE_TRY, world.machine("till", host="10.0.5.1"))
    till = await world.start("till", Till(producer, is_connected, count))
    world.set_link("till", "broker-a", LinkQuality(delay_ms=delay_ms))
    await world.run_for(seconds=10)  # Its earlier requests have ended, and so has their timer.
    till.go.set()
    await world.run_for(seconds=1)
    world.freeze("till")
    await world.run_for(seconds=seconds)
    world.thaw("till")
    await till.wait()
    return till.outcome


async def test_a_send_whose_program_is_stopped_has_its_response_when_it_continues(
    world: SimulatedWorld, shop: Shop
) -> None:
    outcome = await frozen_while_it_sends(world, seconds=60, delay_ms=2_000)
    assert outcome.result().queue_offset == 0
    assert sum(shop.ends().values()) == 2


async def test_a_send_whose_program_is_stopped_while_it_connects_goes_on(world: SimulatedWorld, shop: Shop) -> None:
    outcome = await frozen_while_it_sends(world, seconds=60, delay_ms=1_200, is_connected=False)
    assert outcome.result().queue_offset == 0


async def test_a_response_that_is_late_all_the_same_is_a_timeout(world: SimulatedWorld, shop: Shop) -> None:
    outcome = await frozen_while_it_sends(world, seconds=6, delay_ms=20_000)
    with pytest.raises(AnswerTimeout, match="within 3000 ms"):
        outcome.result()
    assert 21_000 <= world.uptime_ms <= 21_500  # It continued at 17 s, 4 s after its deadline.


async def test_messages_that_are_sent_together_have_the_same_time_and_words_in_the_end(
    world: SimulatedWorld, shop: Shop
) -> None:
    outcome = await frozen_while_it_sends(world, seconds=6, delay_ms=60_000, is_connected=False, count=2)
    with pytest.raises(ConnectFailed, match=r"attempts: 1 in 10000 ms"):  # 7 s, and its 3 s once more.
        outcome.result()


@pytest.mark.parametrize("is_connected", [True, False])
@pytest.mark.parametrize("stall_s", [5, 60])
async def test_a_send_whose_program_is_stopped_before_its_request_leaves_goes_on(
    world: SimulatedWorld, shop: Shop, is_connected: bool, stall_s: int
) -> None:
    producer = Producer("shop", NAMESRV, ONE_TRY, world.machine("till"))
    async with producer:
        await producer.queues(TOPIC)
        if is_connected:
            await producer.send(Message(TOPIC, b"0"))
        await world.run_for(seconds=10)
        posted = producer.post(Message(TOPIC, b"1"))
        world.loop.uptime_ns += stall_s * 1_000_000_000
        assert (await posted).queue_offset == 0


class Line:
    """Sends that wait for one broker, and when each was given up."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._loop = world.loop
        self._clock = world.machine("till").clock
        self._waiting = WaitingSends()
        self._time = WaitingTime(self._waiting, ProducerSettings(), self._clock, self._give_up)
        self.given_up: list[tuple[str, int]] = []

    def post(self, name: str) -> None:
        self._add(name, 3_000)
        self._time.watch()

    def put(self, name: str, left_ms: int) -> None:
        """Add a send that has waited elsewhere, with the time that is left."""
        self._time.include(self._add(name, left_ms))

    def _add(self, name: str, left_ms: int) -> PendingSend:
        deadline_ms = UptimeMs(self._clock.uptime_ms() + left_ms)
        pending = PendingSend(WIRE, name, NO_QUEUE, self._loop.create_future(), deadline_ms, 0, 1)
        self._waiting.line.append(pending)
        return pending

    def stop_for(self, seconds: float) -> None:
        """Let the program do nothing for some seconds."""
        self._loop.uptime_ns += round(seconds * 1e9)

    async def meet_a_stall(self, world: SimulatedWorld, seconds: float) -> None:
        """Post a send before, one just before, and one half a second after the program is stopped."""
        self.post("before")
        await world.run_for(seconds=2)
        self.post("just before")
        self.stop_for(seconds)
        await world.run_for(seconds=0.5)
        self.post("after")

    def urgent(self) -> UptimeMs:
        """Return the deadline of the request with all that wait."""
        return self._waiting.take(100, 1_000_000).deadline_ms

    def _give_up(self, late: list[PendingSend]) -> None:
        self.given_up += [(pending.message_id, self._clock.uptime_ms()) for pending in late]


async def test_a_send_after_the_stall_has_no_more_than_its_own_time(world: SimulatedWorld) -> None:
    line = Line(world)
    await line.meet_a_stall(world, seconds=20)
    await world.run_for(seconds=60)
    assert line.given_up == [("before", 25_000), ("just before", 25_000), ("after", 25_500)]


async def test_a_send_gets_more_time_once(world: SimulatedWorld) -> None:
    line = Line(world)
    line.post("one")
    await world.run_for(seconds=2)
    line.stop_for(seconds=5)  # Until 7 s: it has 3 s more.
    await world.run_for(seconds=2)
    line.stop_for(seconds=5)
    await world.run_for(seconds=60)
    assert line.given_up == [("one", 14_000)]


async def test_the_first_send_remains_the_most_urgent_one(world: SimulatedWorld) -> None:
    line = Line(world)
    await line.meet_a_stall(world, seconds=2)
    assert line.urgent() == 5_000  # Of the first two: 1 s late, and 1 s more.


async def test_a_send_that_is_late_when_it_begins_to_wait_has_no_more_time(world: SimulatedWorld) -> None:
    await world.run_for(seconds=10)
    line = Line(world)
    line.put("late", left_ms=-5_000)
    await world.run_for(seconds=60)
    assert line.given_up == [("late", 10_000)]


@pytest.mark.parametrize(
    ("stall_s", "ready_s", "is_in_time"),
    [(0, 2, True), (0, 4, False), (5, 8.5, True), (5, 9.5, False), (60, 60 + EXTENSION_MAX_S, True)],
)
async def test_a_deadline_that_passed_while_nothing_ran_is_extended_once(
    world: SimulatedWorld, stall_s: float, ready_s: float, is_in_time: bool
) -> None:
    """It is 3 s; the stall begins after 1 s."""
    loop = world.loop
    ready = loop.create_future()
    began_s = loop.time()

    def stall() -> None:
        loop.uptime_ns += round(stall_s * 1e9)

    def be_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.call_later(1, stall)
    loop.call_later(ready_s, be_ready)
    if is_in_time:
        async with deadline(3):
            await ready
        return
    with pytest.raises(TimeoutError):
        async with deadline(3):
            await ready
    assert loop.time() - began_s == pytest.approx(9 if stall_s else 3)
