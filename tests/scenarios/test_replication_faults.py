"""What goes wrong between a master and its slaves: each is refused or healed, and said."""

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.requests.replication import ChangeRole, ControlReplication, CopyLog, Joining, JoinReplication
from staticfire.protocol.requests.snapshots import RestoreSnapshot, SaveSnapshot
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine
from tests.scenarios.replica_set import MASTER, SECOND, SLAVE, ReplicaSet, address_of

pytestmark = pytest.mark.row("P7")


async def problem_of(pair: ReplicaSet, name: str) -> str:
    await pair.world.run_for(seconds=2)
    return (await pair.state(name)).problem


async def test_a_slave_of_a_master_that_is_not_there_waits(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open(slaves=1)
    world.kill(MASTER)
    began_ms = world.uptime_ms
    await pair.restart(SLAVE)
    assert world.uptime_ms - began_ms < 1_500
    assert await problem_of(pair, SLAVE) == "no master of broker-a is known: it waits for one to register"
    await pair.close()


async def test_a_start_without_a_master_ends(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open(slaves=0)
    world.kill(MASTER)
    began_ms = world.uptime_ms
    await pair.start(SLAVE)
    assert 9_000 < world.uptime_ms - began_ms < 11_000
    assert await problem_of(pair, SLAVE) == "no master of broker-a is known: it waits for one to register"
    await pair.close()


async def test_a_slave_needs_an_id_above_0(world: SimulatedWorld) -> None:
    with pytest.raises(UsageError, match="brokerRole=SLAVE needs a brokerId above 0"):
        Broker(world.machine("alone"), BrokerSettings(store_path_root_dir="/store", broker_role="SLAVE"))


async def test_two_slaves_with_one_id(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    joining = Joining(1, address_of(SECOND), segment_bytes=64 * 1024)
    answer = await pair.ask(MASTER, JoinReplication("DefaultCluster", MASTER, body=joining))
    assert answer.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert "is already the slave with brokerId=1: give 10.0.1.3:10911 another brokerId" in answer.remark
    await pair.close()


async def test_a_slave_with_another_segment_size(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open(slaves=0)
    began_ms = world.uptime_ms
    await pair.start(SLAVE, mapped_file_size_commit_log=128 * 1024)
    assert world.uptime_ms - began_ms < 1_000
    problem = await problem_of(pair, SLAVE)
    assert "mappedFileSizeCommitLog is 131072 at the slave and 65536 at its master" in problem
    await pair.close()


async def test_a_slave_on_the_folder_of_another_set(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.send(b"1")
    await pair.until_caught_up()
    with pytest.raises(UsageError, match="/store is the folder of broker-a, not of broker-b"):
        Broker(
            world.machine(SLAVE, "10.0.1.2"),
            BrokerSettings(store_path_root_dir="/store", broker_name="broker-b", broker_role="SLAVE", broker_id=1),
        )
    await pair.close()


async def test_a_slave_with_the_messages_of_another_broker(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open(slaves=0)
    await pair.start(SECOND, broker_role="ASYNC_MASTER", broker_id=0, namesrv_addr="")
    await pair.put_topic("orders", SECOND)
    await pair.send(b"of another broker", SECOND)
    await pair.restart(SECOND)
    assert "the slave's folder has messages of another broker" in await problem_of(pair, SECOND)
    assert await pair.bodies(SECOND) == [b"of another broker"]
    await pair.close()


@pytest.mark.parametrize(("position", "stored"), [(0, 1 << 60), (0, 10_000), (-1, 0), (0, -1), (1 << 60, 0)])
async def test_a_slave_that_confirms_what_it_was_not_sent_is_refused(
    world: SimulatedWorld, position: int, stored: int
) -> None:
    """RocketMQ believes it: with inSyncReplicas=2 the send is answered 0."""
    pair = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2, slave_timeout=500).open(slaves=0)
    joining = Joining(1, address_of(SLAVE), segment_bytes=64 * 1024)
    joined = (await pair.ask(MASTER, JoinReplication("DefaultCluster", MASTER, body=joining))).body
    answer = await pair.ask(MASTER, CopyLog(1, joined.epochs[-1].epoch, position, stored))
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    assert "it was sent the log up to 0: join again" in answer.remark
    assert (await pair.send(b"1")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await pair.close()


async def test_a_slave_that_requests_only_the_last_byte_is_refused(world: SimulatedWorld) -> None:
    """Otherwise it was sent the log up to the end, and could confirm all of it."""
    pair = await ReplicaSet(world).open(slaves=0)
    await pair.send(b"1")
    joining = Joining(1, address_of(SLAVE), segment_bytes=64 * 1024)
    joined = (await pair.ask(MASTER, JoinReplication("DefaultCluster", MASTER, body=joining))).body
    answer = await pair.ask(MASTER, CopyLog(1, joined.epochs[-1].epoch, pair.end(MASTER) - 1, 0))
    assert answer.code == ResponseCode.ILLEGAL_OPERATION
    await pair.close()


async def test_nonsense_is_refused(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    for request, words in (
        (JoinReplication("DefaultCluster", MASTER), "the body must describe the slave"),
        (JoinReplication("DefaultCluster", "broker-z", body=Joining(3, "x")), "this is broker broker-a"),
        (JoinReplication("DefaultCluster", MASTER, body=Joining(0, "x")), "the id of a slave must be above 0"),
        (CopyLog(9, 1, 0, 0), "slave 9 has not joined"),
        (ChangeRole("SLAVE", 0, 9), "0 is the id of the master"),
        (ChangeRole("ASYNC_MASTER", 0, 1), "epoch 1 isn't newer than epoch 1"),
        (JoinReplication("DefaultCluster", MASTER, body=Joining(-3, "x")), "the id of a slave must be above 0"),
        (CopyLog(1, 1, -1, 0), "slave 1 has not joined"),
        (ChangeRole("KING", 0, 9), "role KING: it must be ASYNC_MASTER, SYNC_MASTER, SLAVE, or absent"),
        (ChangeRole("SLAVE", -4, 9), "0 is the id of the master"),
        (ControlReplication(hold=True), "is the master: hold or delay the copy of a slave"),
    ):
        answer = await pair.ask(MASTER, request)
        assert answer.code != 0
        assert words in answer.remark
    answer = await pair.ask(SLAVE, ControlReplication(lag_ms=-5))
    assert "it must be between 0 and" in answer.remark
    answer = await pair.ask(SLAVE, JoinReplication("DefaultCluster", MASTER, body=Joining(3, "x")))
    assert "this broker is a slave, too" in answer.remark
    await pair.close()


async def test_an_asynchronous_master_that_lost_its_end_begins_again(world: SimulatedWorld) -> None:
    """Its slave removes what the master doesn't have any more, although both end in the same epoch."""
    pair = await ReplicaSet(world).open()
    await pair.send(b"kept")
    pair.brokers[MASTER].state.store.flush()
    for number in range(20):
        await pair.send(b"%d" % number)
    await pair.until_caught_up()
    world.kill(MASTER, power_loss=True)
    await world.run_for(10)
    had = pair.end(SLAVE)
    await pair.start(MASTER)
    assert pair.end(MASTER) < had
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    assert [(one.epoch, one.life) for one in (await pair.state(SLAVE)).epochs][-1] == (1, 1)
    await pair.close()


async def test_a_slave_that_was_away_then_removes_it_too(world: SimulatedWorld) -> None:
    """The master has stored other messages at these positions meanwhile, and was restarted once more."""
    pair = await ReplicaSet(world).open()
    for number in range(20):
        await pair.send(b"%d" % number)
    await pair.until_caught_up()
    had = pair.end(SLAVE)
    await world.stop(SLAVE)
    await pair.kill_and_start(MASTER, power_loss=True)
    assert pair.end(MASTER) < had
    while pair.end(MASTER) <= had:
        assert (await pair.send(b"later")).code == 0
    await pair.restart(MASTER)
    await pair.start(SLAVE)
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_a_slave_that_was_away_too_long_copies_from_the_start(world: SimulatedWorld) -> None:
    """The master has removed the messages that follow those of the slave."""
    pair = await ReplicaSet(world, clean_file_forcibly_keep_bytes=0).open()
    await pair.send(b"first")
    await pair.until_caught_up()
    await world.stop(SLAVE)
    for number in range(400):
        await pair.send(b"%d" % number * 300)
    store = pair.brokers[MASTER].state.store
    store.flush()
    assert store.remove_segments_before(pair.end(MASTER)) > 0
    assert store.min_position > 0
    await pair.start(SLAVE)
    await pair.until_caught_up()
    assert pair.brokers[SLAVE].state.store.min_position == store.min_position
    pair.assert_equal(MASTER, SLAVE)
    await pair.restart(SLAVE)
    await pair.until_caught_up()
    await pair.send(b"last")
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    await pair.close()


async def test_a_slave_keeps_what_its_master_has_lost_and_replaced(world: SimulatedWorld) -> None:
    """A power cut takes acknowledged messages from the master, and others get their places. Only the slave has them."""
    pair = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2, slave_timeout=100).open()
    acknowledged = [b"%d" % number for number in range(20)]
    for body in acknowledged:
        assert (await pair.send(body)).code == 0
    await pair.until_caught_up()
    world.kill(MASTER, power_loss=True)
    world.freeze(SLAVE)  # So the master doesn't learn what the slave has.
    await world.run_for(10)
    await pair.start(MASTER)
    kept = pair.end(SLAVE)
    assert pair.end(MASTER) < kept
    while pair.end(MASTER) <= kept:
        assert (await pair.send(b"later")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    world.thaw(SLAVE)
    assert "has other messages than its master" in await problem_of(pair, SLAVE)
    assert await pair.bodies(SLAVE) == acknowledged
    with pytest.raises(ClientError, match="stop this master and let the slave take over with `staticfire failover`"):
        await pair.failover()
    world.kill(MASTER)
    await world.run_for(100)
    assert (await pair.failover()).master == address_of(SLAVE)
    await pair.start(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(MASTER, SLAVE)
    assert await pair.bodies(MASTER) == acknowledged
    await pair.close()


async def test_a_synchronous_master_that_lost_its_end_lets_the_slave_take_over(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    pair = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2).open()
    acknowledged = [b"%d" % number for number in range(20)]
    for body in acknowledged:
        assert (await pair.send(body)).code == 0
    world.kill(MASTER, power_loss=True)
    await world.run_for(10)
    await pair.start(MASTER)
    [line] = [line for line in logged if line.event == "log_end_lost"]
    assert "10.0.1.2:10911 has: let it take over with `staticfire failover broker-a`" in str(line.fields["reason"])
    assert "this master lost the end of its log" in (await pair.send(b"refused")).remark
    assert (await pair.failover()).master == address_of(SLAVE)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(MASTER, SLAVE)
    assert (await pair.send(b"after", SLAVE)).code == 0
    assert await pair.bodies(SLAVE) == [*acknowledged, b"after"]
    await pair.close()


async def test_the_slaves_of_a_restored_master_copy_all_of_it_again(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    for number in range(5):
        await pair.send(b"%d" % number)
    assert (await pair.ask(MASTER, SaveSnapshot("five"))).code == 0
    for number in range(20):
        await pair.send(b"later %d" % number)
    await pair.until_caught_up()
    assert (await pair.ask(MASTER, RestoreSnapshot("five"))).code == 0
    assert len(await pair.bodies(MASTER)) == 5
    await pair.until_caught_up()
    pair.assert_equal(MASTER, SLAVE)
    await pair.send(b"new")
    await pair.until_caught_up()
    assert (await pair.bodies(SLAVE))[5:] == [b"new"]
    await pair.close()


async def test_a_slave_says_that_its_masters_log_is_damaged(world: SimulatedWorld) -> None:
    """A bit of the size of a record is flipped on the master's disk: no request can return a whole one there."""
    pair = await ReplicaSet(world).open(slaves=0)
    for number in range(5):
        await pair.send(b"%d" % number)
    file = world.machine(MASTER).files.open("/store/commitlog/" + "0" * 20)
    file.write(5, bytes([file.read(5, 1)[0] ^ 1]))  # The record seems to have 64 KiB more.
    await pair.start(SLAVE)
    assert "the master's log has no whole record at position 0: it is damaged" in await problem_of(pair, SLAVE)
    await pair.close()


async def test_a_slave_with_a_full_disk_is_not_in_sync_until_there_is_space(
    world: SimulatedWorld, capfd: pytest.CaptureFixture[str]
) -> None:
    pair = await ReplicaSet(world).open()
    disk = world.disk(SLAVE)
    disk.bytes_left = 0
    await pair.send(b"x" * 1_000)
    await world.run_for(seconds=30)
    slave = (await pair.state(MASTER)).followers[0]
    assert (slave.connected, slave.in_sync) == (True, False), "it joins again and again, and stores nothing"
    assert "No space left on device" in (await pair.state(SLAVE)).problem
    assert capfd.readouterr().err.count("event=copy_interrupted") == 1, "not a line for each attempt"
    disk.bytes_left = None
    await pair.until_caught_up()
    assert (await pair.state(MASTER)).followers[0].in_sync
    await pair.close()
