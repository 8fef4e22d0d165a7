"""Brokers that a producer keeps away from because they were slow or failed, by RocketMQ's table."""

import pytest

from staticfire.client import ClientSettings, Message, Producer, ProducerSettings
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.produce.broker_faults import BrokerFaults, not_available_ms
from staticfire.client.produce.queue_choice import QueueChoice
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.client.peers import NAMESRV, FakeBroker, FakeCluster, fake_cluster
from tests.javafacts.facts import read_facts

pytestmark = pytest.mark.row("F5")


def at(uptime_ms: int) -> UptimeMs:
    return UptimeMs(uptime_ms)


def test_the_table_is_rocketmqs() -> None:
    facts = read_facts("latency")
    assert len(facts) > 10
    assert [str(not_available_ms(int(fact.parts[1]))) for fact in facts] == [fact.answer for fact in facts]


def test_a_shorter_time_never_replaces_a_longer_one() -> None:
    faults = BrokerFaults()
    faults.failed("a", True, at(0))
    faults.answered("a", 600, at(1_000))
    assert faults.avoided == {"a": 10_000}
    faults.answered("a", 20_000, at(1_000))
    assert faults.avoided == {"a": 31_000}
    faults.lapse(at(31_000))
    assert faults.avoided == {}


def test_an_unreachable_broker_stays_so_until_it_is_reached() -> None:
    faults = BrokerFaults()
    faults.failed("a", False, at(0))
    faults.failed("b", False, at(0))
    faults.lapse(at(99_000))
    assert faults.to_look_at(2_000, at(99_000)) == ["a", "b"]
    assert faults.to_look_at(2_000, at(100_999)) == []
    faults.reached("a")
    faults.answered("b", 10, at(101_000))
    assert faults.unreachable == {}


@pytest.mark.parametrize(
    ("avoided", "unreachable", "wanted"),
    [
        ((), (), {"a", "b", "c"}),
        ({"a"}, {"a"}, {"b", "c"}),
        ({"a", "b", "c"}, {"a", "b"}, {"c"}),
        ({"a", "b", "c"}, {"a", "b", "c"}, {"a", "b", "c"}),
    ],
)
def test_available_ones_come_first_then_reachable_ones_then_any(
    avoided: set[str], unreachable: set[str], wanted: set[str]
) -> None:
    queues = [MessageQueue("orders", broker, number) for broker in "abc" for number in range(2)]
    choice = QueueChoice("orders", queues, lambda name: name, 0)
    assert {choice.next(avoided, unreachable).broker_name for _ in range(12)} == wanted


def faulting(start_detector_enable: bool = False) -> ProducerSettings:
    client = ClientSettings(client_ip="10.0.2.1")
    return ProducerSettings(client=client, send_latency_fault_enable=True, start_detector_enable=start_detector_enable)


async def brokers_of(producer: Producer, count: int) -> list[str]:
    """Return which brokers so many messages went to, one after the other."""
    return [(await producer.send(Message("orders", b"%d" % n))).queue.broker_name for n in range(count)]


async def test_a_slow_broker_gets_nothing_for_as_long_as_the_table_says(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, faulting(), cluster.machine) as producer:
        await brokers_of(producer, 8)
        world.set_link("client", "broker-a", LinkQuality(delay_ms=300))
        await brokers_of(producer, 8)  # One of them took 600 ms: not available for 2 s.
        world.set_link("client", "broker-a", LinkQuality(delay_ms=0))
        began_ms = world.uptime_ms
        assert set(await brokers_of(producer, 20)) == {"broker-b"}
        await world.run_for(ms=1_500 - (world.uptime_ms - began_ms))
        assert set(await brokers_of(producer, 20)) == {"broker-b"}
        await world.run_for(ms=700)
        assert set(await brokers_of(producer, 20)) == {"broker-a", "broker-b"}


async def test_without_the_setting_a_slow_broker_has_its_share(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await brokers_of(producer, 8)
        world.set_link("client", "broker-a", LinkQuality(delay_ms=300))
        assert (await brokers_of(producer, 8)).count("broker-a") == 4


async def test_a_broker_that_refuses_is_isolated_for_ten_seconds(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, faulting(), cluster.machine) as producer:
        cluster.brokers[0].verdict = lambda _: int(ResponseCode.SYSTEM_BUSY)
        assert set(await brokers_of(producer, 8)) == {"broker-b"}
        cluster.brokers[0].verdict = lambda _: 0
        await world.run_for(ms=9_500)
        assert set(await brokers_of(producer, 8)) == {"broker-b"}
        await world.run_for(ms=600)
        assert set(await brokers_of(producer, 8)) == {"broker-a", "broker-b"}


async def both_fail(world: SimulatedWorld, cluster: FakeCluster, producer: Producer) -> None:
    """Leave broker-a unreachable, and both of them not available."""
    await brokers_of(producer, 8)
    world.kill("broker-a")
    assert set(await brokers_of(producer, 8)) == {"broker-b"}
    cluster.brokers[1].verdict = lambda _: int(ResponseCode.SYSTEM_BUSY)
    with pytest.raises(StaticfireError):
        await producer.send(Message("orders", b"refused"))
    cluster.brokers[1].verdict = lambda _: 0


async def test_the_detector_finds_a_broker_that_is_back(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, faulting(start_detector_enable=True), cluster.machine) as producer:
        await both_fail(world, cluster, producer)
        await world.run_for(seconds=7)
        assert set(await brokers_of(producer, 8)) == {"broker-b"}
        await world.start("broker-a", FakeBroker(world.machine("broker-a"), "broker-a", "10.0.1.1"))
        await world.run_for(seconds=7)
        assert set(await brokers_of(producer, 8)) == {"broker-a", "broker-b"}


async def test_the_detector_forgets_a_broker_that_left_the_routes(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, faulting(start_detector_enable=True), cluster.machine) as producer:
        await both_fail(world, cluster, producer)
        cluster.route("orders", brokers=cluster.brokers[1:])
        await world.run_for(seconds=40)
        faults = producer._open.destinations.faults  # house: the detector sends nothing that could be seen
        assert faults.unreachable.keys() <= {"broker-b"}
