"""Settings of lite pull consumers, of simple consumers and of all clients, each with another value than its default."""

from typing import Any

import pytest

from staticfire.client import (
    ByConfig,
    ClientSettings,
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    MessageModel,
    MessageQueue,
    Producer,
    ProducerSettings,
    PullConsumer,
    PullSettings,
    SimpleConsumer,
    SimpleSettings,
)
from staticfire.protocol.errors import AnswerTimeout, StaticfireError
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.simulation.world import LinkQuality, SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Shop
from tests.scenarios.logged import LogLine
from tests.scenarios.polling import QUEUE, lite_pull, poll_all
from tests.scenarios.test_lite_pull import waiting

FIRST, TIMESTAMP = ConsumeFromWhere.FIRST_OFFSET, ConsumeFromWhere.TIMESTAMP


# -- lite pull ---------------------------------------------------------------------------------------------------------


async def test_a_polling_group_starts_at_the_time_of_the_settings(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"before", queue=0)
    await world.run_for(minutes=5)
    since_ms = world.machine("shop").clock.wall_ms()
    await shop.send(b"after", queue=0)
    starts: dict[str, Any] = {
        "consume_from_where": TIMESTAMP,
        "consume_timestamp_ms": since_ms,
        "skip_young_history": True,
    }
    consumer = lite_pull(shop, "one", **starts)
    consumer.subscribe(TOPIC)
    async with consumer:
        assert await poll_all(consumer, 2) == [b"after"]


@pytest.mark.parametrize(("span", "pulled"), [(20, 8 * 30), (2_000, 800)])
async def test_how_far_a_polling_program_pulls_ahead(world: SimulatedWorld, shop: Shop, span: int, pulled: int) -> None:
    await shop.producer.send_many([Message(TOPIC, b"%d" % number) for number in range(800)])
    consumer = lite_pull(shop, "one", consume_from_where=FIRST, consume_max_span=span)
    consumer.subscribe(TOPIC)
    async with consumer:
        await world.run_for(seconds=5)
        assert await waiting(shop, GROUP) == pulled
        assert len(await poll_all(consumer, 800)) == 800


async def test_how_many_bytes_of_a_queue_wait_to_be_polled(world: SimulatedWorld, shop: Shop) -> None:
    for _ in range(40):
        await shop.send(bytes(200_000), queue=0)
    consumer = lite_pull(shop, "one", consume_from_where=FIRST, pull_threshold_size_for_queue_mib=1, pull_batch_size=1)
    await polling(consumer, world, seconds=5)
    assert await waiting(shop, GROUP) == 11
    await world.stop("one")


@pytest.mark.parametrize(("held_ms", "timeout_ms"), [(1_000, 3_000), (1_000, 60_000)])
async def test_how_long_a_pull_of_a_polling_program_waits(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine], held_ms: int, timeout_ms: int
) -> None:
    consumer = lite_pull(shop, "one", broker_suspend_max_ms=held_ms, pull_timeout_ms=timeout_ms)
    await polling(consumer, world, seconds=0)
    world.freeze("broker-a")
    await world.run_for(ms=timeout_ms - held_ms - 100)
    assert not [line for line in logged if line.event == "pull_failed"]
    await world.run_for(ms=held_ms + 200)
    assert [line for line in logged if line.event == "pull_failed"]
    world.thaw("broker-a")
    await world.stop("one")


async def test_how_long_a_broker_holds_a_pull_of_a_polling_program(world: SimulatedWorld) -> None:
    shop = await Shop(world, broker_settings={"record_requests": True}).open()
    consumer = lite_pull(shop, "one", broker_suspend_max_ms=2_000)
    await polling(consumer, world, seconds=50)
    pulls = await shop.admin.requests("LITE_PULL_MESSAGE", group=GROUP, topic=TOPIC, queue_id=3)
    assert 23 <= len(pulls) <= 26
    await world.stop("one")
    await shop.close()


@pytest.mark.parametrize(("offset_ms", "count"), [(2_000, 0), (5_000, 4)])
async def test_how_long_a_slow_broker_may_take_to_tell_an_offset_to_a_polling_program(
    world: SimulatedWorld, offset_ms: int, count: int
) -> None:
    shop = await Shop(world).open()
    consumer = lite_pull(shop, "one", offset_timeout_ms=offset_ms)
    world.set_link("one", "broker-a", LinkQuality(delay_ms=1_400))
    await polling(consumer, world, seconds=60)
    assert len([queue for queue in consumer.assignment if queue.topic == TOPIC]) == count
    await shop.close()


async def test_how_queues_are_shared_by_polling_programs(world: SimulatedWorld, shop: Shop) -> None:
    one = lite_pull(shop, "one", allocate_strategy=ByConfig([QUEUE]))
    await polling(one, world, seconds=1)
    assert one.assignment == [QUEUE]
    await world.stop("one")


