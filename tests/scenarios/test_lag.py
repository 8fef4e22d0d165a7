"""`group`, `groups`, `explain`, the metrics and `wait_consumed` count the same lag of a group."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from staticfire.client import (
    ClientSettings,
    ConsumeFromWhere,
    ConsumeStatus,
    QueueProgress,
    SimpleConsumer,
    SimpleSettings,
)
from staticfire.client.admin.listing import list_groups
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.explain.explainer import explain_group
from staticfire.client.explain.facts import total
from staticfire.client.explain.gathering import FactsReader
from staticfire.protocol.lag import lag_of
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.statistics import GetMetrics
from staticfire.protocol.requests.upkeep import DeleteExpired
from staticfire.simulation.world import SimulatedWorld
from staticfire.testing.progress import ends_of_returned, queues_left
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop, later

RETRIES = retry_topic(GROUP)


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world, ClientSettings(), broker_settings={"journal_enable": True})
    yield await shop.open(brokers=2, queues=2)
    await shop.close()


async def lags(shop: Shop) -> dict[str, int]:
    """Return the lag of the group from each source."""
    view = await shop.admin.group(GROUP)
    (listed,) = [one for one in await list_groups(shop.admin) if one["group"] == GROUP]
    facts = await FactsReader(shop.admin, GROUP, None).read()
    masters = await shop.admin.masters()
    answers = [await shop.producer.client.pool.ask(address, GetMetrics()) for address in masters.values()]
    rows = [row for answer in answers for row in answer.body if row.name == "rocketmq_consumer_lag_messages"]
    ends, firsts = {}, {}
    for topic in (TOPIC, RETRIES):
        for (broker, number), end in shop.ends(topic).items():
            place = MessageQueue(topic, broker, number)
            ends[place], firsts[place] = end, await shop.admin.min_offset(place)
    left = queues_left({**ends, **ends_of_returned(TOPIC, view)}, view, firsts)
    return {
        "group": view.lag,
        "groups": listed["lag"],
        "explain": total(facts.queues()),
        "metrics": sum(int(row.value) for row in rows if row.labels["consumer_group"] == GROUP),
        "wait_consumed": sum(one.count for one in left),
    }


async def all_are(shop: Shop, lag: int) -> bool:
    found = await lags(shop)
    assert set(found.values()) == {lag}, found
    return True


async def test_what_is_popped_and_not_acknowledged(shop: Shop) -> None:
    await shop.send(*[b"x"] * 4, queue=0)
    simple = SimpleConsumer(
        GROUP, NAMESRV, SimpleSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET),
        shop.world.machine("one", host="10.0.5.1"),
    )  # fmt: skip
    simple.subscribe(TOPIC)
    await shop.world.start("one", simple)
    taken = await simple.receive(max_messages=3, invisible_ms=60_000)
    assert len(taken) == 3
    await simple.ack(taken[0])
    await all_are(shop, 3)
    assert "3 messages behind in orders, 2 of them popped" in str(await explain_group(shop.admin, GROUP))


async def test_retries_of_a_group_that_has_gone_before_they_were_due(shop: Shop) -> None:
    await shop.start("one", later)
    await shop.send(b"1", b"2")
    await shop.until_heard(2)
    await shop.world.run_for(seconds=3)
    await shop.world.stop("one")
    await shop.advance(hours=1)
    await all_are(shop, 2)
    (row,) = [one for one in (await shop.admin.group(GROUP)).progress if one.topic == RETRIES and one.lag]
    assert (row.committed, row.end) == (0, row.lag)


async def test_what_a_listener_has_and_what_it_has_done(shop: Shop) -> None:
    may_end = asyncio.Event()

    async def waits(_: Heard) -> ConsumeStatus:
        await may_end.wait()
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", waits)
    await shop.send(*[b"x"] * 6)
    await shop.until_heard(1)
    await shop.world.run_for(seconds=1)
    await all_are(shop, 6)
    may_end.set()
    await shop.world.run_for(seconds=1)
    await all_are(shop, 0)


def test_what_members_report_is_newer_than_what_is_committed() -> None:
    progress = QueueProgress(TOPIC, "broker-a", 0, 3, 9, 0, 0, [], reported=7)
    assert progress.lag == 2
    assert msgspec.structs.replace(progress, committed=8).lag == 1
    assert msgspec.structs.replace(progress, committed=-1, reported=-1, first=6).lag == 3


async def test_messages_that_are_no_longer_stored(world: SimulatedWorld) -> None:
    small = {"mapped_file_size_commit_log": 16 * 1024, "file_reserved_time": 0}
    settings: dict[str, object] = {"journal_enable": True, **small}
    shop = await Shop(world, ClientSettings(), broker_settings=settings).open(queues=1)
    await shop.start("one")
    await shop.send(b"x")
    await shop.until_heard(1)
    await world.run_for(seconds=20)
    await world.stop("one")
    await shop.send(*[bytes(4_000)] * 12)  # Larger ones would be compressed.
    await world.run_for(seconds=5)
    (address,) = (await shop.admin.masters()).values()
    await shop.producer.client.pool.ask(address, DeleteExpired())
    queue = shop.brokers["broker-a"].state.store.queue(TOPIC, 0)
    assert queue.min_offset > 1
    await all_are(shop, queue.max_offset - queue.min_offset)
    await shop.close()


@pytest.mark.parametrize(
    ("end", "consumed", "first", "unacknowledged", "lag"),
    [(5, 3, 0, 0, 2), (5, -1, 0, 0, 5), (5, -1, 4, 0, 1), (5, 2, 4, 0, 1), (5, 9, 0, 0, 0), (5, 5, 0, 2, 2)],
)
def test_the_formula(end: int, consumed: int, first: int, unacknowledged: int, lag: int) -> None:
    assert lag_of(end, consumed, first, unacknowledged) == lag
