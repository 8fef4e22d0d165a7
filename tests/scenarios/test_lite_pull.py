"""A program that polls: its queues, and its place in them."""

import asyncio
from typing import Any

import pytest

from staticfire.client import (
    ConsumeFromWhere,
    LitePullConsumer,
    LitePullSettings,
    Message,
    MessageModel,
    MessageQueue,
)
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.requests.clients import GetConsumerList
from staticfire.protocol.requests.connections import GetConsumerRunningInfo
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, TOPIC, Shop
from tests.scenarios.polling import QUEUE, lite_pull, poll_all

FIRST = ConsumeFromWhere.FIRST_OFFSET

pytestmark = pytest.mark.row("P9")


# -- which queues ------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_two_members_that_subscribe_share_the_queues_and_poll_each_message_once(
    world: SimulatedWorld, shop: Shop
) -> None:
    one, two = lite_pull(shop, "one"), lite_pull(shop, "two")
    for consumer in (one, two):
        consumer.subscribe(TOPIC)
    async with one, two:
        await world.run_for(ms=300)
        assert [len(consumer.assignment) for consumer in (one, two)] == [4, 4]
        assert not set(one.assignment) & set(two.assignment)
        bodies = await shop.send_many(100)
        found = await poll_all(one, 100) + await poll_all(two, 100)
    assert sorted(found) == sorted(bodies)
    assert shop.is_committed(), "both have left in peace, so what they polled is done"


async def test_who_leaves_gives_its_queues_to_the_other(world: SimulatedWorld, shop: Shop) -> None:
    changes: list[int] = []
    one, two = lite_pull(shop, "one"), lite_pull(shop, "two")
    one.on_queues_changed(lambda topic, queues, own: changes.append(len(own)))
    for consumer in (one, two):
        consumer.subscribe(TOPIC)
    async with one:
        async with two:
            await world.run_for(ms=300)
        await world.run_for(ms=300)
        assert (len(one.assignment), len(two.assignment)) == (8, 0)
    assert changes == [8, 4, 8]


@BOTH_PROTOCOLS
async def test_assigned_queues_are_had_by_everybody_who_assigns_them(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"1", b"2", queue=0)
    await shop.send(b"elsewhere", queue=1)
    for who in ("one", "two"):
        async with lite_pull(shop, who, consume_from_where=FIRST, auto_commit=False) as consumer:
            await consumer.assign([QUEUE])
            assert consumer.assignment == [QUEUE]
            assert await poll_all(consumer, 3) == [b"1", b"2"]
            groups = shop.brokers["broker-a"].tables.groups
            [member] = groups.consumers.consumer_table[GROUP].channel_info_table.values()
            assert member.client_id == consumer.client.client_id


async def test_an_assignment_replaces_the_one_before(world: SimulatedWorld, shop: Shop) -> None:
    other = MessageQueue(TOPIC, "broker-a", 1)
    consumer = lite_pull(shop, "one", consume_from_where=FIRST)
    await consumer.assign([QUEUE])
    async with consumer:
        await shop.send(b"0", queue=0)
        await shop.send(b"1", queue=1)
        assert await poll_all(consumer, 2) == [b"0"]
        await consumer.assign([other])
        assert await poll_all(consumer, 2) == [b"1"]
        await shop.send(b"not any more", queue=0)
        assert await consumer.poll(1_000) == []
        await consumer.assign([])
        await shop.send(b"nor this", queue=1)
        assert await consumer.poll(1_000) == []


async def test_assigned_queues_can_be_filtered_by_tags(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"1", queue=0, tags="paid")
    await shop.send(b"2", queue=0, tags="sent")
    await shop.send(b"3", queue=0, tags="BB")  # Its hash code is that of "Aa".
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        await consumer.assign([QUEUE], {TOPIC: "paid || Aa"})
        assert await poll_all(consumer, 3) == [b"1"]
        await consumer.assign([QUEUE], {TOPIC: "sent"})
        await shop.send(b"4", queue=0, tags="paid")
        await shop.send(b"5", queue=0, tags="sent")
        assert await poll_all(consumer, 2) == [b"5"]


