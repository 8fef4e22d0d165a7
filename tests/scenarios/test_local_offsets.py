"""Topics that are deleted and created again, and resets; also of broadcasting members, whose offsets are in a file."""

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import ConsumeFromWhere, MessageModel
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import BOTH_PROTOCOLS
from tests.scenarios.consuming import GROUP, NAMESRV, Shop
from tests.scenarios.polling import lite_pull, poll_all

BROADCASTING, FIRST = MessageModel.BROADCASTING, ConsumeFromWhere.FIRST_OFFSET
NUMBERS = [b"%d" % number for number in range(6)]


@BOTH_PROTOCOLS
@pytest.mark.row("R6")
@pytest.mark.parametrize("model", list(MessageModel))
@pytest.mark.parametrize("away_s", [0, 20])
@pytest.mark.parametrize("where", [FIRST, ConsumeFromWhere.LAST_OFFSET])
async def test_a_topic_that_is_created_again_is_consumed_from_its_new_beginning(
    world: SimulatedWorld, shop: Shop, where: ConsumeFromWhere, away_s: int, model: MessageModel
) -> None:
    """The new queue is shorter than the old offset, and later longer: the old offset is valid in it again."""
    await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
    await shop.start("one", topic="bills", message_model=model, consume_from_where=where)
    await shop.send(*NUMBERS, topic="bills", queue=0)
    await shop.until_heard(6)
    await world.run_for(seconds=12)
    for count in (2, 9):
        await shop.admin.delete_topic("bills")
        await world.run_for(seconds=away_s)
        await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
        shop.heard.clear()
        bodies = [b"%d/%d" % (count, number) for number in range(count)]
        await shop.send(*bodies, topic="bills", queue=0)
        await world.run_for(seconds=60)
        assert shop.bodies == bodies


@BOTH_PROTOCOLS
@pytest.mark.row("R6")
async def test_another_broker_at_the_address_says_nothing_about_the_topic(world: SimulatedWorld, shop: Shop) -> None:
    await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
    await shop.start("one", topic="bills", message_model=BROADCASTING, consume_from_where=FIRST)
    await shop.send(*NUMBERS, topic="bills", queue=0)
    await shop.until_heard(6)
    await world.run_for(seconds=12)
    await world.stop("broker-a")
    stranger = Broker(
        world.machine("stranger", host="10.0.1.1"), BrokerSettings(broker_name="stranger", store_path_root_dir="/store")
    )
    await world.start("stranger", stranger)
    await world.run_for(seconds=5)
    await world.stop("stranger")
    await shop.start_broker("broker-a")
    await world.run_for(seconds=60)
    await shop.send(b"next", topic="bills", queue=0)
    await world.run_for(seconds=10)
    assert shop.bodies == [*NUMBERS, b"next"]


@BOTH_PROTOCOLS
@pytest.mark.row("R6")
async def test_a_member_that_reads_at_a_slave_consumes_a_topic_that_is_created_again(
    world: SimulatedWorld, shop: Shop
) -> None:
    await world.stop("broker-a")
    shop.broker_settings = {"slave_read_enable": True}
    await shop.start_broker("broker-a")
    own = BrokerSettings(
        broker_name="broker-a", broker_role="SLAVE", broker_id=1, namesrv_addr=NAMESRV, store_path_root_dir="/store",
        slave_read_enable=True, slave_sync_period=1000,
    )  # fmt: skip
    await world.start("slave", Broker(world.machine("slave", host="10.0.1.9"), own))
    await world.run_for(seconds=3)
    for number in (1, 2):  # The group is to read at slaves.
        change = UpdateGroup(body=SubscriptionGroupConfig(GROUP, broker_id=1))
        assert (await shop.admin.client.pool.ask(f"10.0.1.{number}:10911", change)).code == 0
    await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
    await world.run_for(seconds=40)
    await shop.start("one", topic="bills", message_model=BROADCASTING, consume_from_where=FIRST)
    await shop.send(*NUMBERS, topic="bills", queue=0)
    await shop.until_heard(6)
    await world.run_for(seconds=12)
    await shop.admin.delete_topic("bills")
    await world.run_for(seconds=1)
    await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
    shop.heard.clear()
    bodies = [b"n%d" % number for number in range(9)]
    await shop.send(*bodies, topic="bills", queue=0)
    await world.run_for(seconds=90)
    assert shop.bodies == bodies


@pytest.mark.row("R6")
async def test_a_polling_member_begins_again_with_a_topic_that_is_created_again(
    world: SimulatedWorld, shop: Shop
) -> None:
    await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
    consumer = lite_pull(shop, "one", message_model=BROADCASTING, consume_from_where=FIRST)
    consumer.subscribe("bills")
    async with consumer:
        await shop.send(*NUMBERS, topic="bills", queue=0)
        assert await poll_all(consumer, 6) == NUMBERS
        await consumer.poll(6_000)
        await shop.admin.delete_topic("bills")
        await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
        await shop.send(b"new0", b"new1", topic="bills", queue=0)
        assert await poll_all(consumer, 2, timeout_ms=60_000) == [b"new0", b"new1"]


@BOTH_PROTOCOLS
@pytest.mark.row("C11")
@pytest.mark.parametrize("model", list(MessageModel))
@pytest.mark.parametrize("is_auto", [True, False])
async def test_a_polling_member_continues_where_its_group_was_reset_to(
    world: SimulatedWorld, shop: Shop, model: MessageModel, is_auto: bool
) -> None:
    await shop.admin.create_topic("bills", queues=1, broker_name="broker-a")
    consumer = lite_pull(shop, "one", message_model=model, consume_from_where=FIRST, auto_commit=is_auto)
    consumer.subscribe("bills")
    await shop.admin.create_group(SubscriptionGroupConfig(group_name=GROUP))
    async with consumer:
        await shop.send(*NUMBERS, topic="bills", queue=0)
        assert await poll_all(consumer, 6) == NUMBERS
        await consumer.commit()
        address = (await shop.admin.masters())["broker-a"]
        reset = ResetOffset(GROUP, "bills", -1, queue_id=0, offset=2)
        assert (await shop.producer.client.pool.ask(address, reset)).code == 0
        assert await poll_all(consumer, 4) == NUMBERS[2:]
        await consumer.commit()
    async with lite_pull(shop, "one", message_model=model, consume_from_where=FIRST) as again:
        again.subscribe("bills")
        assert await again.poll(3_000) == []
