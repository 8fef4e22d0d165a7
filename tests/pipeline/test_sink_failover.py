"""What tasks of the sink do while a slave takes over, and when their topic gets other queues. No Spark."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClientSettings, ClusterClient, Message
from staticfire.pipeline.link import ROUTE_POLL_MS
from staticfire.pipeline.row_messages import RowMessage
from staticfire.pipeline.sending import RowSender
from staticfire.pipeline.sink_options import parse_sink_options
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("E4")


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    pair = await ReplicaSet(world).open()
    yield pair
    await pair.close()


@pytest_asyncio.fixture
async def worker(world: SimulatedWorld, pair: ReplicaSet) -> AsyncIterator[ClusterClient]:
    """The client of a worker process, which its tasks share."""
    settings = ClientSettings(poll_name_server_interval_ms=ROUTE_POLL_MS)
    async with ClusterClient(NAMESRV, settings, world.machine("worker", host="10.0.4.3")) as client:
        yield client


def rows(key: str | None, *bodies: str) -> list[RowMessage]:
    return [RowMessage(Message("orders", body.encode()), ordering_key=key) for body in bodies]


async def begin(worker: ClusterClient, **options: str) -> RowSender:
    """Begin a task of the worker."""
    given = {"nameServer": NAMESRV, "topic": "orders", **options}
    return await RowSender(worker, parse_sink_options(given, {})).open()


@pytest.mark.parametrize("key", [None, "k"], ids=["in bulk", "in order"])
@pytest.mark.parametrize("is_new", [False, True], ids=["of a running task", "of a new task"])
async def test_rows_wait_until_a_slave_has_taken_over(
    pair: ReplicaSet, worker: ClusterClient, key: str | None, is_new: bool
) -> None:
    sender = await begin(worker)
    await sender.offer(rows(key, "1", "2"))
    await sender.finish()
    await pair.until_caught_up()
    pair.world.kill(MASTER)
    await pair.world.run_for(seconds=3)
    if is_new:
        await sender.close()
        sender = await begin(worker)
    await sender.offer(rows(key, "3", "4"))
    await pair.world.run_for(seconds=3)
    await pair.failover(to=1)
    await sender.finish()
    assert await pair.bodies(SLAVE) == [b"1", b"2", b"3", b"4"]
    await sender.close()


async def test_rows_that_wait_for_a_master_fail_together(pair: ReplicaSet, worker: ClusterClient) -> None:
    pair.world.kill(MASTER)
    sender = await begin(worker, failOnError="false", sendTimeoutMs="900")
    began_ms = pair.world.uptime_ms
    await sender.offer(rows("k", "1", "2", "3"))
    sent = await sender.finish()
    assert (sent.sent, sent.failed) == (0, 3)
    assert "broker broker-a has no master now" in sent.examples[0]
    assert pair.world.uptime_ms - began_ms < 1_000
    await sender.close()


@pytest.mark.parametrize("key", [None, "k"], ids=["in bulk", "in order"])
@pytest.mark.parametrize(("before", "after"), [(4, 1), (1, 4)], ids=["removed", "added"])
async def test_each_task_sends_to_the_queues_that_there_are(
    pair: ReplicaSet, worker: ClusterClient, key: str | None, before: int, after: int
) -> None:
    """A worker keeps its client for hours, and its tasks share it."""
    for queues in (before, after):
        assert (await pair.ask(MASTER, UpdateTopic("orders", queues, queues, 6))).code == 0
        sender = await begin(worker)
        await sender.offer([row for number in range(20) for row in rows(key and f"{key}-{number}", "x")])
        await sender.finish()
        await sender.close()
    store = pair.brokers[MASTER].state.store
    sent = [store.queue("orders", number).max_offset for number in range(4)]
    assert sum(sent) == 40
    assert min(sent) > 0


async def test_a_silent_nameserver_delays_a_task_once_whatever_the_number_of_its_topics(
    pair: ReplicaSet, worker: ClusterClient
) -> None:
    topics = ["orders", "bills", "carts"]
    took_ms = []
    for is_silent in (False, True):
        if is_silent:
            pair.world.set_link("worker", "namesrv", LinkQuality(delay_ms=60_000))
        sender = await begin(worker)
        began_ms = pair.world.uptime_ms
        await sender.offer([RowMessage(Message(topic, b"1")) for topic in topics])
        assert (await sender.finish()).sent == 3
        took_ms.append(pair.world.uptime_ms - began_ms)
        await sender.close()
    assert took_ms[1] < took_ms[0] + worker.settings.mq_client_api_timeout_ms + 100