async def polling(consumer: LitePullConsumer, world: SimulatedWorld, seconds: float) -> None:
    """Start a program that subscribes, and doesn't poll yet."""
    consumer.subscribe(TOPIC)
    await world.start("one", consumer)
    await world.run_for(seconds=seconds)


@pytest.mark.parametrize(("pause_ms", "left"), [(50, 20), (100_000, 13)])
async def test_how_soon_a_full_queue_is_pulled_again(
    world: SimulatedWorld, shop: Shop, pause_ms: int, left: int
) -> None:
    """After the pause, or earlier if half of its limit is free."""
    await shop.send(*[b"%d" % number for number in range(100)], queue=0)
    consumer = lite_pull(
        shop, "one", consume_from_where=FIRST, pull_batch_size=1, pull_threshold_for_queue=20,
        flow_control_pause_ms=pause_ms,
    )  # fmt: skip
    consumer.subscribe(TOPIC)
    async with consumer:
        await world.run_for(ms=500)
        for _ in range(8):
            assert len(await consumer.poll(0)) == 1
        await world.run_for(ms=200)
        assert left <= await waiting(shop, GROUP) <= left + 1


async def test_when_a_broadcasting_program_writes_its_offsets(world: SimulatedWorld, shop: Shop) -> None:
    consumer = lite_pull(
        shop, "one", consume_from_where=FIRST, message_model=MessageModel.BROADCASTING, auto_commit_interval_ms=1_000,
        persist_first_ms=4_000, persist_interval_ms=12_000, local_offset_store_dir="/offsets",
    )  # fmt: skip
    consumer.subscribe(TOPIC)
    files, path = world.machine("one").files, f"/offsets/{consumer.client.machine.identity.host_ip}@DEFAULT/{GROUP}"
    began_ms = world.uptime_ms

    def written() -> bytes:
        return files.read_bytes(f"{path}/offsets.json") if files.exists(f"{path}/offsets.json") else b""

    async with consumer:
        for number, at_ms in enumerate((4_000, 16_000)):
            await shop.send(b"%d" % number, queue=0)
            assert await poll_all(consumer, 1)
            await world.run_for(ms=1_500)
            assert await consumer.poll(0) == []
            await world.run_for(ms=at_ms - 100 - (world.uptime_ms - began_ms))
            before = written()
            await world.run_for(ms=200)
            assert written() != before


@pytest.mark.parametrize("pause_ms", [500, 40_000])
async def test_how_soon_a_refused_pull_of_a_polling_program_is_tried_again(
    world: SimulatedWorld, shop: Shop, pause_ms: int
) -> None:
    await shop.admin.create_group(SubscriptionGroupConfig(GROUP, consume_enable=False))
    await shop.send(b"1", queue=0)
    consumer = lite_pull(shop, "one", consume_from_where=FIRST, pull_error_pause_ms=pause_ms)
    consumer.subscribe(TOPIC)
    began_ms = world.uptime_ms
    async with consumer:
        await shop.admin.create_group(SubscriptionGroupConfig(GROUP))
        assert len(await consumer.poll(60_000)) == 1
        assert pause_ms <= world.uptime_ms - began_ms <= pause_ms + 400


# -- simple consumers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"hold_margin_ms": 500}], ids=["default", "shorter"])
async def test_how_long_a_receive_waits_for_a_slow_broker(world: SimulatedWorld, settings: dict[str, Any]) -> None:
    shop = await Shop(world).open(queues=1)
    async with receiver(shop, **settings) as consumer:
        assert await consumer.receive(await_ms=100) == []
        await world.run_for(seconds=5)
        await shop.send(b"1", queue=0)
        world.set_link("one", "broker-a", LinkQuality(delay_ms=1_500))
        if settings:
            with pytest.raises(AnswerTimeout):
                await consumer.receive(await_ms=1_000)
        else:
            assert len(await consumer.receive(await_ms=1_000)) == 1
    await shop.close()


@pytest.mark.parametrize("settings", [{}, {"ack_timeout_ms": 1_500}], ids=["default", "shorter"])
async def test_how_long_an_acknowledgement_waits_for_a_slow_broker(
    world: SimulatedWorld, shop: Shop, settings: dict[str, Any]
) -> None:
    await shop.send(b"1", queue=0)
    async with receiver(shop, **settings) as consumer:
        [message] = await consumer.receive(await_ms=1_000)
        world.set_link("one", "broker-a", LinkQuality(delay_ms=1_000))
        if settings:
            with pytest.raises(AnswerTimeout):
                await consumer.ack(message)
        else:
            await consumer.ack(message)


