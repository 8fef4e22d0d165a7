"""Sends that wait for room: each gets it in its turn."""

import asyncio

import pytest

from staticfire.client import Message, Producer, ProducerHook, ProducerSettings
from staticfire.client.produce.backpressure import Backpressure
from staticfire.protocol.errors import ClientError
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, fake_cluster

WITHIN_S = 60


async def test_a_send_that_is_cancelled_when_its_turn_comes_leaves_its_room_to_the_next() -> None:
    backpressure = Backpressure(messages_max=1, bytes_max=100)
    backpressure.messages = 1
    first, second = [asyncio.create_task(backpressure.room(10)) for _ in range(2)]
    await asyncio.sleep(0)
    backpressure.remove(1, 0)
    first.cancel()
    async with asyncio.timeout(WITHIN_S):
        await second
    assert first.cancelled()


async def test_sends_that_wait_are_added_in_their_order_however_room_becomes_free() -> None:
    backpressure = Backpressure(messages_max=100, bytes_max=10)
    backpressure.messages, backpressure.bytes = 20, 200
    added: list[int] = []

    async def add(number: int) -> None:
        await backpressure.room(10)
        backpressure.messages += 1
        backpressure.bytes += 10
        added.append(number)

    waiting = [asyncio.create_task(add(number)) for number in range(10)]
    await asyncio.sleep(0)
    # Several removals in one step of the loop make room for one send only: the limit is one of bytes.
    while len(added) < 10:
        backpressure.remove(0, 0)
        for _ in range(min(5, backpressure.messages)):
            backpressure.remove(1, 10)
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    assert added == list(range(10))


async def test_a_later_send_cannot_take_the_room_of_one_that_was_woken() -> None:
    backpressure = Backpressure(messages_max=1, bytes_max=100)
    backpressure.messages = 1
    waiting = asyncio.create_task(backpressure.room(10))
    await asyncio.sleep(0)
    backpressure.remove(1, 0)
    assert backpressure.is_full
    await waiting
    assert not backpressure.is_full


async def test_a_producer_is_idle_after_a_waiting_send_was_cancelled_with_its_room() -> None:
    backpressure = Backpressure(messages_max=1, bytes_max=100)
    backpressure.messages = 1
    waiting = asyncio.create_task(backpressure.room(10))
    await asyncio.sleep(0)
    backpressure.remove(1, 0)
    waiting.cancel()
    async with asyncio.timeout(WITHIN_S):
        await backpressure.idle()
    assert (backpressure.messages, backpressure.bytes) == (0, 0)


@pytest.mark.parametrize(("messages_max", "bytes_max"), [(50, 4_000), (300, 40_000)])
async def test_send_many_with_a_hook_keeps_the_order_when_messages_wait_for_room(
    world: SimulatedWorld, messages_max: int, bytes_max: int
) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(pending_messages_max=messages_max, pending_bytes_max=bytes_max)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        producer.add_hook(ProducerHook())
        bodies = [b"%04d" % number + bytes(100) for number in range(messages_max * 3)]
        results = await producer.send_many([Message("orders", body) for body in bodies])
    assert cluster.brokers[0].journal.bodies == bodies
    assert len(results) == len(bodies)


async def test_send_many_with_a_hook_returns_each_failure_in_the_place_of_its_message(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    settings = ProducerSettings(max_message_size_bytes=1_000)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        producer.add_hook(ProducerHook())
        sent = [Message("orders", b"one"), Message("orders", bytes(2_000)), Message("orders", b"three")]
        outcomes = await producer.send_many(sent, return_exceptions=True)
    assert [isinstance(outcome, ClientError) for outcome in outcomes] == [False, True, False]
    assert cluster.brokers[0].journal.bodies == [b"one", b"three"]


async def test_send_many_with_a_hook_that_is_cancelled_stops_sending(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    settings = ProducerSettings(pending_messages_max=2)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        producer.add_hook(ProducerHook())
        await producer.send(Message("orders", b"first"))
        broker.hold = True
        many = asyncio.create_task(producer.send_many([Message("orders", b"%d" % number) for number in range(9)]))
        await world.run_for(ms=10)
        many.cancel()
        with pytest.raises(asyncio.CancelledError):
            await many
        broker.release()
    assert broker.journal.bodies == [b"first", b"0", b"1"]
