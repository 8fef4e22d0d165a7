"""Ways to pick the queue of a message."""

import asyncio
from random import Random
from typing import Any

import pytest

from staticfire.client import (
    ByMachineRoom,
    ByRandom,
    ClientError,
    Message,
    MessageQueue,
    Producer,
    Selector,
    by_hash,
)
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, fake_cluster

pytestmark = pytest.mark.row("F5")


async def test_a_selector_sends_equal_keys_to_one_queue(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        sends = [producer.send(Message("orders", b"%d" % n), selector=by_hash, key=n % 3) for n in range(12)]
        results = await asyncio.gather(*sends)
    assert [result.queue for result in results[:3]] == [result.queue for result in results[9:]]
    assert [result.queue_offset for result in results] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    ("selector", "brokers"),
    [
        (ByRandom(Random(7)), {"broker-a", "broker-b"}),
        (ByMachineRoom({"broker"}), {"broker-a", "broker-b"}),
        (ByMachineRoom({"broker-b"}, inner=ByRandom(Random(7)), separator="@"), {"broker-b"}),
        (lambda queues, message, key: queues[key % 2], {"broker-a"}),
    ],
)
async def test_selectors_choose_among_the_queues(world: SimulatedWorld, selector: Selector, brokers: set[str]) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        results = [await producer.send(Message("orders", b"1"), selector=selector, key=n) for n in range(20)]
        await producer.send_oneway(Message("orders", b"2"), selector=selector, key=1)
        await world.run_for(ms=10)
    assert {result.queue.broker_name for result in results} == brokers
    assert sum(len(broker.journal.oneway) for broker in cluster.brokers if broker.name in brokers) == 1


async def test_a_machine_room_without_queues_is_reported(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(ClientError, match="no queue of topic orders is in east, west: its brokers are broker-a, b"):
            await producer.send(Message("orders", b"1"), selector=ByMachineRoom({"west", "east"}))


@pytest.mark.parametrize(
    "chosen",
    ["broker-a", None, True, 0, 99, ("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 99), by_hash],
    ids=lambda chosen: getattr(chosen, "__name__", str(chosen)),
)
async def test_a_selector_that_returns_no_queue_of_the_topic(world: SimulatedWorld, chosen: Any) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        for send in (producer.send, producer.send_oneway):
            with pytest.raises(
                ClientError, match=r"the selector for topic orders returned .*queues that were passed to it"
            ):
                await send(Message("orders", b"1"), selector=lambda *_: chosen)


async def test_a_selector_that_fails_reports_its_own_error(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(IndexError):
            await producer.send(Message("orders", b"1"), selector=lambda queues, message, key: queues[len(queues)])
