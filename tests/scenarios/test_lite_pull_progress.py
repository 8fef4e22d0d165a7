"""A program that polls: what it commits, and what becomes of its place when something fails."""

import pytest

from staticfire.client import (
    ConsumeFromWhere,
    MessageModel,
    MessageQueue,
)
from staticfire.client.explain.facts import total
from staticfire.client.explain.gathering import FactsReader
from staticfire.protocol.errors import ClientError, NetworkError
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Shop
from tests.scenarios.polling import QUEUE, lite_pull, poll_all

FIRST = ConsumeFromWhere.FIRST_OFFSET

pytestmark = pytest.mark.row("P9")


# -- committing --------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_what_was_polled_is_committed_by_a_later_poll(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(30)], queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        await consumer.assign([QUEUE])
        await consumer.poll(1_000)
        await world.run_for(seconds=6)
        assert shop.committed() == -1, "the program may still be at work on it"
        await consumer.poll(1_000)
        await world.run_for(ms=20)
        assert shop.committed() == 10
        await consumer.poll(1_000)
        await world.run_for(ms=20)
        assert shop.committed() == 10, "the interval isn't over"
    assert shop.committed() == 30


async def test_a_program_that_fails_finds_its_last_poll_again(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(30)], queue=0)

    async def program() -> None:
        async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
            await consumer.assign([QUEUE])
            assert len(await poll_all(consumer, 20)) == 20
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await program()
    assert shop.committed() == 10


async def test_a_queue_that_is_given_away_takes_along_what_is_done(world: SimulatedWorld, shop: Shop) -> None:
    """Nothing that the program is still at work on counts for the next owner."""
    one, two = lite_pull(shop, "one", consume_from_where=FIRST), lite_pull(shop, "two")
    for consumer in (one, two):
        consumer.subscribe(TOPIC)
    await shop.send_many(160)
    async with one:
        polled = [message for _ in range(16) for message in await one.poll(1_000)]
        assert len(polled) == 160
        async with two:
            await world.run_for(ms=300)
            moved = two.assignment
            assert len(moved) == 4
            last = MessageQueue(TOPIC, polled[-1].broker_name, polled[-1].queue_id)
            for queue in moved:
                committed = shop.committed(queue.queue_id, broker=queue.broker_name)
                assert committed == (10 if queue == last else 20)


@BOTH_PROTOCOLS
async def test_nothing_is_committed_but_what_the_program_commits(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(30)], queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST, auto_commit=False) as consumer:
        await consumer.assign([QUEUE])
        await poll_all(consumer, 20)
        await world.run_for(seconds=60)
        assert shop.committed() == -1
        await consumer.commit()
        assert shop.committed() == await consumer.committed(QUEUE) == 20
        await poll_all(consumer, 10)
        await consumer.commit({QUEUE: 23})
        assert shop.committed() == 23
        await consumer.commit([QUEUE], persist=False)
        assert (shop.committed(), await consumer.committed(QUEUE)) == (23, 30)
        await world.run_for(seconds=11)
        assert shop.committed() == 30
        await consumer.seek(QUEUE, 5)
        await consumer.commit()
        assert shop.committed() == 5, "a program may go back"
        with pytest.raises(ClientError, match="offsets below 0"):
            await consumer.commit({QUEUE: -1})
    assert shop.committed() == 5


@BOTH_PROTOCOLS
async def test_a_commit_returns_when_it_is_stored_also_after_one_that_did_not_wait(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send(*[b"%d" % number for number in range(10)], queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST, auto_commit=False) as consumer:
        await consumer.assign([QUEUE])
        await poll_all(consumer, 10)
        await consumer.commit(persist=False)
        await consumer.commit()
        assert shop.committed() == 10


@BOTH_PROTOCOLS
async def test_a_commit_that_has_failed_is_tried_again_by_the_next_one(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(10)], queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST, auto_commit=False) as consumer:
        await consumer.assign([QUEUE])
        await poll_all(consumer, 10)
        world.kill("broker-a")
        for _ in range(2):
            with pytest.raises(NetworkError):
                await consumer.commit()
        await shop.start_broker("broker-a")
        await world.run_for(seconds=1)
        await consumer.commit([QUEUE])
        assert shop.committed() == 10


@BOTH_PROTOCOLS
async def test_nothing_takes_back_what_the_program_has_committed(world: SimulatedWorld, shop: Shop) -> None:
    """With auto_commit, a commit includes what later polls and the end of the consumer would have committed."""
    await shop.send(*[b"%d" % number for number in range(20)], queue=0)

    async def program() -> None:
        async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
            await consumer.assign([QUEUE])
            assert len(await poll_all(consumer, 20)) == 20
            await consumer.commit()
            assert shop.committed() == 20
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await program()
    assert shop.committed() == 20


