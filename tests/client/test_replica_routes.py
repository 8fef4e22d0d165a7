"""Which replica a client uses, by the routes that it knows."""

import pytest

from staticfire.client import ConsumeContext, ConsumeStatus, PushConsumer, PushSettings
from staticfire.client.cluster.lost_brokers import LostBrokers
from staticfire.client.cluster.pull_answers import PullResult, PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import address_to_write, broker_addresses, replica_to_read, without_master
from staticfire.client.consume.membership.server_assignment import any_broker
from staticfire.client.consume.queues.instructions import Tell
from staticfire.client.consume.queues.replica_in_use import ReplicaInUse
from staticfire.client.consume.results.consume_results import Messages
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET
from staticfire.protocol.requests.routes import BrokerData, TopicRouteData
from staticfire.simulation.world import SimulatedWorld
from tests.client.peers import NAMESRV, Arrival, fake_cluster

pytestmark = pytest.mark.row("P7")

ADDRESSES = {"a": {0: "m", 1: "s1", 3: "s3"}, "b": {2: "s2", 5: "s5"}}


@pytest.mark.parametrize(
    ("broker", "wanted", "found"),
    [
        ("a", 0, (0, "m")), ("a", 1, (1, "s1")), ("a", 2, (3, "s3")), ("a", 7, (0, "m")),
        ("b", 0, (2, "s2")), ("b", 1, (2, "s2")), ("b", 4, (5, "s5")), ("b", 9, (2, "s2")), ("c", 0, None),
    ],
)  # fmt: skip
def test_a_pull_goes_to_the_replica_the_next_or_any(broker: str, wanted: int, found: tuple[int, str] | None) -> None:
    assert replica_to_read(ADDRESSES, broker, wanted) == found


def test_only_masters_are_written() -> None:
    assert [address_to_write(ADDRESSES, name) for name in "abc"] == ["m", None, None]
    assert without_master("b", ADDRESSES["b"]).startswith("broker b has no master now, only slaves (2 at s2, 5 at s5)")
    assert without_master("c", {}) == "broker c has no master in the routes"


def test_the_latest_route_says_which_replicas_a_broker_has() -> None:
    def route(replicas: dict[int, str]) -> TopicRouteData:
        return TopicRouteData([], [BrokerData("c", "a", replicas)])

    assert broker_addresses([route({0: "old", 1: "s"}), route({1: "s"})]) == {"a": {1: "s"}}
    assert broker_addresses([route({1: "s"}), route({1: "s", 0: "new"})]) == {"a": {0: "new", 1: "s"}}


def test_a_slave_is_queried_for_queues_only_if_no_broker_has_a_master() -> None:
    """A slave with a new disk doesn't know which groups pop."""

    def requested(*brokers: dict[int, str]) -> set[str]:
        route = TopicRouteData([], [BrokerData("c", f"broker-{at}", addresses) for at, addresses in enumerate(brokers)])
        return {any_broker("orders", route, turn) for turn in range(4)}

    assert requested({1: "s1"}, {0: "m2", 1: "s2"}) == {"m2"}
    assert requested({0: "m1", 1: "s1"}, {0: "m2", 1: "s2"}) == {"m1", "m2"}
    assert requested({1: "s1"}, {2: "s2"}) == {"s1", "s2"}


async def test_a_found_slave_doesnt_end_the_search_for_its_master(world: SimulatedWorld) -> None:
    lost = LostBrokers(world.machine("client").clock, lambda: True)
    lost.add(("a", 0))
    lost.add(("a", 1))
    lost.found(("a", 1))
    assert lost.wanted == [("a", 0)]


def result(status: PullStatus, next_offset: int, end: int) -> PullResult:
    return PullResult(status, [], next_offset, 0, end)


def test_a_replica_that_lacks_the_offset_is_reported_once() -> None:
    replica = ReplicaInUse("billing", MessageQueue("orders", "a", 0))
    behind = result(PullStatus.NO_MATCHED_MSG, 10, 4)
    (tell,) = replica.lack(behind, 10) or []
    assert isinstance(tell, Tell)
    assert (tell.event, tell.fields["offset"], tell.fields["end"]) == ("replica_lacks_offset", 10, 4)
    assert "ends before this offset" in str(tell.fields["reason"])
    assert replica.lack(behind, 10) == []
    assert replica.lack(result(PullStatus.NO_MATCHED_MSG, 12, 12), 10) is None  # It filtered two messages.
    assert replica.lack(result(PullStatus.NO_NEW_MSG, 12, 12), 12) is None
    assert len(replica.lack(behind, 10) or []) == 1


@pytest.mark.parametrize("broker_id", [0, 1])
async def test_pulls_carry_offsets_to_a_master_and_not_to_a_slave(world: SimulatedWorld, broker_id: int) -> None:
    cluster = await fake_cluster(world, topic=None)
    (broker,) = cluster.brokers
    cluster.route("orders", queues=1)
    cluster.nameserver.routes["orders"].broker_datas[0].broker_addrs = {broker_id: broker.address}
    broker.stored["orders", 0] = [Arrival("orders", 0, b"1", b"UNIQ_KEY\x01m\x02")]
    consumer = PushConsumer("billing", NAMESRV, PushSettings(), cluster.machine)
    consumer.subscribe("orders")

    @consumer.listener
    async def listen(messages: Messages, context: ConsumeContext) -> ConsumeStatus:
        return ConsumeStatus.CONSUME_SUCCESS

    await world.start("client", consumer)
    journal = broker.journal

    def carried() -> bool:
        return any(flags & FLAG_COMMIT_OFFSET for flags in journal.pull_flags)

    await world.until(lambda: (1, False) in journal.commits or carried(), within_ms=20_000)
    assert carried() is (broker_id == 0)
    await world.stop("client")
