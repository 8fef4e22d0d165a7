"""A topic copied from one cluster to another: as it is, in order, once, with where its groups stand."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
import pytest_asyncio

from staticfire.broker.tables import BrokerTables
from staticfire.client import Admin, ClientSettings, ConsumeFromWhere, Message, MessageQueue, Producer
from staticfire.client.admin.faults import FaultAdmin
from staticfire.client.copying.copier import CopyReport, CopyWish, copy_topic
from staticfire.client.copying.plan import Bounds, pair_queues
from staticfire.client.copying.queue_copy import read_records
from staticfire.client.pull.pull_consumer import PullConsumer
from staticfire.faults.parsing import parse_fault
from staticfire.protocol.errors import GroupNotFound, NetworkError, NoPermission, TopicNotFound, UsageError
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.protocol.record import StoredRecord
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import PROTOCOLS
from tests.scenarios.consuming import GROUP, TOPIC, Shop

pytestmark = pytest.mark.row("S8")

SOURCE = "10.1.0.1:9876"
WHOLE = CopyWish(TOPIC)


class Production(Shop):
    """A cluster elsewhere."""

    async def start_broker(self, name: str = "broker-a", host: str | None = None) -> None:
        await super().start_broker(f"prod-{name}", None if host is None else host.replace("10.0.", "10.1."))

    async def start_nameserver(self, name: str, host: str | None = None) -> object:  # type: ignore[override]
        return await super().start_nameserver(f"prod-{name}", host)


@pytest_asyncio.fixture
async def production(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Production]:
    shop = Production(world, namesrv=SOURCE)
    await shop.start_servers(getattr(request, "param", 1))
    producer = Producer("shop", SOURCE, machine=world.machine("till", host="10.1.2.1"))
    shop.producer = await world.start("till", producer)
    shop.admin = Admin(client=producer.client)
    await shop.admin.create_topic(TOPIC, queues=2)
    yield shop


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world)
    await shop.start_servers(1)
    machine = world.machine("shop", host="10.0.2.1")
    shop.producer = await world.start("shop", Producer("shop", shop.namesrv, machine=machine))
    shop.admin = Admin(client=shop.producer.client)
    yield shop


async def fill(production: Production, messages: int = 40) -> None:
    for number in range(messages):
        message = Message(TOPIC, b"%d" % number * (2_000 if number == 7 else 1), tags="paid", keys=f"k{number}")
        message.properties["colour"] = "red"
        await production.producer.send(message)


async def bring(production: Production, shop: Shop, wish: CopyWish = WHOLE, protocol: str = "rocketmq") -> CopyReport:
    settings = ClientSettings(protocol=protocol)  # type: ignore[arg-type]
    source = Admin(SOURCE, settings, machine=production.world.machine(f"copier-{next(NUMBERS)}", "10.0.9.1"))
    async with source:
        return await copy_topic(source, shop.admin, wish)


NUMBERS: Iterator[int] = count()


async def stored(cluster: Shop, queue: MessageQueue) -> list[StoredRecord]:
    found: list[StoredRecord] = []
    async with PullConsumer(TOOLS_GROUP, client=cluster.producer.client) as reader:
        async for records in read_records(reader, queue, Bounds(0, await cluster.admin.max_offset(queue))):
            found += records
    return found


def as_it_is(records: list[StoredRecord]) -> list[tuple[object, ...]]:
    return [(one.properties, one.body, one.born_ms, one.born_host, one.sys_flag, one.flag) for one in records]


def known(tables: BrokerTables) -> tuple[object, ...]:
    """Return the offsets, groups and topics of a broker."""
    return tables.groups.offsets.all_committed(), sorted(tables.groups.configs.groups), sorted(tables.topics.topics)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_messages_come_as_they_are_and_only_once(
    world: SimulatedWorld, production: Production, shop: Shop, protocol: str
) -> None:
    await fill(production)
    before = production.brokers["prod-broker-a"].tables
    untouched = known(before)
    await world.run_for(minutes=2)
    report = await bring(production, shop, protocol=protocol)
    assert (report.copied, report.there_already, report.total) == (40, 0, 40)
    for queue_id in range(2):
        there = await stored(production, MessageQueue(TOPIC, "prod-broker-a", queue_id))
        here = await stored(shop, MessageQueue(TOPIC, "broker-a", queue_id))
        assert as_it_is(here) == as_it_is(there)
        assert here[0].stored_ms - there[0].stored_ms >= 120_000
    again = await bring(production, shop, protocol=protocol)
    assert (again.copied, again.there_already) == (0, 40)
    await fill(production, 6)
    assert (await bring(production, shop, protocol=protocol)).copied == 6
    assert known(before) == untouched


async def test_a_copy_that_is_interrupted_continues(world: SimulatedWorld, production: Production, shop: Shop) -> None:
    await fill(production, 150)

    def break_off(report: CopyReport) -> None:
        if report.copied >= 64:
            world.kill("broker-a")

    async with Admin(SOURCE, machine=world.machine("first", "10.0.9.2")) as source:
        with pytest.raises(NetworkError):
            await copy_topic(source, shop.admin, CopyWish(TOPIC), break_off)
    await shop.start_broker("broker-a", "10.0.1.1")
    report = await bring(production, shop)
    assert report.there_already >= 64
    assert report.copied + report.there_already == 150
    for queue_id in range(2):
        there = await stored(production, MessageQueue(TOPIC, "prod-broker-a", queue_id))
        assert as_it_is(await stored(shop, MessageQueue(TOPIC, "broker-a", queue_id))) == as_it_is(there)


async def test_a_group_continues_before_the_same_message(
    world: SimulatedWorld, production: Production, shop: Shop
) -> None:
    await fill(production, 40)
    await production.admin.create_group(GROUP)
    for queue_id, offset in ((0, 5), (1, 20)):
        await production.admin.offsets.commit(GROUP, MessageQueue(TOPIC, "prod-broker-a", queue_id), offset)
    report = await bring(production, shop, CopyWish(TOPIC, [GROUP], limit=18))
    assert report.copied == 36
    assert sorted(report.offsets[GROUP].values()) == [3, 18]  # Offset 5 of 20 is the fourth of the last 18.
    await shop.start("one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    await shop.until_heard(15)
    await world.run_for(seconds=30)
    wanted = (await stored(production, MessageQueue(TOPIC, "prod-broker-a", 0)))[5:]
    assert sorted(shop.bodies) == sorted(record.body for record in wanted)


async def test_a_copy_is_of_a_time_if_that_is_wished(world: SimulatedWorld, production: Production, shop: Shop) -> None:
    clock = production.brokers["prod-broker-a"].state.clock
    await fill(production, 10)
    await world.run_for(minutes=5)
    since_ms = clock.message_ms()
    await world.run_for(minutes=5)
    await fill(production, 4)
    await world.run_for(minutes=5)
    until_ms = clock.message_ms()
    await fill(production, 6)
    assert (await bring(production, shop, CopyWish(TOPIC, since_ms=since_ms, until_ms=until_ms))).copied == 4
    assert (await bring(production, shop, CopyWish(TOPIC, since_ms=since_ms))).copied == 6


@pytest.mark.parametrize("production", [3], indirect=True)
async def test_more_brokers_than_the_stand_has_share_one(production: Production, shop: Shop) -> None:
    await fill(production, 30)
    report = await bring(production, shop)
    assert (report.copied, report.moved_queues) == (30, True)
    assert sorted(pair.target.queue_id for pair in report.queues) == list(range(6))
    assert sum(shop.ends().values()) == 30


@pytest.mark.parametrize("messages", [10, 200])
async def test_a_copy_that_would_append_older_messages_is_refused(
    production: Production, shop: Shop, messages: int
) -> None:
    await production.admin.create_topic("bills", queues=1)
    for number in range(messages):
        await production.producer.send(Message("bills", b"%d" % number))
    assert (await bring(production, shop, CopyWish("bills", limit=4))).copied == 4
    await production.producer.send(Message("bills", b"new"))
    with pytest.raises(
        UsageError, match=rf"the message at offset {messages - 4} .*at offset 0, .*deleteTopic .*--since"
    ):
        await bring(production, shop, CopyWish("bills"))
    assert (await bring(production, shop, CopyWish("bills", limit=3))).copied == 1
    here = await stored(shop, MessageQueue("bills", "broker-a", 0))
    assert [record.body for record in here] == [*(b"%d" % number for number in range(messages - 4, messages)), b"new"]


async def test_a_time_before_the_copied_one_is_refused(
    world: SimulatedWorld, production: Production, shop: Shop
) -> None:
    await fill(production, 4)
    await world.run_for(minutes=5)
    since_ms = production.brokers["prod-broker-a"].state.clock.message_ms()
    await fill(production, 4)
    await bring(production, shop, CopyWish(TOPIC, since_ms=since_ms))
    with pytest.raises(UsageError, match="could only be appended after it"):
        await bring(production, shop, CopyWish(TOPIC, until_ms=since_ms))
    assert sum(shop.ends().values()) == 4


async def test_messages_of_the_target_itself_stay_where_they_are(production: Production, shop: Shop) -> None:
    """They are in no order with those of the source."""
    await fill(production, 6)
    await shop.admin.create_topic(TOPIC, queues=2)
    await fill(shop, 4)  # type: ignore[arg-type]  # It fills any shop.
    assert (await bring(production, shop)).copied == 6
    await fill(production, 2)
    assert (await bring(production, shop)).copied == 2


async def test_offsets_of_a_group_with_members_are_refused(
    world: SimulatedWorld, production: Production, shop: Shop
) -> None:
    await fill(production, 10)
    await production.admin.create_group(GROUP)
    await production.admin.offsets.commit(GROUP, MessageQueue(TOPIC, "prod-broker-a", 0), 4)
    await shop.admin.create_topic(TOPIC, queues=2)
    await shop.start("one", consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
    with pytest.raises(
        UsageError, match=r"billing has members at 10\.0\.0\.1:9876, such as 10.*stop them first, or copy"
    ):
        await bring(production, shop, CopyWish(TOPIC, [GROUP]))
    assert shop.bodies == []
    assert (await bring(production, shop)).copied == 10
    world.kill("one")
    await world.run_for(seconds=5)
    report = await bring(production, shop, CopyWish(TOPIC, [GROUP]))
    assert report.offsets[GROUP][MessageQueue(TOPIC, "broker-a", 0)] == 4


async def test_a_source_that_refuses_to_list_its_groups_is_quoted(production: Production, shop: Shop) -> None:
    await fill(production, 1)
    await production.admin.create_group(GROUP)
    rules = FaultAdmin(production.admin.client.pool, SOURCE)
    await rules.add(parse_fault({"code": "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", "answer": "NO_PERMISSION"}))
    with pytest.raises(NoPermission, match="groups of the source at 10"):
        await bring(production, shop, CopyWish(TOPIC, [GROUP]))


def test_queues_keep_their_ids_where_brokers_can_be_paired() -> None:
    pairs = pair_queues(TOPIC, {"a": 2, "b": 1}, ["x", "y"])
    assert [(one.broker_name, one.queue_id, other.broker_name, other.queue_id) for one, other in pairs] == [
        ("a", 0, "x", 0),
        ("a", 1, "x", 1),
        ("b", 0, "y", 0),
    ]
    assert {pair.target.broker_name for pair in pair_queues(TOPIC, {"b": 2}, ["a", "b"])} == {"b"}


async def test_what_cant_be_copied_is_refused_in_words(production: Production, shop: Shop) -> None:
    await fill(production, 2)
    with pytest.raises(TopicNotFound):
        await bring(production, shop, CopyWish("nope"))
    with pytest.raises(GroupNotFound, match="no group nope at 10"):
        await bring(production, shop, CopyWish(TOPIC, ["nope"]))
    with pytest.raises(UsageError, match="at least 1"):
        await bring(production, shop, CopyWish(TOPIC, limit=0))
    with pytest.raises(UsageError, match="must be before --until"):
        await bring(production, shop, CopyWish(TOPIC, since_ms=5, until_ms=5))
    with pytest.raises(UsageError, match="internal topic of the cluster"):
        await bring(production, shop, CopyWish("SCHEDULE_TOPIC_XXXX"))
    with pytest.raises(UsageError, match="choose two different clusters"):
        await copy_topic(shop.admin, shop.admin, CopyWish(TOPIC))
    await shop.admin.create_topic(TOPIC, queues=1)
    with pytest.raises(UsageError, match="already exists on broker-a with 1 queues, but needs 2"):
        await bring(production, shop)


async def test_a_new_topic_gets_the_message_type_and_the_order_flag(production: Production, shop: Shop) -> None:
    attributes = {"message.type": "FIFO"}
    await production.admin.create_topic("steps", queues=2, order=True, attributes=attributes)
    await production.producer.send(Message("steps", b"x", sharding_key="1"))
    await bring(production, shop, CopyWish("steps"))
    config = await shop.admin.topic_config("steps", "broker-a")
    assert (config.attributes, config.order) == (attributes, True)


async def test_a_topic_that_exists_already_keeps_its_message_type(production: Production, shop: Shop) -> None:
    await production.admin.create_topic("steps", queues=2, attributes={"message.type": "FIFO"})
    await shop.admin.create_topic("steps", queues=2, attributes={"message.type": "DELAY"})
    await bring(production, shop, CopyWish("steps"))
    assert (await shop.admin.topic_config("steps", "broker-a")).attributes == {"message.type": "DELAY"}


async def test_a_source_that_does_not_return_its_topics_configuration_is_copied_anyway(
    production: Production, shop: Shop
) -> None:
    await fill(production, 3)
    rules = FaultAdmin(production.admin.client.pool, SOURCE)
    await rules.add(parse_fault({"code": "GET_TOPIC_CONFIG", "answer": "REQUEST_CODE_NOT_SUPPORTED"}))
    assert (await bring(production, shop)).copied == 3
