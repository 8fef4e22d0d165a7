"""Transactions of gRPC clients whose broker has another master meanwhile, or doesn't answer in time."""

import asyncio

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.failover.replicas import ReplicaAdmin
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullMessage
from staticfire.protocol.times import UptimeMs
from staticfire.proxy.proto import rocketmq_v2_pb2 as pb
from staticfire.proxy.services.open_transactions import OpenTransaction, OpenTransactions
from staticfire.simulation.world import SimulatedWorld
from tests.proxy.grpc_stand import TOPIC, GrpcStand
from tests.proxy.test_transactions_and_recalls import COMMIT, FROM_CHECK, end, half
from tests.scenarios.stand import NAMESERVER

pytestmark = pytest.mark.row("G3")

CHECK_S = 20
SLAVE_HOST = "10.0.1.2"


async def with_slave(stand: GrpcStand) -> None:
    settings = BrokerSettings(
        broker_name="broker-a", broker_role="SLAVE", broker_id=1, namesrv_addr=NAMESERVER, store_path_root_dir="/store"
    )
    await stand.world.start("slave", Broker(stand.world.machine("slave", SLAVE_HOST), settings))


async def fail_over(stand: GrpcStand) -> None:
    admin = ReplicaAdmin.at_nameservers(stand.cluster.pool, NAMESERVER)
    done = await admin.failover("broker-a")
    assert (done.master, done.lost) == (f"{SLAVE_HOST}:10911", 0)
    stand.cluster.brokers["broker-a"] = done.master


async def readable(stand: GrpcStand, broker: str = "broker-a") -> int:
    """Return how many messages of the topic consumers of a broker can see."""
    await stand.world.run_for(seconds=1)
    found = 0
    for queue_id in range(4):
        pull = PullMessage("readers", TOPIC, queue_id, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*")
        answer = await stand.cluster.ask(stand.cluster.brokers[broker], pull)
        found += len(answer.body.records) if answer.code == 0 else 0
    return found


async def test_a_transaction_is_committed_at_the_new_master(stand: GrpcStand) -> None:
    await with_slave(stand)
    transaction_id = await half(stand)
    await fail_over(stand)
    assert (await end(stand, transaction_id, COMMIT)).code == pb.Code.OK
    assert await readable(stand) == 1


async def test_so_is_one_that_the_old_master_has_checked(stand: GrpcStand) -> None:
    await with_slave(stand)
    stream = await stand.producer(TOPIC)
    await half(stand)
    for _ in range(2):  # The place that the send gave is too old by then.
        transaction_id = (await stream.heard()).recover_orphaned_transaction_command.transaction_id
    await fail_over(stand)
    assert (await end(stand, transaction_id, COMMIT, FROM_CHECK)).code == pb.Code.OK
    assert await readable(stand) == 1


@pytest.mark.parametrize("stand", [{"transaction_check_interval": CHECK_S * 1000}], indirect=True)
async def test_an_end_that_failed_does_not_hide_a_check_that_arrived_meanwhile(stand: GrpcStand) -> None:
    """The second check gives the client half a minute more than the first one, which is that of the failed end."""
    stream = await stand.producer(TOPIC)
    transaction_id = await half(stand)
    await stream.heard()
    await stand.world.run_for(seconds=CHECK_S - 0.5)
    stand.world.freeze("nameserver")
    ending = asyncio.ensure_future(end(stand, transaction_id, COMMIT))
    await stream.heard()
    assert not ending.done()
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    stand.world.thaw("nameserver")
    await stand.world.run_for(seconds=CHECK_S - 5)
    assert (await end(stand, transaction_id, COMMIT, FROM_CHECK)).code == pb.Code.OK
    assert await readable(stand) == 1


def test_an_entry_that_is_put_back_is_not_newer_than_before() -> None:
    known = OpenTransactions()
    first, second, third = (
        OpenTransaction("broker-a", number, log_position, "h1", UptimeMs(forgotten_ms))
        for number, (log_position, forgotten_ms) in enumerate([(100, 10), (200, 10), (300, 20)])
    )
    for one in (first, second):
        known.add(TOPIC, "h1", one)
    assert known.take(TOPIC, "h1", UptimeMs(0)) == second
    known.add(TOPIC, "h1", third)
    known.put_back(TOPIC, "h1", second)
    taken = [known.take(TOPIC, "h1", UptimeMs(0)) for _ in range(4)]
    assert taken == [third, second, first, None]


async def test_an_end_whose_client_did_not_wait_can_be_repeated(world: SimulatedWorld) -> None:
    """Its deadline passes while the endpoint connects to the broker."""
    stand = await GrpcStand(world, brokers=2).start()
    await stand.put_topic("other", broker="broker-a")  # So broker-a is known, and decides whether a call may pass.
    await stand.put_topic(TOPIC, "TRANSACTION", broker="broker-b")
    assert (await stand.send("other")).status.code == pb.Code.OK
    assert (await stand.send(message_type=pb.MessageType.TRANSACTION, message_id="h1")).status.code == pb.Code.OK
    world.kill("broker-b")
    await world.run_for(ms=100)
    await stand.cluster.start_broker("broker-b")
    world.partition("proxy", "broker-b")
    ending = asyncio.ensure_future(end(stand, "h1", COMMIT))
    await world.run_for(seconds=1.5)
    assert not ending.done()
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    world.heal("proxy", "broker-b")
    assert (await end(stand, "h1", COMMIT)).code == pb.Code.OK
    assert await readable(stand, "broker-b") == 1
    await stand.close()
