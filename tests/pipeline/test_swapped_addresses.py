"""A task reads from the broker that it names, although brokers have come back with each other's addresses. No Spark."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import ClientSettings, ClusterClient, Message, MessageQueue
from staticfire.pipeline.link import ROUTE_POLL_MS
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.protocol.record import decode_records
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import NAMESRV, TOPIC, Shop

COUNT = 40
OPTIONS = SourceOptions(NAMESRV, (TOPIC,), pull_batch_size=1, pulls_in_flight=2)
BROKERS = ("broker-a", "broker-b")


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    """Two brokers, each with messages that contain its name."""
    shop = await Shop(world).open(brokers=2, queues=1)
    for name in BROKERS:
        for number in range(COUNT):
            await shop.producer.send(Message(TOPIC, f"{name} {number}".encode()), queue=MessageQueue(TOPIC, name, 0))
    yield shop
    await shop.close()


@pytest_asyncio.fixture
async def worker(world: SimulatedWorld, shop: Shop) -> AsyncIterator[ClusterClient]:
    """The client of a worker process, which its tasks share."""
    settings = ClientSettings(poll_name_server_interval_ms=ROUTE_POLL_MS)
    async with ClusterClient(NAMESRV, settings, world.machine("worker", host="10.0.4.3")) as client:
        yield client


async def swap(world: SimulatedWorld) -> None:
    """Start both brokers again, each with its own disk and the other's address."""
    for name in BROKERS:
        world.kill(name)
    for name, host in zip(BROKERS, ("10.0.1.2", "10.0.1.1"), strict=True):
        machine = world.machine(f"{name} again", host, disk_of=name)
        settings = BrokerSettings(broker_name=name, namesrv_addr=NAMESRV, store_path_root_dir="/store")
        await world.start(f"{name} again", Broker(machine, settings))


def pulls_of(worker: ClusterClient, broker_name: str) -> PullAhead:
    return PullAhead(worker, OPTIONS, QueueRange(MessageQueue(TOPIC, broker_name, 0), 0, COUNT))


async def rest(pulls: PullAhead) -> list[bytes]:
    bodies: list[bytes] = []
    while (pulled := await pulls.take()) is not None:
        bodies += [record.body for body in pulled.bodies for record in decode_records(body)]
    return bodies


def messages_of(broker_name: str) -> list[bytes]:
    return [f"{broker_name} {number}".encode() for number in range(COUNT)]


async def test_the_next_task_of_a_worker_reads_from_the_new_addresses(
    world: SimulatedWorld, shop: Shop, worker: ClusterClient
) -> None:
    for name in BROKERS:
        assert await rest(pulls_of(worker, name)) == messages_of(name)
    await swap(world)
    for name in BROKERS:
        assert await rest(pulls_of(worker, name)) == messages_of(name)


async def test_a_running_task_continues_at_the_new_addresses(
    world: SimulatedWorld, shop: Shop, worker: ClusterClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("staticfire.pipeline.pulls.AHEAD_BYTES_MAX", 1)
    monkeypatch.setattr("staticfire.pipeline.pulls.HANDED_BYTES", 1)
    running = {name: pulls_of(worker, name) for name in BROKERS}
    await world.run_for(seconds=1)  # Each has pulled a part, and waits for its reader.
    await swap(world)
    for name, pulls in running.items():
        assert await rest(pulls) == messages_of(name)


async def test_a_task_begins_while_no_nameserver_responds(
    world: SimulatedWorld, shop: Shop, worker: ClusterClient
) -> None:
    assert await rest(pulls_of(worker, "broker-a")) == messages_of("broker-a")
    world.kill("namesrv")
    assert await rest(pulls_of(worker, "broker-a")) == messages_of("broker-a")


async def test_a_nameserver_that_hangs_costs_the_tasks_of_a_worker_no_time(
    world: SimulatedWorld, shop: Shop, worker: ClusterClient
) -> None:
    assert await rest(pulls_of(worker, "broker-a")) == messages_of("broker-a")
    world.freeze("namesrv")
    began_ms = world.uptime_ms
    assert await rest(pulls_of(worker, "broker-a")) == messages_of("broker-a")
    assert world.uptime_ms - began_ms < 1_000
