"""Two nameservers: either may go, hang, start anew or know less than the other, and producers and consumers go on."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import (
    Admin,
    BrokerAnswer,
    ClientSettings,
    Message,
    NetworkError,
    Producer,
    ProducerSettings,
    TopicNotFound,
)
from staticfire.client.admin.creating_topics import TopicWish, change_topic, create_topic
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.routes import GetKVConfig, GetRoute, KVAnswer
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import TOPIC, Shop
from tests.scenarios.logged import LogLine

pytestmark = pytest.mark.row("H1")

FIRST, SECOND = "10.0.0.1:9876", "10.0.0.2:9876"
BOTH = f"{FIRST};{SECOND}"
NAMES = {FIRST: "namesrv", SECOND: "namesrv-2"}


class EndsAtOnce(asyncio.Protocol):
    """Accepts a connection and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


GOING = pytest.mark.parametrize("how", ["kill", "freeze"])
EITHER = pytest.mark.parametrize("address", [FIRST, SECOND])


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    shop = Shop(world, getattr(request, "param", ClientSettings()), namesrv=BOTH)
    yield await shop.open(brokers=2)
    await shop.close()


def take_away(world: SimulatedWorld, how: str, address: str) -> None:
    """Kill or freeze a nameserver."""
    (world.kill if how == "kill" else world.freeze)(NAMES[address])


async def brokers_at(shop: Shop, address: str, topic: str = TOPIC) -> list[str]:
    """Return which brokers of a topic a nameserver knows."""
    body = (await shop.producer.client.pool.ask(address, GetRoute(topic=topic))).body
    return [] if body is None else sorted(broker.broker_name for broker in body.broker_datas)


async def test_brokers_register_at_all_of_them(shop: Shop) -> None:
    for address in NAMES:
        assert await brokers_at(shop, address) == ["broker-a", "broker-b"]


@pytest.mark.parametrize(
    ("shop", "address", "how"),
    [
        *((ClientSettings(), address, how) for address in (FIRST, SECOND) for how in ("kill", "freeze")),
        (ClientSettings(protocol="rocketmq"), SECOND, "freeze"),
    ],
    indirect=["shop"],
    ids=["kill-first", "freeze-first", "kill-second", "freeze-second", "rocketmq"],
)
async def test_one_goes_while_everybody_works_and_nothing_stops(
    world: SimulatedWorld, shop: Shop, address: str, how: str
) -> None:
    """No send takes longer, and a new topic, a new group and a new consumer come to be as ever."""
    await shop.start("one")
    slowest_ms = 0
    for number in range(60):
        if number == 20:
            take_away(world, how, address)
        began_ms = world.uptime_ms
        await shop.send(b"%d" % number)
        slowest_ms = max(slowest_ms, world.uptime_ms - began_ms)
        await world.run_for(seconds=1)
    assert slowest_ms < 50
    await shop.until_heard(60)
    assert set(shop.bodies) == {b"%d" % number for number in range(60)}

    began_ms = world.uptime_ms
    await shop.send(b"new", topic="bills")
    assert world.uptime_ms - began_ms < 2_900
    await shop.start("newcomer", topic="bills", group="reporting")
    await shop.send(b"newer", topic="bills")
    await shop.until_heard(62)


@EITHER
@GOING
async def test_a_broker_starts_while_one_is_away_and_is_there_when_it_is_back(
    world: SimulatedWorld, shop: Shop, address: str, how: str
) -> None:
    other = SECOND if address == FIRST else FIRST
    take_away(world, how, address)
    began_ms = world.uptime_ms
    await shop.start_broker("broker-c", "10.0.1.3")
    assert world.uptime_ms - began_ms < 3_000
    assert await brokers_at(shop, other, "TBW102") == ["broker-a", "broker-b", "broker-c"]
    if how == "kill":
        await shop.start_nameserver(NAMES[address])
    else:
        world.thaw(NAMES[address])
    await world.run_for(seconds=30)
    assert await brokers_at(shop, address, "TBW102") == ["broker-a", "broker-b", "broker-c"]


async def test_a_client_continues_with_the_next_one_and_comes_back_when_that_fails(
    world: SimulatedWorld, shop: Shop
) -> None:
    chosen = []
    for number in range(3):
        nameservers = shop.producer.client.nameservers
        gone = nameservers.chosen
        world.kill(NAMES[gone])
        await shop.producer.client.routes.fetch(TOPIC)
        chosen.append(nameservers.chosen)
        assert nameservers.chosen != gone
        await shop.start_nameserver(NAMES[gone])
        await world.run_for(seconds=3)
        await shop.send(b"%d" % number)
        assert nameservers.chosen == chosen[-1]  # The other one is back, and there is no reason to leave this one.
    assert sorted(set(chosen)) == sorted(NAMES)


async def test_one_that_hangs_costs_a_second(world: SimulatedWorld, shop: Shop) -> None:
    world.freeze(NAMES[shop.producer.client.nameservers.chosen])
    for took_ms in (1_000, 0):
        began_ms = world.uptime_ms
        await shop.producer.client.routes.fetch(TOPIC)
        assert took_ms <= world.uptime_ms - began_ms < took_ms + 50


