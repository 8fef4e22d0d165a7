"""Settings of consumers that pull or receive by themselves, each with another value than its default."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from staticfire.client import (
    LitePullConsumer,
    LitePullSettings,
    PullConsumer,
    PullSettings,
    PullStatus,
    PushConsumer,
    PushSettings,
)
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.errors import AnswerTimeout
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.client.peers import NAMESRV, FakeCluster, fake_cluster

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("settings", "wait_ms", "comes"),
    [
        ({}, 0, True),
        ({"consumer_pull_timeout_ms": 4_000}, 0, False),
        ({"consumer_pull_timeout_ms": 4_000}, 1_000, True),
        ({}, 1_000, True),
        ({"hold_margin_ms": 3_500}, 1_000, False),
        ({"hold_margin_ms": 3_500}, 0, True),
    ],
)
async def test_how_long_a_pull_waits_for_a_broker_that_takes_five_seconds(
    world: SimulatedWorld, settings: dict[str, Any], wait_ms: int, comes: bool
) -> None:
    cluster = await fake_cluster(world)
    async with PullConsumer("report", NAMESRV, PullSettings(**settings), cluster.machine) as consumer:
        await consumer.pull(QUEUE, 0)
        world.set_link("client", "broker-a", LinkQuality(delay_ms=2_500))
        if comes:
            assert (await consumer.pull(QUEUE, 0, wait_ms=wait_ms)).status is PullStatus.NO_NEW_MSG
        else:
            with pytest.raises(AnswerTimeout):
                await consumer.pull(QUEUE, 0, wait_ms=wait_ms)


async def one_pull(cluster: FakeCluster) -> None:
    settings = PullSettings(max_msg_bytes=1_234)
    async with PullConsumer("report", NAMESRV, settings, cluster.machine) as consumer:
        await consumer.pull(QUEUE, 0)


async def lite_pulls(cluster: FakeCluster) -> None:
    settings = LitePullSettings(pull_batch_size_in_bytes=1_234)
    async with LitePullConsumer("report", NAMESRV, settings, cluster.machine) as consumer:
        await consumer.assign([QUEUE])
        await consumer.poll(100)


async def pushed(cluster: FakeCluster) -> None:
    settings = PushSettings(pull_batch_size_in_bytes=1_234)
    consumer = PushConsumer("report", NAMESRV, settings, cluster.machine)
    consumer.subscribe("orders")

    @consumer.listener
    async def listen(*_: Any) -> None:
        return None

    async with consumer:
        await cluster.world.run_for(ms=500)


@pytest.mark.parametrize("pulls", [one_pull, lite_pulls, pushed])
async def test_brokers_get_the_maximum_number_of_bytes_of_a_pull(
    world: SimulatedWorld, pulls: Callable[[FakeCluster], Awaitable[None]]
) -> None:
    cluster = await fake_cluster(world)
    await pulls(cluster)
    assert set(cluster.brokers[0].journal.pull_bytes) == {1_234}
