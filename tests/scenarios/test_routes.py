"""Brokers and the nameserver together: what clients are told while brokers come, change, fall silent and go."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.requests.routes import GetRoute
from staticfire.protocol.requests.send import ManyMessage, SendAnswer, SendMany, SendManyAnswer, SendMessage
from staticfire.protocol.requests.snapshots import SaveSnapshot
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.link import LinkQuality
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.logged import LogLine

pytestmark = pytest.mark.row("H1")

NAMESERVER = "10.0.0.1:9876"
MACHINES = {"broker-a": "10.0.0.2", "broker-b": "10.0.0.3"}
BOTH = {"broker-a": "10.0.0.2:10911", "broker-b": "10.0.0.3:10911"}
TOPIC = "TBW102"
# Every broker has it.


class Cluster:
    """A nameserver, brokers on machines of their own, and a program that asks for routes."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.world = world
        self._pool = ConnectionPool(world.machine("client", "10.0.0.9"))

    async def start_nameserver(self, **settings: Any) -> None:
        machine = self.world.machine("nameserver", "10.0.0.1")
        await self.world.start("nameserver", Nameserver(machine, NameserverSettings(**settings)))

    async def start_broker(self, name: str, **chosen: Any) -> None:
        machine = self.world.machine(name, MACHINES[name])
        settings = BrokerSettings(broker_name=name, namesrv_addr=NAMESERVER, store_path_root_dir="/store", **chosen)
        await self.world.start(name, Broker(machine, settings))

    async def masters(self, topic: str) -> dict[str, str]:
        """Return where the masters of a topic's brokers are, by name."""
        body = (await self._pool.ask(NAMESERVER, GetRoute(topic=topic))).body
        return {broker.broker_name: broker.broker_addrs[0] for broker in body.broker_datas} if body else {}

    async def create_topic(self, address: str, topic: str) -> None:
        wanted = UpdateTopic(topic=topic, read_queue_nums=4, write_queue_nums=4, perm=6)
        assert (await self._pool.ask(address, wanted)).code == 0

    async def send(self, address: str, topic: str, body: bytes = b"flight 1") -> int | None:
        """Send a message to queue 0; return its queue offset."""
        message = SendMessage("shop", topic, "TBW102", 4, 0, 0, 0, 0, body=body)
        answer = await self._pool.ask(address, message)
        assert answer.code == 0
        assert isinstance(answer, SendAnswer)
        return answer.queue_offset

    async def send_together(self, address: str, *topics: str) -> list[int]:
        """Send a message to queue 0 of each topic in one request; return their queue offsets."""
        messages = [ManyMessage(topic, 0, b"", b"flight 1") for topic in topics]
        answer = await self._pool.ask(address, SendMany("shop", "TBW102", 4, body=messages))
        assert isinstance(answer, SendManyAnswer)
        assert {one.code for one in answer.body} == {0}
        return [one.queue_offset for one in answer.body]

    async def save_snapshot(self, address: str) -> None:
        assert (await self._pool.ask(address, SaveSnapshot("base"))).code == 0

    def is_connected(self) -> bool:
        """Whether the program's connection to the nameserver is open."""
        return self._pool.open_connection(NAMESERVER) is not None

    async def close(self) -> None:
        await self._pool.close()


@pytest_asyncio.fixture
async def cluster(world: SimulatedWorld) -> AsyncIterator[Cluster]:
    cluster = Cluster(world)
    await cluster.start_nameserver()
    for name in MACHINES:
        await cluster.start_broker(name)
    yield cluster
    await cluster.close()


async def test_brokers_that_started_are_routed(cluster: Cluster) -> None:
    assert await cluster.masters(TOPIC) == BOTH


@pytest.fixture
def slow_registrations(world: SimulatedWorld, cluster: Cluster) -> None:
    """Let what brokers tell the nameserver take longer than what clients ask it."""
    for name in MACHINES:
        world.set_link(name, "nameserver", LinkQuality(delay_ms=50))


