"""Responses that can't be read, as a fault rule with `corrupt` makes them: consumers continue, as after any error."""

from typing import Any

import pytest

from staticfire.client import ConsumeContext, ConsumeFromWhere, ConsumeStatus, PushConsumer, PushSettings
from staticfire.client.consume.results.consume_results import Messages
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, Arrival, FakeBroker, FakeCluster, fake_cluster

NOT_A_NUMBER: Any = "?"


class Program:
    """A consumer of one queue, and what it has heard."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.heard: list[bytes] = []
        settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET, pull_error_pause_ms=100)
        self.consumer = PushConsumer("billing", NAMESRV, settings, cluster.machine)
        self.consumer.subscribe("orders")

        @self.consumer.listener
        async def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
            self.heard += [message.body for message in messages]
            return ConsumeStatus.CONSUME_SUCCESS


@pytest.fixture
async def cluster(world: SimulatedWorld) -> FakeCluster:
    cluster = await fake_cluster(world, topic=None)
    cluster.route("orders", queues=1)
    cluster.brokers[0].holds_pulls = True
    put(cluster.brokers[0], b"one")
    return cluster


@pytest.fixture
async def program(world: SimulatedWorld, cluster: FakeCluster) -> Program:
    program = Program(cluster)
    await world.start("client", program.consumer)
    await world.until(lambda: program.heard == [b"one"], within_ms=5_000)
    return program


def put(broker: FakeBroker, *bodies: bytes) -> None:
    broker.stored["orders", 0] = [Arrival("orders", 0, body, b"UNIQ_KEY\x01m\x02") for body in bodies]


async def restarted(world: SimulatedWorld, stored_offset: int) -> FakeBroker:
    """Restart the broker: consumers compare their offsets with its own before they store any."""
    world.kill("broker-a")
    broker = FakeBroker(world.machine("broker-a"), "broker-a", "10.0.1.1")
    broker.holds_pulls, broker.stored_offset = True, stored_offset
    put(broker, b"one", b"two")
    await world.start("broker-a", broker)
    await world.run_for(seconds=5)
    return broker


async def test_a_consumer_stores_its_offsets_when_the_brokers_can_be_read_again(
    world: SimulatedWorld, program: Program
) -> None:
    broker = await restarted(world, NOT_A_NUMBER)
    assert program.heard == [b"one", b"two"]
    broker.stored_offset = 0
    await world.until(lambda: (2, False) in broker.journal.commits, within_ms=10_000)
    assert program.consumer.crash is None
    await world.stop("client")


async def test_a_queue_that_is_given_away_meanwhile_can_be_taken_again(world: SimulatedWorld, program: Program) -> None:
    broker = await restarted(world, NOT_A_NUMBER)
    program.consumer.unsubscribe("orders")
    await world.run_for(seconds=5)
    broker.stored_offset = 2
    put(broker, b"one", b"two", b"three")
    program.consumer.subscribe("orders")
    await world.until(lambda: program.heard == [b"one", b"two", b"three"], within_ms=5_000)
    assert program.consumer.crash is None
    await world.stop("client")
