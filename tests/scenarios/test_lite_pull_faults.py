"""Programs that poll while something fails: everything is polled at last, progress never goes back."""

import pytest

from staticfire.client import (
    ClusterClient,
    ConsumeFromWhere,
    ConsumeStatus,
    LitePullConsumer,
    Message,
    MessageQueue,
)
from staticfire.client.consume.membership.admin_requests import AdminRequests
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import ClientError
from staticfire.protocol.requests.groups import DeleteGroup
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.cases import first_and_slow
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Heard, Shop
from tests.scenarios.polling import QUEUE, Program, lite_pull, poll_all

FIRST = ConsumeFromWhere.FIRST_OFFSET
MIB = 1024 * 1024

pytestmark = pytest.mark.row("P9")


@pytest.mark.parametrize("world", first_and_slow(range(4)), indirect=True)
async def test_whatever_dies_every_message_is_polled_in_the_end(world: SimulatedWorld, shop: Shop) -> None:
    programs = {who: Program(shop, who) for who in ("one", "two")}
    for program in programs.values():
        await program.start()
    polled: list[list[bytes]] = [program.bodies for program in programs.values()]
    bodies: list[bytes] = []
    for number in range(10):
        more = [b"%d-%d" % (number, each) for each in range(30)]
        await shop.send(*more)
        bodies += more
        who = world.random.choice(sorted(programs))
        if world.random.random() < 0.6:
            world.kill(who)
        else:
            await world.stop(who)
        if world.random.random() < 0.4:
            world.kill("broker-a")
            await world.run_for(ms=world.random.randrange(500))
            await shop.start_broker("broker-a")
            await world.run_for(seconds=4)
        await world.run_for(ms=world.random.randrange(3_000))
        programs[who] = Program(shop, who)
        await programs[who].start()
        polled.append(programs[who].bodies)
    await world.until(lambda: {body for one in polled for body in one} == set(bodies), within_ms=120_000)
    await world.until(shop.is_committed, within_ms=20_000)


@BOTH_PROTOCOLS
async def test_brokers_that_answer_late_are_waited_for(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(60)], queue=0)
    consumer = lite_pull(shop, "one", consume_from_where=FIRST)
    slow = LinkQuality(delay_ms=1_200, jitter_ms=700)
    for broker in shop.brokers:
        world.set_link("one", broker, slow)
    async with consumer:
        await consumer.assign([QUEUE])
        assert await poll_all(consumer, 60, timeout_ms=60_000) == [b"%d" % number for number in range(60)]
        await consumer.seek(QUEUE, 58)
        assert await poll_all(consumer, 2, timeout_ms=60_000) == [b"58", b"59"]
        await consumer.commit()
        assert shop.committed() == 60