@pytest.mark.usefixtures("slow_registrations")
async def test_a_new_topic_is_routed_with_its_creation(cluster: Cluster) -> None:
    await cluster.create_topic(BOTH["broker-b"], "orders")
    assert await cluster.masters("orders") == {"broker-b": BOTH["broker-b"]}


@pytest.mark.usefixtures("slow_registrations")
async def test_a_topic_that_a_send_creates_is_routed_when_the_send_is_answered(cluster: Cluster) -> None:
    await cluster.send(BOTH["broker-b"], "orders")
    assert await cluster.masters("orders") == {"broker-b": BOTH["broker-b"]}


@pytest.mark.usefixtures("slow_registrations")
async def test_so_are_topics_of_messages_that_are_sent_together(cluster: Cluster) -> None:
    await cluster.create_topic(BOTH["broker-b"], "known")
    assert await cluster.send_together(BOTH["broker-b"], "orders", "known", "bills", "orders") == [0, 0, 0, 1]
    for topic in ("orders", "bills"):
        assert await cluster.masters(topic) == {"broker-b": BOTH["broker-b"]}


@pytest.mark.usefixtures("slow_registrations")
async def test_sends_that_wait_for_their_new_topic_are_stored_in_their_order(cluster: Cluster) -> None:
    sends = [cluster.send(BOTH["broker-a"], "orders", b"%d" % number) for number in range(5)]
    assert await asyncio.gather(*sends) == [0, 1, 2, 3, 4]
    assert await cluster.send(BOTH["broker-a"], "orders") == 5


@pytest.mark.usefixtures("slow_registrations")
async def test_sends_that_wait_for_their_new_topic_are_answered_when_a_snapshot_ends_the_core(
    world: SimulatedWorld, cluster: Cluster
) -> None:
    broker = BOTH["broker-b"]
    alone = asyncio.ensure_future(cluster.send(broker, "orders"))
    together = asyncio.ensure_future(cluster.send_together(broker, "bills", "bills"))
    await world.run_for(ms=10)
    assert not alone.done()
    assert not together.done()
    await cluster.save_snapshot(broker)
    assert (await alone, await together) == (0, [0, 1])


@pytest.mark.parametrize("cut", ["kill", "freeze"])
async def test_a_nameserver_that_is_away_delays_the_first_message_of_a_topic_only(
    world: SimulatedWorld, cluster: Cluster, cut: str
) -> None:
    if cut == "kill":
        world.kill("nameserver")
    else:
        world.freeze("nameserver")
    began_ms = world.uptime_ms
    assert await cluster.send(BOTH["broker-a"], "orders") == 0
    assert world.uptime_ms - began_ms < 1_100
    began_ms = world.uptime_ms
    assert await cluster.send(BOTH["broker-a"], "orders") == 1
    assert world.uptime_ms - began_ms < 10


async def test_a_new_group_has_retry_queues_everywhere(cluster: Cluster) -> None:
    assert await cluster.masters("%RETRY%new") == BOTH


async def test_a_broker_is_given_up_when_its_own_time_is_over(world: SimulatedWorld) -> None:
    """Its signs of life follow from that time, so one that is well is never given up."""
    cluster = Cluster(world)
    await cluster.start_nameserver(scan_not_active_broker_interval=500)
    await cluster.start_broker("broker-a", broker_heartbeat_timeout_ms=3_000)
    await cluster.start_broker("broker-b", broker_heartbeat_timeout_ms=3_000, broker_heartbeat_interval=200)
    for _ in range(60):
        await world.run_for(seconds=1)
        assert await cluster.masters(TOPIC) == BOTH
    world.freeze("broker-a")
    world.freeze("broker-b")
    await world.run_for(ms=1_500)
    assert await cluster.masters(TOPIC) == BOTH
    await world.run_for(ms=2_500)
    assert await cluster.masters(TOPIC) == {}
    await cluster.close()