@BOTH_PROTOCOLS
async def test_other_tags_count_from_the_first_message_that_was_pulled_ahead(world: SimulatedWorld, shop: Shop) -> None:
    for number in range(40):
        await shop.send(b"%d" % number, queue=0, tags="odd" if number % 2 else "even")
    consumer = lite_pull(shop, "one", consume_from_where=FIRST, pull_batch_size=5)
    consumer.subscribe(TOPIC, "odd")
    async with consumer:
        assert await poll_all(consumer, 5) == [b"1", b"3", b"5", b"7", b"9"]
        await world.run_for(seconds=3)
        consumer.subscribe(TOPIC, "even")
        assert await poll_all(consumer, 100) == [b"%d" % number for number in range(40) if number % 2 == 0][6:]
        consumer.subscribe(TOPIC, "late")
        began_ms = world.uptime_ms
        await shop.send(b"late", queue=0, tags="late")
        assert await poll_all(consumer, 1) == [b"late"]
        assert world.uptime_ms - began_ms < 50, "no broker still holds a pull for even ones"


async def test_subscribing_and_assigning_exclude_each_other(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one")
    await consumer.assign([QUEUE])
    with pytest.raises(ClientError, match="mutually exclusive; queues have been assigned"):
        consumer.subscribe(TOPIC)
    consumer = lite_pull(shop, "one")
    consumer.subscribe(TOPIC)
    with pytest.raises(ClientError, match="mutually exclusive; topics have been subscribed"):
        await consumer.assign([QUEUE])


async def test_an_assignment_with_an_invalid_expression_changes_nothing(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.create_topic("refunds", queues=1)
    both = [QUEUE, MessageQueue("refunds", "broker-a", 0)]
    await shop.send(b"one", queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        with pytest.raises(ClientError, match="contains no tag"):
            await consumer.assign(both, {"refunds": "||"})
        assert consumer.assignment == []
        await consumer.assign(both, {"refunds": "paid"})
        assert await poll_all(consumer, 1) == [b"one"]


async def test_queues_of_an_unsubscribed_topic_are_given_back(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one")
    consumer.subscribe(TOPIC)
    async with consumer:
        assert len(consumer.assignment) == 8
        consumer.unsubscribe(TOPIC)
        await world.run_for(ms=300)
        assert consumer.assignment == []
        with pytest.raises(ClientError, match="nothing to poll: subscribe to a topic, or assign queues, first"):
            await consumer.poll()


async def test_a_broadcasting_member_has_all_queues_and_its_own_place(world: SimulatedWorld, shop: Shop) -> None:
    places: dict[str, Any] = {"message_model": MessageModel.BROADCASTING, "consume_from_where": FIRST}
    bodies = await shop.send_many(40)
    for who in ("one", "two"):
        consumer = lite_pull(shop, who, **places)
        consumer.subscribe(TOPIC)
        async with consumer:
            assert sorted(await poll_all(consumer, 40)) == sorted(bodies)
            assert await consumer.committed(QUEUE) is None
            await consumer.commit()
            assert await consumer.committed(QUEUE) == 5
    again = lite_pull(shop, "one", **places)
    again.subscribe(TOPIC)
    async with again:
        assert await again.poll(3_000) == []
    assert shop.committed() == -1


# -- polling -----------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_a_poll_waits_for_a_message_and_no_longer(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one", poll_timeout_ms=700)
    consumer.subscribe(TOPIC)
    async with consumer:
        began_ms = world.uptime_ms
        assert await consumer.poll() == []
        assert world.uptime_ms - began_ms == 700
        assert await consumer.poll(0) == []
        assert world.uptime_ms - began_ms == 700
        polling = asyncio.create_task(consumer.poll(60_000))
        await world.run_for(seconds=7)
        await shop.send(b"at last", queue=2)
        [message] = await polling
        assert message.body == b"at last"
        assert world.uptime_ms - began_ms < 7_800


@BOTH_PROTOCOLS
async def test_a_poll_brings_what_one_pull_brought_in_the_order_of_its_queue(world: SimulatedWorld, shop: Shop) -> None:
    bodies = [b"%d" % number for number in range(50)]
    await shop.send(*bodies, queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST, pull_batch_size=16) as consumer:
        await consumer.assign([QUEUE])
        polls = [[message.body for message in await consumer.poll(1_000)] for _ in range(4)]
    assert [len(poll) for poll in polls] == [16, 16, 16, 2]
    assert [body for poll in polls for body in poll] == bodies


async def test_who_never_polls_is_sent_no_more_than_the_limits_allow(world: SimulatedWorld, shop: Shop) -> None:
    await shop.producer.send_many([Message(TOPIC, b"%d" % number) for number in range(4_000)])
    settings: dict[str, Any] = {"consume_from_where": FIRST, "pull_threshold_for_queue": 100, "pull_batch_size": 32}
    consumer = lite_pull(shop, "one", **settings)
    consumer.subscribe(TOPIC)
    async with consumer:
        await world.run_for(seconds=30)
        assert 8 * 100 < await waiting(shop, GROUP) <= 8 * (100 + 32)
        assert len(await poll_all(consumer, 4_000)) == 4_000
    consumer = lite_pull(shop, "two", group="all", pull_threshold_for_all=200, **settings)
    consumer.subscribe(TOPIC)
    async with consumer:
        await world.run_for(seconds=30)
        assert 200 < await waiting(shop, "all") <= 200 + 32 + 8 * 32
        assert len(await poll_all(consumer, 4_000)) == 4_000


async def test_who_never_polls_is_sent_no_more_mib_than_the_limit_allows(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[world.random.randbytes(128 * 1024) for _ in range(40)], queue=0)
    consumer = lite_pull(shop, "one", consume_from_where=FIRST, pull_threshold_size_for_queue_mib=1)
    consumer.subscribe(TOPIC)
    async with consumer:
        await world.run_for(seconds=5)
        assert 16 <= await waiting(shop, GROUP) <= 18
        assert len(await poll_all(consumer, 40)) == 40


async def waiting(shop: Shop, group: str) -> int:
    """Return how many messages a group's only member has pulled and not polled, as an administrator sees it."""
    address = next(iter((await shop.admin.masters()).values()))
    [client_id] = (await shop.admin.client.pool.ask(address, GetConsumerList(group), 5_000)).body.consumer_id_list
    answer = await shop.admin.client.pool.ask(address, GetConsumerRunningInfo(group, client_id), 5_000)
    return sum(queue.cached_msg_count for queue in answer.body.mq_table.values())


async def test_polls_of_several_tasks_share_what_comes(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one", auto_commit=False)
    consumer.subscribe(TOPIC)
    async with consumer:
        polling = [asyncio.create_task(consumer.poll(5_000)) for _ in range(8)]
        await world.run_for(ms=50)
        polling[0].cancel()
        for number in range(8):
            await shop.send(b"%d" % number, queue=number % 4)
        polled = [[message.body for message in await task] for task in polling[1:]]
        rest = await poll_all(consumer, 8)
    assert sorted([body for poll in polled for body in poll] + rest) == [b"%d" % number for number in range(8)]


async def test_polling_ends_when_the_consumer_is_left(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(shop, "one")
    with pytest.raises(ClientError, match="isn't running: open it first"):
        await consumer.poll()
    consumer.subscribe(TOPIC)
    async with consumer:
        polling = asyncio.create_task(consumer.poll(60_000))
        await world.run_for(ms=100)
        with pytest.raises(ClientError, match=r"timeout_ms=-1\): the timeout must not be negative"):
            await consumer.poll(-1)
    assert await polling == []
    with pytest.raises(ClientError, match="isn't running: open it first"):
        await consumer.poll()


# -- moving ------------------------------------------------------------------------------------------------------------


@BOTH_PROTOCOLS
async def test_seek_continues_elsewhere_and_drops_what_was_pulled_ahead(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(100)], queue=0)
    async with lite_pull(shop, "one", consume_from_where=FIRST) as consumer:
        await consumer.assign([QUEUE])
        assert (await poll_all(consumer, 10))[-1] == b"9"
        await consumer.seek(QUEUE, 70)
        assert await poll_all(consumer, 30) == [b"%d" % number for number in range(70, 100)]
        await consumer.seek_to_begin(QUEUE)
        assert (await poll_all(consumer, 10))[0] == b"0"
        await consumer.seek_to_end(QUEUE)
        assert await consumer.poll(1_000) == []
        await shop.send(b"new", queue=0)
        assert await poll_all(consumer, 1) == [b"new"]


async def test_a_seek_while_a_pull_is_held_takes_effect_at_once(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"0", b"1", queue=0)
    async with lite_pull(shop, "one") as consumer:
        await consumer.assign([QUEUE])
        await consumer.seek_to_end(QUEUE)
        polling = asyncio.create_task(consumer.poll(30_000))
        await world.run_for(seconds=3)
        began_ms = world.uptime_ms
        await consumer.seek(QUEUE, 1)
        assert [message.body for message in await polling] == [b"1"]
        assert world.uptime_ms - began_ms < 50
        await shop.send(b"2", queue=0)
        assert await poll_all(consumer, 1) == [b"2"], (
            "the pull that was held before has found it, too, and counts for nothing"
        )
        assert await consumer.poll(1_000) == []


async def test_a_seek_is_refused_beyond_what_a_queue_has(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"0", b"1", queue=0)
    async with lite_pull(shop, "one") as consumer:
        await consumer.assign([QUEUE])
        for queue_offset in (-1, 3):
            with pytest.raises(ClientError, match=rf"seek to {queue_offset} in .*: it has the offsets 0 to 2"):
                await consumer.seek(QUEUE, queue_offset)
        await consumer.seek(QUEUE, 2)
        other = MessageQueue(TOPIC, "broker-a", 3)
        for refused in (consumer.seek(other, 0), consumer.seek_to_end(other), consumer.commit({other: 0})):
            with pytest.raises(ClientError, match="isn't assigned to this consumer of billing"):
                await refused
        with pytest.raises(ClientError, match="isn't assigned to this consumer of billing"):
            consumer.pause([other])


@BOTH_PROTOCOLS
async def test_a_paused_queue_brings_nothing_new_until_it_is_resumed(world: SimulatedWorld, shop: Shop) -> None:
    other = MessageQueue(TOPIC, "broker-a", 1)
    async with lite_pull(shop, "one") as consumer:
        await consumer.assign([QUEUE, other])
        consumer.pause([QUEUE])
        assert consumer.is_paused(QUEUE)
        await shop.send(b"paused", queue=0)
        await shop.send(b"other", queue=1)
        assert await poll_all(consumer, 2) == [b"other"]
        await world.run_for(seconds=200)
        await consumer.seek(QUEUE, 0)
        assert await consumer.poll(5_000) == [], "a seek resumes nothing"
        began_ms = world.uptime_ms
        consumer.resume([QUEUE])
        assert await poll_all(consumer, 1) == [b"paused"]
        assert world.uptime_ms - began_ms < 50


async def test_a_queue_is_read_from_a_time_on(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"old", queue=0)
    await world.run_for(seconds=5)
    since_ms = shop.brokers["broker-a"].state.clock.message_ms()
    await shop.send(b"new", queue=0)
    async with lite_pull(shop, "one") as consumer:
        await consumer.assign([QUEUE])
        await consumer.seek(QUEUE, await consumer.offset_for_timestamp(QUEUE, since_ms))
        assert await poll_all(consumer, 2) == [b"new"]


@pytest.mark.row("P6")
async def test_conditions_choose_what_is_polled(world: SimulatedWorld, shop: Shop) -> None:
    for number in range(6):
        await shop.producer.send(Message(TOPIC, b"%d" % number, properties={"price": str(number * 10)}), queue=QUEUE)
    consumer = lite_pull(shop, "one", consume_from_where=FIRST)
    consumer.subscribe(TOPIC, "price >= 40", "SQL92")
    async with consumer:
        assert await poll_all(consumer, 3) == [b"4", b"5"]


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"auto_commit_interval_ms": 999}, "auto_commit_interval_ms=999 is out of range: 1000 to"),
        ({"poll_timeout_ms": -1}, "poll_timeout_ms=-1 is out of range"),
        ({"pull_threshold_for_all": 0}, "pull_threshold_for_all=0 is out of range"),
        ({"pull_batch_size": 1_025}, "pull_batch_size=1025 is out of range"),
        ({"broker_suspend_max_ms": 30_000}, "pull_timeout_ms=30000 must be more than broker_suspend_max_ms=30000"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(
    world: SimulatedWorld, settings: dict[str, int], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        LitePullConsumer("audit", NAMESRV, LitePullSettings(**settings))  # type: ignore[arg-type]
