"""A program that receives messages, and says of each that it is done, or needs more time."""

import asyncio
from collections import Counter

import pytest

from staticfire.client import ConsumeFromWhere, Message, MessageQueue, SimpleConsumer, SimpleSettings
from staticfire.protocol.errors import ClientError, NetworkError, StaticfireError, TopicNotFound, UsageError
from staticfire.simulation.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop
from tests.scenarios.receiving import Worker, receive_all, simple

INVISIBLE_MS = 5_000
ROUTES_MS = 31_000
# After that a client knows of a broker that came back.

pytestmark = pytest.mark.row("G4")


@BOTH_PROTOCOLS
async def test_two_members_receive_each_message_of_two_topics_once(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.create_topic("refunds", queues=2)
    await shop.send_many(50)
    await shop.producer.send_many([Message("refunds", b"r%d" % number) for number in range(20)])
    seen: Counter[tuple[str, bytes]] = Counter()
    async with simple(shop, "one", TOPIC, "refunds") as one, simple(shop, "two", TOPIC, "refunds") as two:
        while sum(seen.values()) < 70:
            for consumer in (one, two):
                messages = await consumer.receive(7, INVISIBLE_MS, await_ms=100)
                assert len(messages) <= 7
                seen.update((message.topic, message.body) for message in messages)
                await consumer.ack_all(messages[1:])
                for message in messages[:1]:
                    await consumer.ack(message)
        assert set(seen.values()) == {1}
        assert Counter(topic for topic, _ in seen) == {TOPIC: 50, "refunds": 20}
        assert await receive_all(one, 1, INVISIBLE_MS) == []
        await world.run_for(ms=2 * INVISIBLE_MS)
        assert await receive_all(two, 1) == [], "what is acknowledged never comes again"


@BOTH_PROTOCOLS
async def test_what_isnt_acknowledged_comes_again_to_another_member(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"a", b"b", tags="paid")
    gone = await world.start("one", simple(shop, "one"))
    first = await receive_all(gone, 2, INVISIBLE_MS)
    assert [message.reconsume_times for message in first] == [0, 0]
    world.kill("one")
    async with simple(shop, "two") as two:
        assert await two.receive(await_ms=INVISIBLE_MS - 1_000) == []
        again = await receive_all(two, 2)
    assert sorted(message.body for message in again) == [b"a", b"b"]
    assert {(message.topic, message.tags, message.reconsume_times) for message in again} == {(TOPIC, "paid", 1)}
    assert {message.message_id for message in again} == {message.message_id for message in first}
    assert {message.first_popped_ms for message in again} == {message.handle.pop_time_ms for message in first}


@BOTH_PROTOCOLS
async def test_an_invisible_time_is_changed(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"longer", b"now", b"done", b"left")
    async with simple(shop, "one") as consumer:
        first = {message.body: message for message in await receive_all(consumer, 4, INVISIBLE_MS)}
        began_ms = world.uptime_ms
        await consumer.change_invisible(first[b"longer"], 3 * INVISIBLE_MS)
        await consumer.change_invisible(first[b"now"], 0)
        await consumer.change_invisible(first[b"done"], 3 * INVISIBLE_MS)
        await consumer.ack(first[b"done"])
        came: list[tuple[bytes, float]] = []
        while world.uptime_ms < began_ms + 4 * INVISIBLE_MS:
            for message in await consumer.receive(await_ms=500):
                came.append((message.body, (world.uptime_ms - began_ms) / INVISIBLE_MS))
                await consumer.ack(message)
    assert [body for body, _ in came] == [b"now", b"left", b"longer"]
    # A pop that is held isn't woken by what comes again, so it is up to half a second late.
    assert [round(factor, 0) for _, factor in came] == [0, 1, 3]


async def test_a_message_that_is_acknowledged_too_late_has_come_again_and_its_second_handle_counts(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send(b"slow")
    async with simple(shop, "one") as one, simple(shop, "two") as two:
        [slow] = await receive_all(one, 1, INVISIBLE_MS)
        await world.run_for(ms=INVISIBLE_MS + 100)
        [again] = await receive_all(two, 1, INVISIBLE_MS)
        await one.ack(slow)
        await world.run_for(ms=INVISIBLE_MS + 100)
        [third] = await receive_all(one, 1, INVISIBLE_MS)
        assert (again.body, third.body, third.reconsume_times) == (b"slow", b"slow", 2)
        await one.ack(third)
        await one.ack(third)
        await world.run_for(ms=INVISIBLE_MS + 100)
        assert await receive_all(two, 1) == []


async def test_who_waits_for_several_brokers_hears_of_each_at_once_and_takes_no_more_than_it_wants(
    world: SimulatedWorld, shop: Shop
) -> None:
    async with simple(shop, "one") as one, simple(shop, "two") as two:
        for broker in ("broker-a", "broker-b", "broker-b", "broker-a"):
            waiting = asyncio.create_task(one.receive(1, await_ms=60_000))
            await world.run_for(ms=700)
            sent_ms = world.uptime_ms
            for body in (b"first", b"second"):
                await shop.producer.send(Message(TOPIC, body), queue=MessageQueue(TOPIC, broker, 0))
            [message] = await waiting
            assert world.uptime_ms - sent_ms < 50
            await one.ack(message)
            [other] = await two.receive(32, await_ms=0)
            assert {message.body, other.body} == {b"first", b"second"}
            await two.ack(other)


async def test_who_is_cancelled_while_it_waits_for_several_brokers_has_taken_nothing(
    world: SimulatedWorld, shop: Shop
) -> None:
    async with simple(shop, "one") as one, simple(shop, "two") as two:
        waiting = asyncio.create_task(one.receive(await_ms=60_000))
        await world.run_for(ms=700)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await shop.send(b"x")
        assert [message.body for message in await two.receive(await_ms=1_000)] == [b"x"]


async def test_of_several_brokers_one_dies_between_receive_and_acknowledgement(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.send_many(40)
    async with simple(shop, "one") as consumer:
        messages = await receive_all(consumer, 40, INVISIBLE_MS)
        world.kill("broker-b")
        kept, refused = Counter[bytes](), Counter[bytes]()
        for message in messages:
            try:
                await consumer.ack(message)
            except NetworkError:
                refused[message.body] += 1
            else:
                kept[message.body] += 1
        assert (kept.total(), refused.total()) == (20, 20)
        assert await receive_all(consumer, 1) == [], "the other broker is asked as before"
        await shop.start_broker("broker-b")
        await world.run_for(ms=ROUTES_MS)
        again = await receive_all(consumer, refused.total(), INVISIBLE_MS)
        await consumer.ack_all(again)
        assert Counter(message.body for message in again) == refused
        await world.run_for(ms=2 * INVISIBLE_MS)
        assert await receive_all(consumer, 1) == []


@pytest.mark.parametrize("seed", first_and_slow(range(3)))
async def test_members_and_brokers_that_die_lose_nothing(world: SimulatedWorld, shop: Shop, seed: int) -> None:
    workers = [await Worker(shop, f"worker-{number}", work_ms=30).start() for number in range(3)]
    bodies = await shop.send_many(120)
    await world.run_for(ms=400 + 130 * seed)
    world.kill("worker-1")
    await world.run_for(ms=170)
    world.kill(f"broker-{'ab'[seed % 2]}")
    await world.run_for(ms=900)
    await shop.start_broker(f"broker-{'ab'[seed % 2]}")
    workers.append(await Worker(shop, "worker-3").start())

    def is_done() -> bool:
        return sum((worker.done for worker in workers), Counter[bytes]()).keys() >= set(bodies)

    await world.until(is_done, 120_000, "everything is done")
    seen = sum((worker.seen for worker in workers), Counter[bytes]())
    assert max(seen.values()) <= 4, "as often as it was taken from somebody who didn't say that it was done"
    await world.run_for(ms=20_000)
    assert sum((worker.seen for worker in workers), Counter[bytes]()) == seen, "nothing comes again"


async def test_messages_are_chosen_by_tags(world: SimulatedWorld, shop: Shop) -> None:
    for tag in ("AaAa", "BBBB", "x", "AaAa"):
        await shop.send(tag.encode(), tags=tag)
    async with simple(shop, "one", expression="AaAa || y") as consumer:
        messages = await receive_all(consumer, 3, INVISIBLE_MS)
        assert [message.body for message in messages] == [b"AaAa", b"AaAa"]
        await consumer.ack_all(messages)
        await world.run_for(ms=2 * INVISIBLE_MS)
        assert await receive_all(consumer, 1) == [], "BBBB has the same hash code, and was acknowledged unseen"


async def test_a_member_is_known_to_brokers_until_it_leaves(world: SimulatedWorld, shop: Shop) -> None:
    async with simple(shop, "one") as one:
        one.subscribe("refunds", "paid")
        await world.run_for(ms=200)
        [member] = await shop.admin.members(GROUP)
        assert member.client_id == one.client.client_id
        groups = shop.brokers["broker-b"].tables.groups.consumers.consumer_table
        assert set(groups[GROUP].subscriptions) == {TOPIC, "refunds"}
    assert GROUP not in groups or not groups[GROUP].channel_info_table


async def test_a_topic_that_isnt_there_yet(world: SimulatedWorld, shop: Shop) -> None:
    async with simple(shop, "one", "refunds") as consumer:
        with pytest.raises(TopicNotFound, match="no route to topic refunds"):
            await consumer.receive(await_ms=100)
        consumer.subscribe(TOPIC)
        assert await consumer.receive(await_ms=100) == [], "of the other topic there is nothing"
        await shop.admin.create_topic("refunds", queues=1)
        await shop.producer.send(Message("refunds", b"x"))
        assert [message.body for message in await receive_all(consumer, 1)] == [b"x"]


async def test_what_cant_be_requested(world: SimulatedWorld, shop: Shop) -> None:
    consumer = SimpleConsumer(GROUP, NAMESRV, SimpleSettings(client=shop.settings), world.machine("one", "10.0.5.1"))
    with pytest.raises(ClientError, match="isn't running"):
        await consumer.receive()
    async with consumer:
        with pytest.raises(ClientError, match="subscribe to a topic first"):
            await consumer.receive()
        consumer.subscribe(TOPIC)
        with pytest.raises(ClientError, match="max_messages=33: it must be a whole number from 1 to 32"):
            await consumer.receive(33)
        with pytest.raises(ClientError, match="max_messages='3': it must be a whole number"):
            await consumer.receive("3")  # type: ignore[arg-type]
        with pytest.raises(ClientError, match="invisible_ms=-1"):
            await consumer.receive(invisible_ms=-1)
        with pytest.raises(ClientError, match="await_ms=-1"):
            await consumer.receive(await_ms=-1)
    with pytest.raises(UsageError, match="not at a time"):
        SimpleSettings(consume_from_where=ConsumeFromWhere.TIMESTAMP)


async def test_brokers_that_are_all_gone(world: SimulatedWorld, shop: Shop) -> None:
    async with simple(shop, "one") as consumer:
        assert await consumer.receive(await_ms=10) == []
        for broker in shop.brokers:
            world.kill(broker)
        with pytest.raises(StaticfireError):
            await consumer.receive(await_ms=100)