def receiver(shop: Shop, **settings: Any) -> SimpleConsumer:
    chosen = SimpleSettings(client=shop.settings, consume_from_where=FIRST, **settings)
    consumer = SimpleConsumer(GROUP, shop.namesrv, chosen, shop.world.machine("one", host="10.0.5.1"))
    consumer.subscribe(TOPIC)
    return consumer


async def test_what_a_receive_asks_for_by_itself(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"%d" % number for number in range(5)], queue=0)
    async with receiver(shop, max_messages=2, invisible_ms=12_000, await_ms=3_000) as consumer:
        assert [len(await consumer.receive()) for _ in range(3)] == [2, 2, 1]
        began_ms = world.uptime_ms
        assert await consumer.receive() == []
        assert 3_000 <= world.uptime_ms - began_ms <= 3_200
        await world.run_for(ms=11_500 - (world.uptime_ms - began_ms))
        assert await consumer.receive(await_ms=0) == []
        await world.run_for(ms=1_000)
        assert len(await consumer.receive()) == 2


# -- pull consumers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_slow", [False, True])
async def test_how_long_a_question_for_an_offset_waits(world: SimulatedWorld, shop: Shop, is_slow: bool) -> None:
    settings = PullSettings(offset_timeout_ms=5_500 if is_slow else 8_000)
    async with PullConsumer(GROUP, shop.namesrv, settings, world.machine("one", host="10.0.5.1")) as consumer:
        assert await consumer.max_offset(QUEUE) == 0
        world.set_link("one", "broker-a", LinkQuality(delay_ms=3_000))
        if is_slow:
            with pytest.raises(AnswerTimeout):
                await consumer.max_offset(QUEUE)
        else:
            assert await consumer.max_offset(QUEUE) == 0


async def test_how_often_a_message_is_sent_back_before_it_is_dead(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(b"bad", queue=0)
    retries = MessageQueue(f"%RETRY%{GROUP}", "broker-a", 0)
    settings = PullSettings(max_reconsume_times=2)
    async with PullConsumer(GROUP, shop.namesrv, settings, world.machine("one", host="10.0.5.1")) as consumer:
        [message] = (await consumer.pull(QUEUE, 0)).messages
        for number in range(2):
            await consumer.send_back(message, delay_level=1)
            await world.run_for(seconds=2)
            [message] = (await consumer.pull(retries, number)).messages
        await consumer.send_back(message, delay_level=1)
        await world.run_for(seconds=2)
    assert sum(shop.ends(f"%DLQ%{GROUP}").values()) == 1


# -- all clients -------------------------------------------------------------------------------------------------------


async def test_a_unit_is_part_of_a_clients_id_and_of_its_offsets(world: SimulatedWorld, shop: Shop) -> None:
    """Programs of two units on one machine don't share what they have consumed of a broadcast."""
    await shop.send(b"1", queue=0)
    heard = {}
    for who, unit in (("first", "blue"), ("second", "green"), ("third", "blue")):
        shop.settings = ClientSettings(instance_name="billing", unit_name=unit, client_ip="10.0.3.1")
        consumer = shop.consumer(
            "one", consume_from_where=FIRST, message_model=MessageModel.BROADCASTING, local_offset_store_dir="/offsets"
        )
        assert consumer.client.client_id == f"10.0.3.1@billing@{unit}"
        shop.heard.clear()
        async with consumer:
            await world.run_for(seconds=1)
        heard[who] = shop.bodies
    assert heard == {"first": [b"1"], "second": [b"1"], "third": []}


@pytest.mark.parametrize(
    ("key", "is_open", "wanted", "queues"),
    [
        ("TBW102", False, 16, 8),
        ("TBW102", False, 3, 3),
        ("DefaultCluster", True, 16, 16),
        ("DefaultCluster", False, 16, None),
        ("broker-a", True, 16, 1),
        ("broker-a", False, 16, None),
    ],
)
async def test_a_new_topic_is_made_like_the_one_that_a_producer_names(
    world: SimulatedWorld, key: str, is_open: bool, wanted: int, queues: int | None
) -> None:
    """A broker allows or forbids that for the topic of its own name, and for that of its cluster."""
    switch = "cluster_topic_enable" if key == "DefaultCluster" else "broker_topic_enable"
    shop = await Shop(world, broker_settings={switch: is_open}).open()
    settings = ProducerSettings(create_topic_key=key, default_topic_queue_nums=wanted)
    async with Producer("other", shop.namesrv, settings, world.machine("other", host="10.0.2.9")) as producer:
        if queues is None:
            with pytest.raises(StaticfireError, match="bills"):
                await producer.send(Message("bills", b"1"))
        else:
            await producer.send(Message("bills", b"1"))
    assert len(shop.ends("bills")) == (queues or 0)
    await shop.close()
