"""A consumer that leaves: the next one goes on where it stopped."""

import asyncio
import gc
from typing import Literal

import pytest

from staticfire.client import (
    ClientSettings,
    ConsumeContext,
    ConsumeFromWhere,
    ConsumeStatus,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.runtime.machine import Machine
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, Arrival, FakeCluster, fake_cluster
from tests.protocols import PROTOCOLS


def consumer_of(
    cluster: FakeCluster, heard: list[bytes], settings: ClientSettings, machine: Machine | None = None
) -> PushConsumer:
    """Return a consumer that notes what it hears, on the cluster's machine or another one."""
    push = PushSettings(client=settings, consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    consumer = PushConsumer("billing", NAMESRV, push, machine or cluster.machine)
    consumer.subscribe("orders")

    @consumer.listener
    async def listen(messages: tuple[ReceivedMessage, ...], _: ConsumeContext) -> ConsumeStatus:
        heard.extend(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    return consumer


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_it_says_goodbye_when_its_offsets_are_stored(
    world: SimulatedWorld, protocol: Literal["staticfire", "rocketmq"]
) -> None:
    cluster = await fake_cluster(world)
    cluster.route("orders", queues=1)
    broker = cluster.brokers[0]
    broker.holds_pulls = True
    broker.stored["orders", 0] = [Arrival("orders", 0, b"%d" % number, b"") for number in range(3)]
    heard: list[bytes] = []
    consumer = consumer_of(cluster, heard, ClientSettings(protocol=protocol))

    async def live() -> None:
        async with consumer:
            await world.until(lambda: len(heard) == 3)
            broker.hold = True

    leaving = asyncio.create_task(live())
    await world.until(lambda: (3, True) in broker.journal.commits)
    assert broker.journal.goodbyes == []
    broker.release()
    await leaving
    assert broker.journal.goodbyes == ["billing"]
    assert broker.journal.commits[-1] == (3, True)


async def test_a_member_that_is_killed_while_it_leaves_waits_for_nothing_more(world: SimulatedWorld) -> None:
    """Its coroutines are discarded; one that waits again then is warned of, which is an error in tests."""
    cluster = await fake_cluster(world)
    cluster.route("orders", queues=1)
    cluster.brokers[0].stored["orders", 0] = [Arrival("orders", 0, b"0", b"")]
    heard: list[bytes] = []
    member = consumer_of(cluster, heard, ClientSettings(), world.machine("member"))
    await world.start("member", member)
    await world.until(lambda: heard)
    cluster.brokers[0].hold = True
    leaving = asyncio.ensure_future(world.stop("member"))
    await world.run_for(100)
    assert not leaving.done()
    world.kill("member")
    leaving.cancel()
    del member, leaving
    gc.collect()