async def test_one_that_knows_less_hides_no_topic(world: SimulatedWorld, shop: Shop) -> None:
    for name in shop.brokers:
        world.partition(name, NAMES[SECOND])
    await world.run_for(minutes=3)
    assert await brokers_at(shop, SECOND) == []
    assert await brokers_at(shop, FIRST) == ["broker-a", "broker-b"]
    for number in range(6):  # Each begins with one of the two by chance.
        settings = ProducerSettings(client=shop.settings)
        async with Producer("shop", BOTH, settings, world.machine(f"client-{number}")) as producer:
            assert (await producer.send(Message(TOPIC, b"%d" % number))).queue_offset >= 0
            with pytest.raises(TopicNotFound):
                await producer.client.routes.fetch("nowhere")
        async with Admin(BOTH, shop.settings, world.machine(f"client-{number}")) as admin:
            assert sorted(await admin.masters()) == ["broker-a", "broker-b"]
    for who in ("one", "two"):
        await shop.start(who)
    await shop.send(b"last")
    await shop.until_heard(7)
    assert set(shop.bodies) == {*(b"%d" % number for number in range(6)), b"last"}


async def test_one_that_is_not_ready_yet_stops_no_other(world: SimulatedWorld, shop: Shop) -> None:
    """needWaitForService: for 45 s after its start it refuses routes."""
    world.kill(NAMES[SECOND])
    settings = NameserverSettings(need_wait_for_service=True)
    await world.start(NAMES[SECOND], Nameserver(world.machine(NAMES[SECOND]), settings))
    await world.run_for(seconds=3)
    with pytest.raises(BrokerAnswer, match="name server not ready"):
        async with Producer("shop", SECOND, machine=world.machine("impatient")) as producer:
            await producer.send(Message(TOPIC, b"refused"))
    for number in range(6):
        async with Producer("shop", BOTH, machine=world.machine(f"client-{number}")) as producer:
            await producer.send(Message(TOPIC, b"%d" % number))


async def test_an_unknown_topic_is_reported_at_once_while_a_nameserver_hangs(world: SimulatedWorld, shop: Shop) -> None:
    world.freeze(NAMES[SECOND])
    async with Admin(BOTH, shop.settings, world.machine("desk")) as admin:
        for number in range(5):
            began_ms = world.uptime_ms
            with pytest.raises(TopicNotFound):
                await admin.client.routes.fetch("nowhere")
            assert world.uptime_ms - began_ms < (1_100 if number == 0 else 50)


async def test_both_gone_stop_no_send_and_no_consumer(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("one")
    await shop.send(b"before")
    world.kill(NAMES[FIRST])
    world.freeze(NAMES[SECOND])
    for number in range(50):
        await shop.send(b"%d" % number)
        await world.run_for(seconds=2)
    await shop.until_heard(51)


@EITHER
async def test_what_an_administrator_changes_reaches_the_other_one(
    world: SimulatedWorld, shop: Shop, address: str
) -> None:
    [other] = set(NAMES) - {address}
    take_away(world, "kill", address)
    with pytest.raises(NetworkError, match=address):
        await shop.admin.put_kv("SPACE", "key", "value")
    kept = await shop.producer.client.pool.ask(other, GetKVConfig(namespace="SPACE", key="key"))
    assert isinstance(kept, KVAnswer)
    assert kept.value == "value"
    with pytest.raises(NetworkError, match=address):
        await shop.admin.delete_topic(TOPIC)
    assert await brokers_at(shop, other) == []


@EITHER
async def test_a_topic_is_created_and_changed_while_one_is_away(
    world: SimulatedWorld, shop: Shop, address: str
) -> None:
    await create_topic(shop.admin, "ordered", TopicWish(order=True))
    take_away(world, "kill", address)
    created = await create_topic(shop.admin, "bills", TopicWish(queues=2))
    assert (created["created"], created["queues"]) == (True, 2)
    with pytest.raises(NetworkError, match=address):
        await change_topic(shop.admin, "ordered", TopicWish(order=False))
    for broker in ("broker-a", "broker-b"):
        assert not (await shop.admin.topic_config("ordered", broker)).order


async def test_one_that_accepts_connections_and_ends_them_is_tried_once_a_second(
    world: SimulatedWorld, shop: Shop, logged: list[LogLine]
) -> None:
    """As the published port of a container whose nameserver doesn't run yet."""
    world.kill(NAMES[SECOND])
    await world.machine(NAMES[SECOND], host="10.0.0.2").network.listen(EndsAtOnce, "10.0.0.2", 9876)
    await world.run_for(seconds=10)
    logged.clear()
    await world.run_for(seconds=10)
    failures = [line for line in logged if line.event == "registration_failed"]
    assert 2 * 8 <= len(failures) <= 2 * 11, len(failures)

    world.kill(NAMES[SECOND])
    await shop.start_nameserver(NAMES[SECOND])
    await world.run_for(seconds=3)
    assert await brokers_at(shop, SECOND) == ["broker-a", "broker-b"]


@pytest.mark.parametrize("address", ["nameserver..local:9876", f"{'n' * 64}.local:9876", "10.0.0.1:9876;.local:9876"])
async def test_an_address_that_no_name_lookup_takes_prevents_the_start(world: SimulatedWorld, address: str) -> None:
    settings = BrokerSettings(store_path_root_dir="/store", namesrv_addr=address)
    with pytest.raises(UsageError, match="is not an address; write host:port"):
        Broker(world.machine("broker"), settings)