async def test_a_broker_with_more_signs_of_life_is_given_up_later(world: SimulatedWorld) -> None:
    """Without a setting, the next sign of life of these brokers comes after 3 s."""
    cluster = Cluster(world)
    await cluster.start_nameserver(scan_not_active_broker_interval=500)
    await cluster.start_broker("broker-a", broker_heartbeat_timeout_ms=9_000)
    await cluster.start_broker("broker-b", broker_heartbeat_timeout_ms=9_000, broker_heartbeat_interval=200)
    await world.run_for(ms=2_000)
    world.freeze("broker-a")
    world.freeze("broker-b")
    await world.run_for(ms=8_200)
    assert (await cluster.masters(TOPIC)).keys() == {"broker-b"}
    await world.run_for(ms=1_500)
    assert await cluster.masters(TOPIC) == {}
    await cluster.close()


async def test_a_broker_that_registers_seldom_keeps_its_connection_and_its_routes(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    cluster = Cluster(world)
    await cluster.start_nameserver()
    await cluster.start_broker("broker-a", register_name_server_period=600_000, broker_heartbeat_timeout_ms=2_400_000)
    await world.run_for(minutes=30)
    assert [line for line in logged if line.event == "broker_lost"] == []
    assert await cluster.masters(TOPIC) == {"broker-a": BOTH["broker-a"]}
    await cluster.close()


@pytest.mark.parametrize("deletes", [False, True])
async def test_topics_that_change_together_remove_no_other_topic(world: SimulatedWorld, deletes: bool) -> None:
    cluster = Cluster(world)
    await cluster.start_nameserver(delete_topic_with_broker_registration=deletes)
    await cluster.start_broker("broker-a")
    topics = ["orders", "bills", "mails", "calls"]
    await cluster.create_topic(BOTH["broker-a"], topics[0])
    await asyncio.gather(*(cluster.create_topic(BOTH["broker-a"], topic) for topic in topics[1:]))
    for topic in (TOPIC, *topics):
        assert await cluster.masters(topic) == {"broker-a": BOTH["broker-a"]}
    await cluster.close()


async def test_a_broker_that_stops_leaves_the_routes(world: SimulatedWorld, cluster: Cluster) -> None:
    await world.stop("broker-a")
    assert await cluster.masters(TOPIC) == {"broker-b": BOTH["broker-b"]}


async def test_a_broker_that_is_killed_leaves_at_once_and_comes_back(world: SimulatedWorld, cluster: Cluster) -> None:
    world.kill("broker-a")
    await world.run_for(ms=10)
    assert await cluster.masters(TOPIC) == {"broker-b": BOTH["broker-b"]}
    await cluster.start_broker("broker-a")
    assert await cluster.masters(TOPIC) == BOTH


@pytest.mark.parametrize("cut", ["freeze", "partition"])
async def test_a_broker_that_stops_registering_is_dropped(world: SimulatedWorld, cluster: Cluster, cut: str) -> None:
    if cut == "freeze":
        world.freeze("broker-a")
    else:
        world.partition("broker-a", "nameserver")
    await world.run_for(seconds=85)
    assert await cluster.masters(TOPIC) == BOTH  # Its last registration may have been 30 s old.
    await world.run_for(seconds=45)
    assert await cluster.masters(TOPIC) == {"broker-b": BOTH["broker-b"]}
    if cut == "freeze":
        world.thaw("broker-a")
    else:
        world.heal("broker-a")
    await world.run_for(seconds=5)
    assert await cluster.masters(TOPIC) == BOTH


async def test_a_silent_cluster_keeps_its_routes(world: SimulatedWorld, cluster: Cluster) -> None:
    await world.run_for(hours=1)
    assert await cluster.masters(TOPIC) == BOTH


async def test_brokers_come_back_to_a_nameserver_that_was_killed(world: SimulatedWorld, cluster: Cluster) -> None:
    world.kill("nameserver")
    await world.run_for(seconds=10)
    await cluster.start_nameserver()
    await world.run_for(seconds=5)
    assert await cluster.masters(TOPIC) == BOTH


async def test_a_connection_that_says_nothing_for_two_minutes_is_closed(
    world: SimulatedWorld, cluster: Cluster
) -> None:
    await cluster.masters(TOPIC)
    assert cluster.is_connected()
    await world.run_for(minutes=5)
    assert not cluster.is_connected()
    assert await cluster.masters(TOPIC) == BOTH
