"""Which code a send gets from a master that waits for its slaves: spec/replication.md, 2.5."""

import asyncio

import pytest

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.properties import format_properties
from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SECOND, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
TIMEOUT_MS = 3_000
SYNC = {"broker_role": "SYNC_MASTER"}


async def timed(pair: ReplicaSet, world: SimulatedWorld, body: bytes = b"1", **properties: str) -> tuple[int, int]:
    """Send a message; return the code and how long it took."""
    began_ms = world.uptime_ms
    answer = await pair.send(body, **properties)
    return answer.code, world.uptime_ms - began_ms


async def test_one_replica_waits_for_no_other(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open(slaves=0)
    code, took_ms = await timed(pair, world)
    assert code == 0
    assert took_ms < 100
    await pair.close()


async def test_two_replicas_answer_when_the_slave_has_it(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open()
    code, took_ms = await timed(pair, world)
    assert code == 0
    assert took_ms < 100
    assert pair.end(SLAVE) == pair.end(MASTER)
    await pair.close()


@pytest.mark.parametrize("how", ["absent", "frozen", "held"])
async def test_without_the_slave_it_is_stored_but_answered_flush_slave_timeout(world: SimulatedWorld, how: str) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open(slaves=0 if how == "absent" else 1)
    if how == "frozen":
        world.freeze(SLAVE)
    elif how == "held":
        await pair.control(SLAVE, hold=True)
    began_ms = world.uptime_ms
    answer = await pair.send(b"1")
    assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert TIMEOUT_MS <= world.uptime_ms - began_ms < TIMEOUT_MS + 100
    assert answer.queue_offset == 0
    assert answer.msg_id
    assert answer.remark is None
    assert await pair.bodies(MASTER) == [b"1"]
    code, took_ms = await timed(pair, world, b"2", WAIT="false")
    assert code == 0
    assert took_ms < 100
    if how == "frozen":
        world.thaw(SLAVE)
    await pair.close()


@pytest.mark.parametrize("topic", ["orders", "new"])
async def test_a_message_that_waits_for_no_slave_is_answered_at_once(world: SimulatedWorld, topic: str) -> None:
    """Also if it is the first one of its topic, which waits until the nameservers have that."""
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open(slaves=0)
    began_ms = world.uptime_ms
    assert (await pair.send(b"1", topic=topic, WAIT="false")).code == 0
    assert world.uptime_ms - began_ms < 100
    await pair.close()


async def test_a_new_set_stores_messages_as_soon_as_a_nameserver_that_started_late_answers(
    world: SimulatedWorld,
) -> None:
    """All start at once, and on a busy machine the nameserver may be the last one."""
    pair = ReplicaSet(world, **SYNC, in_sync_replicas=2)
    await world.start("namesrv", Nameserver(world.machine("namesrv", "10.0.0.1"), NameserverSettings()))
    world.freeze("namesrv")
    starting = [asyncio.ensure_future(pair.start(name)) for name in (MASTER, SLAVE)]
    await world.run_for(seconds=5)
    assert "send again" in (await pair.send(b"early")).remark
    world.thaw("namesrv")
    await asyncio.gather(*starting)
    assert (await pair.send(b"first")).code == 0
    assert (await pair.bodies(SLAVE)) == [b"first"]
    await pair.close()


async def test_three_replicas_need_two_slaves(world: SimulatedWorld) -> None:
    trio = await ReplicaSet(world, **SYNC, in_sync_replicas=3).open(slaves=2)
    assert (await timed(trio, world))[0] == 0
    world.kill(SECOND)
    await world.run_for(10)
    assert (await timed(trio, world))[0] == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await trio.close()


async def test_all_in_sync_means_each_that_is_in_sync(world: SimulatedWorld) -> None:
    trio = await ReplicaSet(world, **SYNC, all_ack_in_sync_state_set=True).open(slaves=2)
    world.freeze(SECOND)
    assert (await timed(trio, world))[0] == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await world.run_for(seconds=16)  # It isn't in sync any more.
    code, took_ms = await timed(trio, world)
    assert (code, took_ms < 100) == (0, True)
    world.thaw(SECOND)
    await trio.close()


async def test_too_few_replicas_in_sync_refuse_the_send(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC, min_in_sync_replicas=2).open()
    assert (await timed(pair, world))[0] == 0
    world.kill(SLAVE)
    await world.run_for(10)
    end = pair.end(MASTER)
    answer = await pair.send(b"2")
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
    assert pair.end(MASTER) == end
    assert (await timed(pair, world, b"3", WAIT="false"))[0] == 0
    await pair.close()


async def test_what_sends_wait_for_changes_while_the_master_runs(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC).open(slaves=0)
    for setting, expected in (
        ("inSyncReplicas=2", ResponseCode.FLUSH_SLAVE_TIMEOUT),
        ("minInSyncReplicas=2", ResponseCode.SYSTEM_ERROR),
        ("minInSyncReplicas=1", ResponseCode.FLUSH_SLAVE_TIMEOUT),
        ("enableSlaveActingMaster=true", ResponseCode.SYSTEM_ERROR),
        ("enableAutoInSyncReplicas=true", ResponseCode.SUCCESS),
        ("enableSlaveActingMaster=false", ResponseCode.FLUSH_SLAVE_TIMEOUT),
        ("inSyncReplicas=1", ResponseCode.SUCCESS),
    ):
        assert (await pair.ask(MASTER, UpdateBrokerConfig(body=setting.encode()))).code == 0
        assert (await timed(pair, world))[0] == expected, setting
        if expected == ResponseCode.FLUSH_SLAVE_TIMEOUT:
            at_once = await asyncio.gather(*(pair.send(b"2", WAIT="false", UNIQ_KEY="A" * 32) for _ in range(3)))
            assert [answer.code for answer in at_once] == [0, 0, 0], setting
    await pair.close()


async def test_what_is_in_sync_may_be_enough_but_never_less_than_the_minimum(world: SimulatedWorld) -> None:
    auto = {**SYNC, "enable_slave_acting_master": True, "enable_auto_in_sync_replicas": True}
    pair = await ReplicaSet(world, **auto, in_sync_replicas=1, min_in_sync_replicas=2).open()
    assert (await timed(pair, world))[0] == 0
    await pair.control(SLAVE, hold=True)  # It is in sync as long as it lacks little.
    assert (await timed(pair, world))[0] == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await pair.close()


@pytest.mark.parametrize(
    ("properties", "waits"),
    [
        ({"WAIT": "false"}, False),
        ({"WAIT": "False"}, False),
        ({"WAIT": "no"}, False),
        ({"WAIT": "TRUE"}, True),
        ({"CAN_WAIT": "false"}, True),
        ({"NOWAIT": "false"}, True),
        ({"CAN_WAIT": "false", "WAIT": "true"}, True),
        ({"CAN_WAIT": "true", "WAIT": "false"}, False),
    ],
)
async def test_only_the_property_wait_says_that_a_message_does_not_wait(
    world: SimulatedWorld, properties: dict[str, str], waits: bool
) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open(slaves=0)
    at_once = (pair.send(b"1", UNIQ_KEY="A" * 32, **properties) for _ in range(3))
    expected = ResponseCode.FLUSH_SLAVE_TIMEOUT if waits else 0
    assert [answer.code for answer in await asyncio.gather(*at_once)] == [expected] * 3
    together = ManyMessage("orders", 0, format_properties(properties), b"x")
    answer = await pair.ask(MASTER, SendMany("producers", "TBW102", 4, body=[together, together]))
    assert answer.body[-1].code == expected
    await pair.close()


async def test_messages_that_are_sent_together_wait_each_as_it_says(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open(slaves=0)
    hurried, patient = (ManyMessage("orders", 0, properties, b"x") for properties in (b"WAIT\x01false\x02", b""))
    for messages, codes in (
        ([hurried, hurried], {0}),
        ([hurried, patient], {ResponseCode.FLUSH_SLAVE_TIMEOUT}),
    ):
        answer = await pair.ask(MASTER, SendMany("producers", "TBW102", 4, body=messages))
        assert {one.code for one in answer.body[-1:]} == codes
    await pair.ask(MASTER, UpdateBrokerConfig(body=b"minInSyncReplicas=2"))
    answer = await pair.ask(MASTER, SendMany("producers", "TBW102", 4, body=[hurried, patient]))
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "in-sync replicas not enough")
    await pair.close()


async def test_a_hurried_message_that_the_disk_refuses_does_not_hurry_the_one_stored_in_its_place(
    world: SimulatedWorld,
) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open(slaves=0)
    world.disk(MASTER).fail_write()
    assert (await timed(pair, world, b"1", WAIT="false"))[0] == ResponseCode.SERVICE_NOT_AVAILABLE
    assert (await timed(pair, world, b"2"))[0] == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert await pair.bodies(MASTER) == [b"2"]
    await pair.close()


async def test_an_asynchronous_master_never_waits(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, in_sync_replicas=2).open(slaves=0)
    code, took_ms = await timed(pair, world)
    assert (code, took_ms < 100) == (0, True)
    await pair.close()


async def test_delayed_messages_wait_for_the_slave_too(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open(slaves=0)
    assert (await timed(pair, world, DELAY="1"))[0] == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await pair.close()


async def test_with_sync_flush_both_are_needed(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2, flush_disk_type="SYNC_FLUSH").open()
    assert (await timed(pair, world))[0] == 0
    world.kill(SLAVE)
    await world.run_for(10)
    assert (await timed(pair, world))[0] == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await pair.close()


async def test_waiting_sends_are_answered_when_the_master_stops(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world, **SYNC, in_sync_replicas=2).open(slaves=0)
    send = asyncio.ensure_future(pair.send(b"1"))
    await world.run_for(50)
    await world.stop(MASTER)
    assert (await send).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await pair.close()


@pytest.mark.parametrize("limit", ["ha_max_gap_not_in_sync", "ha_max_time_slave_not_catchup"])
async def test_when_a_slave_is_not_in_sync_any_more_is_a_setting(world: SimulatedWorld, limit: str) -> None:
    pair = await ReplicaSet(world, **SYNC, min_in_sync_replicas=2, **{limit: 1_000}).open()
    await pair.control(SLAVE, hold=True)
    assert (await timed(pair, world, b"x" * 300))[0] == 0
    await world.run_for(seconds=2)
    expected = 0 if limit == "ha_max_gap_not_in_sync" else ResponseCode.SYSTEM_ERROR
    assert (await timed(pair, world, b"x" * 300))[0] == expected
    if expected == 0:
        assert (await timed(pair, world, b"x" * 300))[0] == ResponseCode.SYSTEM_ERROR
    await pair.control(SLAVE, hold=False)
    await pair.until_caught_up()
    assert (await timed(pair, world))[0] == 0
    await pair.close()


async def test_a_slave_stores_and_confirms_nothing_while_another_one_takes_over(world: SimulatedWorld) -> None:
    """Its master may be alive, and would acknowledge what the new one lacks."""
    pair = await ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2, slave_timeout=500).open()
    await pair.fill(1)
    await pair.control(SLAVE, fence_ms=5_000)
    assert (await pair.send(b"late")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    assert await pair.bodies(SLAVE) == [b"0"]
    await pair.control(SLAVE, fence_ms=0)
    await pair.until_caught_up()
    assert await pair.bodies(SLAVE) == [b"0", b"late"]
    await pair.close()


async def test_a_master_that_begins_to_wait_while_its_slave_is_away_waits_for_what_came_before_too(
    world: SimulatedWorld,
) -> None:
    """It was asynchronous: the slave lacks messages, and must have them before it counts."""
    pair = await ReplicaSet(world).open()
    await pair.fill(messages=3)
    world.kill(SLAVE)
    await world.run_for(100)
    assert (await pair.send(b"3")).code == 0  # Only this machine has it.
    pair.settings |= {**SYNC, "in_sync_replicas": 2}
    await pair.restart(MASTER)
    assert (await pair.send(b"4")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
    await pair.start(SLAVE)
    await pair.until_caught_up()
    assert (await pair.send(b"5")).code == 0
    world.kill(MASTER)
    await world.run_for(100)
    await pair.failover()
    assert await pair.bodies(SLAVE) == [b"%d" % number for number in range(6)]
    await pair.close()


async def test_a_master_that_begins_to_wait_keeps_what_a_slave_that_was_away_has(world: SimulatedWorld) -> None:
    """The power failed while it was asynchronous, so it lost its end. From then on its messages count."""
    pair = await ReplicaSet(world, flush_interval_commit_log=60_000).open()
    await pair.fill(messages=3)
    world.kill(SLAVE)
    world.kill(MASTER, power_loss=True)
    pair.settings |= {**SYNC, "in_sync_replicas": 2}
    await pair.start(MASTER)
    ended = pair.end(MASTER)
    await pair.start(SLAVE)
    await world.run_for(seconds=3)
    state = await pair.state(SLAVE)
    assert pair.end(SLAVE) > ended
    assert "more than its master, which lost the end of its log" in state.problem
    world.kill(MASTER)
    await world.run_for(100)
    await pair.failover(losing=0)
    assert await pair.bodies(SLAVE) == [b"0", b"1", b"2"]
    await pair.start(MASTER)
    await pair.until_caught_up(MASTER, SLAVE)
    pair.assert_equal(SLAVE, MASTER)
    await pair.close()