async def test_a_broker_that_stays_silent_leaves_the_others_to_be_polled(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one", consume_from_where=FIRST)
    consumer.subscribe(TOPIC)
    async with consumer:
        world.freeze("broker-a")
        for number in range(5):
            queue = MessageQueue(TOPIC, "broker-b", number % 4)
            await shop.producer.send(Message(TOPIC, b"%d" % number), queue=queue)
        assert sorted(await poll_all(consumer, 5)) == [b"0", b"1", b"2", b"3", b"4"]
        await world.run_for(seconds=40)
        world.thaw("broker-a")
        await shop.send(b"here again", queue=0)
        assert await poll_all(consumer, 1, timeout_ms=40_000) == [b"here again"]


async def test_a_group_that_is_deleted_under_it_is_polled_on_where_it_is(world: SimulatedWorld, shop: Shop) -> None:
    async with lite_pull(shop, "one", consume_from_where=FIRST, auto_commit=False) as consumer:
        await consumer.assign([QUEUE])
        await shop.send(b"0", b"1", queue=0)
        assert await poll_all(consumer, 2) == [b"0", b"1"]
        await consumer.commit()
        for broker in ("10.0.1.1:10911", "10.0.1.2:10911"):
            answer = await shop.producer.client.pool.ask(broker, DeleteGroup(GROUP, clean_offset=True))
            assert answer.code == SUCCESS
        assert shop.committed() == -1
        await shop.send(b"2", queue=0)
        assert await poll_all(consumer, 1) == [b"2"]
        await consumer.commit()
        assert shop.committed() == 3


async def test_queues_that_come_and_go_are_followed(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one", consume_from_where=FIRST)
    consumer.subscribe(TOPIC)
    async with consumer:
        await shop.admin.create_topic(TOPIC, queues=6)
        await world.run_for(seconds=35)
        assert len(consumer.assignment) == 12
        await shop.send(b"new queue", queue=5)
        assert await poll_all(consumer, 1) == [b"new queue"]
        await shop.admin.create_topic(TOPIC, queues=2)
        await world.run_for(seconds=35)
        assert len(consumer.assignment) == 4
        await shop.send(b"old queue", queue=1)
        assert await poll_all(consumer, 1) == [b"old queue"]


async def test_what_retention_has_removed_is_passed_over(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={"mapped_file_size_commit_log": MIB}).open()
    for _ in range(30):
        await shop.producer.send(Message(TOPIC, world.random.randbytes(100_000)), queue=QUEUE)
    store = shop.brokers["broker-a"].state.store
    async with lite_pull(
        shop, "one", consume_from_where=FIRST, auto_commit=False, pull_threshold_for_queue=1
    ) as consumer:
        await consumer.assign([QUEUE])
        assert (await consumer.poll(5_000))[0].queue_offset == 0
        await world.run_for(seconds=1)
        store.remove_segments_before(store.max_position)
        low = await shop.offsets.min_offset(QUEUE)
        assert 15 < low < 30
        offsets = [message.queue_offset for _ in range(40) for message in await consumer.poll(300)]
        assert offsets[-1] == 29
        assert set(range(low, 30)) <= set(offsets)
        assert offsets == sorted(offsets)
    await shop.close()


@pytest.mark.row("C7")
@pytest.mark.slow
async def test_ten_thousand_messages_that_all_fail_at_once_come_again(world: SimulatedWorld, shop: Shop) -> None:
    done: set[bytes] = set()

    async def fail_once(heard: Heard) -> ConsumeStatus:
        if heard.message.reconsume_times == 0:
            return ConsumeStatus.RECONSUME_LATER
        done.add(heard.message.body)
        return ConsumeStatus.CONSUME_SUCCESS

    await shop.start("one", fail_once)
    bodies = await shop.send_many(10_000)
    await world.until(lambda: len(done) == 10_000, within_ms=120_000)
    await world.until(shop.is_committed, within_ms=20_000)
    assert done == set(bodies)
    assert len(shop.bodies) == 20_000


async def test_a_second_consumer_of_its_group_is_refused_and_the_first_continues(
    world: SimulatedWorld, shop: Shop
) -> None:
    async with ClusterClient(NAMESRV, machine=world.machine("one", host="10.0.3.1")) as client:
        first, again = LitePullConsumer(GROUP, client=client), LitePullConsumer(GROUP, client=client)
        for consumer in (first, again):
            consumer.subscribe(TOPIC)
        async with first:
            with pytest.raises(ClientError, match="has been created before"):
                await again.__aenter__()
            assert GROUP in AdminRequests.of(client).consumers
            await shop.admin.create_topic(TOPIC, queues=5)
            await world.run_for(seconds=35)
            assert len(first.assignment) == 10
            await shop.send(b"1", queue=4)
            assert await poll_all(first, 1) == [b"1"]


@BOTH_PROTOCOLS
async def test_a_topic_that_is_subscribed_again_with_other_tags_at_once(world: SimulatedWorld, shop: Shop) -> None:
    """The rebalance that would give its queues back finds it subscribed."""
    consumer = lite_pull(shop, "one", consume_from_where=FIRST)
    consumer.subscribe(TOPIC, "odd")
    async with consumer:
        for number in range(8):
            await shop.send(b"%d" % number, queue=0, tags="odd" if number % 2 else "even")
        await world.run_for(seconds=1)
        consumer.unsubscribe(TOPIC)
        consumer.subscribe(TOPIC, "even")
        # The first message was skipped by the earlier subscription, before anything was pulled.
        assert await poll_all(consumer, 8) == [b"2", b"4", b"6"]
