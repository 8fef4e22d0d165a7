"""What a fault rule still delays when it is removed: it arrives at once, and delays nothing that is sent later."""

import asyncio

import pytest
import pytest_asyncio

from staticfire.control.reset import reset
from staticfire.control.whole_cluster import KnownBrokers
from staticfire.protocol.command import Request
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.groups import SubscriptionGroupConfig, UpdateGroup
from staticfire.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from staticfire.protocol.requests.send import SendMessageV2
from staticfire.protocol.requests.topics import TopicConfig, TopicConfigList, UpdateTopic, UpdateTopics
from staticfire.runtime.connection import Connection
from tests.scenarios.consuming import NAMESRV, TOPIC
from tests.scenarios.faulty_shop import BROKER, FaultyShop, one_queue_shop

__all__ = ["one_queue_shop"]

pytestmark = pytest.mark.row("S2")


@pytest_asyncio.fixture
async def connection(shop: FaultyShop) -> Connection:
    return await shop.producer.client.pool.connection(BROKER)


@pytest.mark.parametrize("direction", ["request", "answer"])
@pytest.mark.parametrize("end", ["remove", "clear", "lifetime"])
async def test_what_a_rule_delays_arrives_when_the_rule_ends(
    shop: FaultyShop, connection: Connection, direction: str, end: str
) -> None:
    rule = await shop.add(
        code="GET_MAX_OFFSET", delay="20s", direction=direction, lifetime="1s" if end == "lifetime" else None
    )
    delayed = connection.ask(GetMaxOffset(TOPIC, 0), 30_000)
    await shop.world.run_for(ms=500)
    assert not delayed.done()
    if end == "lifetime":
        await shop.world.run_for(ms=500)
    else:
        await shop.faults.remove(rule.number if end == "remove" else 0)
    with shop.takes(0):
        await delayed


@pytest.mark.parametrize("direction", ["request", "answer"])
async def test_a_later_rule_delays_as_long_as_it_says(shop: FaultyShop, connection: Connection, direction: str) -> None:
    await shop.add(code="GET_MAX_OFFSET", delay="20s", direction=direction)
    connection.ask(GetMaxOffset(TOPIC, 0), 30_000)
    await shop.world.run_for(ms=100)
    await shop.faults.remove(0)
    await shop.add(code="GET_MAX_OFFSET", delay="100ms", direction=direction)
    with shop.takes(100):
        await connection.ask(GetMaxOffset(TOPIC, 0), 30_000)


async def test_the_delays_of_other_rules_remain(shop: FaultyShop, connection: Connection) -> None:
    both = await shop.add(delay="1s", code="GET_MAX_OFFSET,GET_MIN_OFFSET")
    await shop.add(delay="2s", code="GET_MIN_OFFSET")
    answers = [connection.ask(request, 30_000) for request in (GetMinOffset(TOPIC, 0), GetMaxOffset(TOPIC, 0))]
    await shop.faults.remove(both.number)
    # The second one keeps its place behind the first one.
    with shop.takes(2_000):
        await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED)
        assert answers[0].done()
        await answers[1]


async def test_slow_data_is_written_when_the_limit_of_its_bandwidth_is_removed(
    shop: FaultyShop, connection: Connection
) -> None:
    slow = await shop.add(code="GET_MAX_OFFSET", bandwidth=10)
    answers = [connection.ask(request, 30_000) for request in (GetMaxOffset(TOPIC, 0), GetMinOffset(TOPIC, 0))]
    await shop.world.run_for(ms=200)
    assert not any(answer.done() for answer in answers)
    await shop.faults.remove(slow.number)
    with shop.takes(0):
        await asyncio.gather(*answers)
        await connection.ask(GetMinOffset(TOPIC, 0), 30_000)


async def test_slow_data_keeps_the_limit_of_another_rule(shop: FaultyShop, connection: Connection) -> None:
    slow = await shop.add(code="GET_MAX_OFFSET", bandwidth=1)
    await shop.add(code="GET_MAX_OFFSET", bandwidth=1_000)
    answer = connection.ask(GetMaxOffset(TOPIC, 0), 600_000)
    await shop.world.run_for(ms=200)
    await shop.faults.remove(slow.number)
    began_ms = shop.world.uptime_ms
    await answer
    assert 0 < shop.world.uptime_ms - began_ms < 500


@pytest.mark.parametrize("stays", [False, True])
async def test_no_delayed_send_is_stored_after_a_reset(shop: FaultyShop, connection: Connection, stays: bool) -> None:
    await shop.add(code="SEND_MESSAGE", delay="1s", stays=stays)
    properties = "UNIQ_KEY\x017F0000010539736EDB5F1234ABCD0007\x02WAIT\x01true\x02"
    connection.ask(
        SendMessageV2("tills", TOPIC, "TBW102", 4, 0, 0, 1, 0, properties, body=b"of the first test"), 30_000
    )
    await shop.world.run_for(ms=100)
    await reset(shop.admin.client.pool, NAMESRV, KnownBrokers())
    await shop.send(b"of the second test")
    await shop.world.run_for(ms=10_000)
    assert sum(end for (_, _), end in shop.ends().items()) == 1


async def test_no_delayed_send_creates_its_topic_after_a_reset(shop: FaultyShop, connection: Connection) -> None:
    await shop.add(code="SEND_MESSAGE", delay="1s", stays=True)
    sent = [connection.ask(SendMessageV2("tills", "trial", "TBW102", 4, 0, 0, 1, 0, "", body=b"x"), 30_000)] * 3
    await shop.world.run_for(ms=100)
    await reset(shop.admin.client.pool, NAMESRV, KnownBrokers())
    await shop.world.run_for(ms=10_000)
    assert (await sent[0]).code == 0
    broker = shop.brokers["broker-a"]
    assert broker.tables.topics.get("trial") is None
    assert broker.state.store.queue_ids("trial") == []


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("UPDATE_AND_CREATE_TOPIC", UpdateTopic("trial", 1, 1, 6)),
        ("UPDATE_AND_CREATE_TOPIC_LIST", UpdateTopics(body=TopicConfigList([TopicConfig("trial", 1, 1, 6)]))),
        ("UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", UpdateGroup(body=SubscriptionGroupConfig("trial"))),
        ("UPDATE_BROKER_CONFIG", UpdateBrokerConfig(body=b"brokerPermission=4")),
    ],
)
async def test_no_delayed_change_remains_after_a_reset(
    shop: FaultyShop, connection: Connection, code: str, change: Request
) -> None:
    await shop.add(code=code, delay="1s", stays=True)
    answer = connection.ask(change, 30_000)
    await shop.world.run_for(ms=100)
    await reset(shop.admin.client.pool, NAMESRV, KnownBrokers())
    await shop.world.run_for(ms=10_000)
    assert (await answer).code == 0
    broker = shop.brokers["broker-a"]
    assert broker.tables.topics.get("trial") is None
    assert broker.tables.groups.configs.get("trial") is None
    assert broker.state.settings.broker_permission == 6