async def test_what_was_only_read_is_never_written_back(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(30)], queue=0)
    committed = shop.brokers["broker-a"].tables.groups.offsets
    committed.commit(GROUP, TOPIC, 0, 3)
    async with lite_pull(shop, "one", auto_commit=False) as consumer:
        await consumer.assign([QUEUE])
        assert (await poll_all(consumer, 10))[0] == b"3"
        committed.commit(GROUP, TOPIC, 0, 21)
        await world.run_for(seconds=60)
    assert shop.committed() == 21


async def lag_of_explain(shop: Shop) -> int:
    return total((await FactsReader(shop.admin, GROUP, None).read()).queues())


async def test_a_broadcasting_member_lags_from_its_start_until_it_commits(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"before its start"] * 30, queue=0)
    async with lite_pull(shop, "one", message_model=MessageModel.BROADCASTING, auto_commit=False) as consumer:
        consumer.subscribe(TOPIC)
        await world.run_for(seconds=3)
        assert await lag_of_explain(shop) == 0
        await shop.send(*[b"%d" % number for number in range(3)], queue=0)
        assert await poll_all(consumer, 3) == [b"0", b"1", b"2"]
        assert await lag_of_explain(shop) == 3
        consumer.subscribe(TOPIC, "paid")
        await world.run_for(seconds=3)
        assert await lag_of_explain(shop) == 3, "the polled messages aren't committed"
        await consumer.commit()
        assert await lag_of_explain(shop) == 0


# -- faults ------------------------------------------------------------------------------------------------------------


async def test_a_broker_that_restarts_is_polled_on(world: SimulatedWorld, shop: Shop) -> None:
    async with lite_pull(shop, "one") as consumer:
        await consumer.assign([QUEUE])
        await shop.send(b"before", queue=0)
        assert await poll_all(consumer, 1) == [b"before"]
        world.kill("broker-a")
        assert await consumer.poll(3_000) == []
        await shop.start_broker("broker-a")
        await world.run_for(seconds=40)
        await shop.send(b"after", queue=0)
        assert await poll_all(consumer, 1, timeout_ms=10_000) == [b"after"]


async def test_queues_of_a_broker_that_is_away_are_taken_when_it_is_back(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"1", queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        await consumer.queues(TOPIC)
        await world.stop("broker-a")
        await consumer.assign([QUEUE])
        assert consumer.assignment == [QUEUE]
        assert await consumer.poll(3_000) == []
        await shop.start_broker("broker-a")
        assert await poll_all(consumer, 1, timeout_ms=60_000) == [b"1"]


async def test_a_topic_that_is_deleted_and_made_again_is_read_from_its_new_beginning(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send(*[b"%d" % number for number in range(12)], queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        await consumer.assign([QUEUE])
        assert len(await poll_all(consumer, 12)) == 12
        await shop.admin.delete_topic(TOPIC)
        assert await consumer.poll(25_000) == []
        await shop.admin.create_topic(TOPIC, queues=4)
        await shop.send(b"first", queue=0)
        assert await poll_all(consumer, 1, timeout_ms=40_000) == [b"first"]


async def test_an_offset_that_the_queue_has_no_more_is_corrected_and_nothing_committed_for_it(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send(b"0", b"1", queue=0)
    await shop.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    await shop.offsets.commit(GROUP, QUEUE, 500)
    async with lite_pull(shop, "one", auto_commit=False) as consumer:
        await consumer.assign([QUEUE])
        await world.run_for(seconds=3)
        await shop.send(b"2", queue=0)
        assert await poll_all(consumer, 1) == [b"2"]
        assert shop.committed() == 500


async def test_a_reset_while_it_runs_is_followed(world: SimulatedWorld, shop: Shop) -> None:
    """The broker tells a lite pull consumer in its answer to the next pull."""
    await shop.send(*[b"%d" % number for number in range(10)], queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST, auto_commit=False) as consumer:
        await consumer.assign([QUEUE])
        assert len(await poll_all(consumer, 10)) == 10
        await shop.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
        address = (await shop.admin.masters())["broker-a"]
        reset = ResetOffset(GROUP, TOPIC, -1, queue_id=0, offset=4)
        assert (await shop.producer.client.pool.ask(address, reset)).code == 0
        await shop.send(b"10", queue=0)
        assert (await poll_all(consumer, 7))[-7:] == [b"4", b"5", b"6", b"7", b"8", b"9", b"10"]
