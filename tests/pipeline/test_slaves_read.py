"""Reads of a queue whose master is away, while its slave doesn't have everything yet. No Spark."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ClusterClient, MessageQueue
from staticfire.pipeline.errors import DataLost, SourceUnreachable
from staticfire.pipeline.link import ROUTE_POLL_MS
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueEnds, QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.pipeline.survey import find_ends, find_queues
from staticfire.protocol.record import decode_records
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("E4")

ALL = QueueRange(MessageQueue("orders", MASTER, 0), 0, 10)
STRICT = SourceOptions(NAMESRV, ("orders",))
LENIENT = replace(STRICT, fail_on_data_loss=False)


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    """A master with ten messages, and a slave with the first five."""
    pair = await ReplicaSet(world).open()
    await pair.fill(5)
    await pair.control(SLAVE, lag_ms=600_000)
    for number in range(5, 10):
        await pair.send(b"%d" % number)
    yield pair
    await pair.close()


@pytest_asyncio.fixture
async def worker(world: SimulatedWorld, pair: ReplicaSet) -> AsyncIterator[ClusterClient]:
    """The client of a worker process, which its tasks share."""
    settings = ClientSettings(poll_name_server_interval_ms=ROUTE_POLL_MS)
    async with ClusterClient(NAMESRV, settings, world.machine("worker", host="10.0.4.3")) as client:
        yield client


async def read(worker: ClusterClient, options: SourceOptions, wanted: QueueRange = ALL) -> list[int]:
    """Return the offsets that a task reads."""
    pulls = PullAhead(worker, options, wanted)
    offsets: list[int] = []
    while (pulled := await pulls.take()) is not None:
        offsets += [record.queue_offset for body in pulled.bodies for record in decode_records(body)]
    return offsets


@pytest.mark.parametrize("options", [STRICT, LENIENT], ids=["strict", "lenient"])
async def test_what_a_slave_lacks_is_read_when_the_master_is_back(
    pair: ReplicaSet, worker: ClusterClient, options: SourceOptions
) -> None:
    pair.world.kill(MASTER)
    reading = asyncio.ensure_future(read(worker, options))
    await pair.world.run_for(seconds=5)
    await pair.start(MASTER)
    assert await reading == list(range(10))


@pytest.mark.parametrize("options", [STRICT, LENIENT], ids=["strict", "lenient"])
async def test_a_worker_that_has_read_from_a_slave_returns_to_the_master(
    pair: ReplicaSet, worker: ClusterClient, options: SourceOptions
) -> None:
    pair.world.kill(MASTER)
    assert await read(worker, options, ALL._replace(end=5)) == list(range(5))
    await pair.start(MASTER)
    assert await read(worker, options, ALL._replace(start=5)) == list(range(5, 10))


@pytest.mark.parametrize("options", [STRICT, LENIENT], ids=["strict", "lenient"])
async def test_a_master_that_stays_away_ends_the_task_without_a_loss(
    pair: ReplicaSet, worker: ClusterClient, options: SourceOptions
) -> None:
    pair.world.kill(MASTER)
    with pytest.raises(SourceUnreachable, match=r"5 to 10 can't be read, .* isn't the master of broker-a; check"):
        await read(worker, options)


async def test_what_the_new_master_lacks_is_lost(pair: ReplicaSet, worker: ClusterClient) -> None:
    assert await read(worker, STRICT) == list(range(10))
    pair.world.kill(MASTER)
    await pair.failover(to=1)
    with pytest.raises(DataLost, match="wanted offsets 5 to 10, the broker has 0 to 5"):
        await read(worker, STRICT)
    assert await read(worker, LENIENT) == list(range(5))


async def test_ends_that_a_slave_reports_are_marked(pair: ReplicaSet, worker: ClusterClient) -> None:
    (queue,) = await find_queues(worker, ["orders"])
    assert (await find_ends(worker, [queue]))[queue][:3] == QueueEnds(0, 10, has_master=True)[:3]
    pair.world.kill(MASTER)
    await pair.world.run_for(seconds=1)
    await find_queues(worker, ["orders"])
    assert (await find_ends(worker, [queue]))[queue][:3] == QueueEnds(0, 5, has_master=False)[:3]
