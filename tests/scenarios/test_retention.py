"""Old messages go by whole segments, and a disk that is nearly full is noticed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.retention import HOUR_MS
from staticfire.protocol.requests.offsets import GetMaxOffset, GetMinOffset
from staticfire.protocol.requests.queries import QueryMessage
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.transactions import EndTransaction
from staticfire.protocol.requests.upkeep import DeleteExpired
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand
from tests.scenarios.logged import LogLine
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet
from tests.scenarios.stand import Stand

KIB, TIB = 1 << 10, 1 << 40
BODY = b"x" * 16 * KIB
SERVICE_NOT_AVAILABLE = 14
NOT_AT_REST = 9001


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    """A broker with three messages per segment."""
    stand = BrokerStand(world, mapped_file_size_commit_log=64 * KIB, clean_file_forcibly_keep_bytes=100 * KIB)
    await stand.start()
    yield stand
    await stand.close()


async def send_many(stand: BrokerStand, count: int = 12, topic: str = "orders") -> None:
    for _ in range(count):
        answer = await stand.send(topic, BODY)
        assert answer.code == 0, answer.remark


async def min_offset(stand: BrokerStand, topic: str = "orders") -> int:
    offset: int = (await stand.ask(GetMinOffset(topic, 0))).offset
    return offset


def ms_until_half_past(hour: int, message_ms: int) -> int:
    return ((24 + hour) * HOUR_MS + HOUR_MS // 2 - message_ms) % (24 * HOUR_MS)


@pytest.mark.row("F2")
async def test_messages_go_at_four_o_clock_when_they_are_three_days_old(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    stand.jump(ms_until_half_past(5, stand.message_ms))
    await send_many(stand)
    stand.jump(71 * HOUR_MS)
    await world.run_for(minutes=1)
    assert await min_offset(stand) == 0
    stand.jump(3 * HOUR_MS)  # Old enough, but it is half past seven.
    await world.run_for(minutes=1)
    assert await min_offset(stand) == 0
    stand.jump(21 * HOUR_MS)
    await world.run_for(minutes=1)
    assert (await min_offset(stand), len(await stand.stored("orders", offset=9))) == (9, 3)
    assert (await stand.ask(GetMaxOffset("orders", 0))).offset == 12
    await stand.restart()
    assert await min_offset(stand) == 9


@pytest.mark.row("F2")
async def test_a_disk_above_75_percent_lets_old_messages_go_at_any_hour(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    stand.jump(ms_until_half_past(5, stand.message_ms))
    await send_many(stand)
    world.disk(NAME).others_bytes = TIB * 76 // 100
    await world.run_for(minutes=1)
    assert await min_offset(stand) == 0
    stand.jump(74 * HOUR_MS)
    await world.run_for(minutes=1)
    assert await min_offset(stand) == 9


@pytest.mark.row("F2")
async def test_a_disk_above_85_percent_lets_young_messages_go_but_for_the_newest(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await send_many(stand)
    world.disk(NAME).others_bytes = TIB * 86 // 100
    await world.run_for(minutes=1)
    assert await min_offset(stand) == 6  # 100 KiB of log stay.
    assert len(await stand.stored("orders", offset=6)) == 6


@pytest.mark.row("F2")
async def test_a_disk_above_90_percent_takes_no_message_until_there_is_room(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await send_many(stand, 1)
    world.disk(NAME).others_bytes = TIB * 95 // 100
    await world.run_for(seconds=11)
    refused = await stand.send("orders", b"x")
    assert refused.code == SERVICE_NOT_AVAILABLE
    remark = refused.remark or ""
    assert remark.startswith("service not available now. It may be caused by one of the following reasons: ")
    assert "the broker's disk is full [CL:  0.96 CQ:  0.96 INDEX:  0.96], messages are put to the slave" in remark
    assert "the disk of /store is 96 % full, and above diskSpaceWarningLevelRatio=90 nothing is stored" in remark
    many = await stand.ask(SendMany("producers", "TBW102", 4, body=[ManyMessage("orders", 0, b"", b"x")]))
    assert [result.code for result in many.body] == [SERVICE_NOT_AVAILABLE]
    assert len(await stand.stored("orders")) == 1
    world.disk(NAME).others_bytes = 0
    await world.run_for(seconds=11)
    await send_many(stand, 1)
    assert len(await stand.stored("orders")) == 2


async def test_each_change_between_full_and_not_is_logged_once(
    world: SimulatedWorld, stand: BrokerStand, logged: list[LogLine]
) -> None:
    for others_bytes in (TIB * 95 // 100, 0) * 2:
        world.disk(NAME).others_bytes = others_bytes
        await world.run_for(seconds=31)
    reported = [(line.level, line.event) for line in logged if line.event in ("disk_full", "disk_has_room")]
    assert reported == [("error", "disk_full"), ("warning", "disk_has_room")] * 2


async def test_a_laptop_with_a_full_disk_needs_one_setting(world: SimulatedWorld, stand: BrokerStand) -> None:
    world.disk(NAME).others_bytes = TIB * 95 // 100
    await stand.restart()
    assert (await stand.send("orders", b"x")).code == SERVICE_NOT_AVAILABLE
    await stand.restart(disk_space_warning_level_ratio=100)
    await send_many(stand, 1)
    await world.run_for(minutes=1)
    await send_many(stand, 1)


async def a_full_log(world: SimulatedWorld, **settings: int) -> Stand:
    """Return a cluster with twelve messages in four segments, stored at half past five, its time standing."""
    stand = await Stand(world, mapped_file_size_commit_log=64 * KIB, **settings).start()
    await stand.create_topic("orders")
    now = await stand.clock("freeze")
    assert (await stand.clock("advance", by_ms=ms_until_half_past(5, now.message_ms))).code == 0
    for _ in range(12):
        await stand.send("orders", BODY)
    await world.run_for(seconds=2)  # the disk has their queue entries
    return stand


async def first_offset(stand: Stand) -> int:
    return int((await stand.ask(stand.brokers["broker-a"], GetMinOffset("orders", 0))).offset)


@pytest.mark.row("S1")
async def test_nothing_goes_while_message_time_stands(world: SimulatedWorld) -> None:
    """Not even what a running clock would remove at any hour."""
    stand = await a_full_log(world, disk_max_used_space_ratio=0)
    await stand.clock("advance", by_ms=73 * HOUR_MS)
    await world.run_for(minutes=10)
    assert await first_offset(stand) == 0
    await stand.clock("run")
    await world.run_for(minutes=1)
    assert await first_offset(stand) == 9
    await stand.close()


@pytest.mark.row("F2")
@pytest.mark.parametrize("mode", ["freeze", "run", "skip"])
async def test_a_jump_over_four_o_clock_removes_what_is_old_then_but_not_the_newest(
    world: SimulatedWorld, mode: str
) -> None:
    stand = await a_full_log(world)
    await stand.clock(mode)
    assert (await stand.clock("advance", by_ms=71 * HOUR_MS)).code == 0
    assert await first_offset(stand) == 0
    assert (await stand.clock("advance", by_ms=25 * HOUR_MS)).code == 0
    assert await first_offset(stand) == 9  # at once: an advance is over when this is done
    assert (await stand.clock("advance", by_ms=1_000 * HOUR_MS)).code == 0
    assert await first_offset(stand) == 9
    await stand.close()


@pytest.mark.row("F2")
async def test_a_clock_that_runs_fast_misses_no_hour(world: SimulatedWorld) -> None:
    """At two hours a second it looks only every twenty hours."""
    stand = await a_full_log(world)
    await stand.clock("scale", rate=7_200.0)
    await world.run_for(minutes=1)
    assert await first_offset(stand) == 9
    await stand.close()


async def test_an_advance_over_messages_that_cant_be_stored_ends_and_says_why(world: SimulatedWorld) -> None:
    stand = await a_full_log(world)
    await stand.send("orders", properties="DELAY\x013\x02")
    world.disk("broker-a").others_bytes = TIB * 95 // 100
    await world.run_for(seconds=11)
    answer = await stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=500)
    assert answer.code == NOT_AT_REST
    assert "broker broker-a can't deliver due messages" in str(answer.remark)
    assert "diskSpaceWarningLevelRatio" in str(answer.remark)
    world.disk("broker-a").others_bytes = 0
    await world.run_for(seconds=11)
    assert (await stand.clock("advance", by_ms=HOUR_MS)).code == 0
    await stand.close()


async def test_delayed_messages_that_went_with_their_segment_keep_no_other_from_being_delivered(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    for number in range(12):
        await stand.send("orders", BODY + b"%d" % number, DELAY="5")
    world.disk(NAME).others_bytes = TIB * 86 // 100
    await world.run_for(minutes=2)
    assert [record.body.lstrip(b"x") for record in await stand.stored("orders", 0)] == [
        b"%d" % number for number in range(6, 12)
    ]


async def expire(world: SimulatedWorld, stand: BrokerStand) -> int:
    """Let everything that is older than an hour be removed; return where the log begins."""
    for _ in range(2):
        await send_many(stand, topic="others")  # Only segments that are full are removed.
        await world.run_for(minutes=61)
    await send_many(stand, 1, topic="others")
    await world.run_for(seconds=2)
    assert (await stand.ask(DeleteExpired())).code == 0
    return stand.broker.state.store.min_position


@pytest.mark.row("D2", "F2")
@pytest.mark.parametrize(
    ("properties", "due_after_min"),
    [({"DELAY": "18"}, 120), ({"DELAY": "1"}, 300), ({"TIMER_DELAY_SEC": "18000"}, 300)],
)
async def test_a_message_that_waits_doesnt_go_for_its_age(
    world: SimulatedWorld, stand: BrokerStand, properties: dict[str, Any], due_after_min: int
) -> None:
    await stand.restart(file_reserved_time=1, message_delay_level="5h " + "1s " * 16 + "130m")
    await stand.send("orders", b"later", **properties)
    assert await expire(world, stand) == 0
    await world.run_for(minutes=due_after_min - 110)
    assert await stand.bodies("orders") == [b"later"]
    assert await expire(world, stand) > 0


async def test_a_half_message_doesnt_go_for_its_age_before_it_is_set_aside(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.restart(file_reserved_time=1)
    immunity: dict[str, Any] = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "10800"}
    half = await stand.send("orders", b"half", TRAN_MSG="true", PGROUP="shop", UNIQ_KEY="U1", **immunity)
    assert await expire(world, stand) == 0
    end = EndTransaction("shop", half.queue_offset or 0, 0, TransactionKind.COMMIT)
    assert (await stand.ask(end)).code == 0
    assert await stand.bodies("orders") == [b"half"]
    assert await expire(world, stand) > 0


async def test_a_full_disk_takes_messages_that_wait_and_an_error_has_their_number(
    world: SimulatedWorld, stand: BrokerStand, logged: list[LogLine]
) -> None:
    for number in range(12):
        await stand.send("orders", BODY + b"%d" % number, DELAY="5")
    world.disk(NAME).others_bytes = TIB * 86 // 100
    await world.run_for(seconds=30)
    lines = [line for line in logged if line.event == "delayed_messages_lost"]
    assert {line.level for line in lines} == {"error"}
    assert [line.fields["by_level"] for line in lines] == [{5: 3}, {5: 3}]
    assert len(stand.broker.delays) == 6


@pytest.mark.row("F2")
async def test_a_full_disk_takes_a_message_that_waits_also_if_it_is_old(
    world: SimulatedWorld, stand: BrokerStand, logged: list[LogLine]
) -> None:
    await stand.restart(file_reserved_time=1)
    await stand.send("orders", b"later", TIMER_DELAY_SEC="18000")
    await send_many(stand, topic="others")
    await world.run_for(minutes=61)
    world.disk(NAME).others_bytes = TIB * 80 // 100
    await world.run_for(minutes=1)
    assert await min_offset(stand, "others") == 0
    world.disk(NAME).others_bytes = TIB * 86 // 100
    await world.run_for(minutes=1)
    assert await min_offset(stand, "others") > 0
    assert [line.fields["messages"] for line in logged if line.event == "timers_lost"] == [1]


@pytest.mark.row("D2", "F2")
async def test_a_slave_keeps_what_waits_at_its_master_and_nothing_else(
    world: SimulatedWorld, logged: list[LogLine]
) -> None:
    hours = ";".join(f"{hour:02}" for hour in range(24))
    pair = await ReplicaSet(world, file_reserved_time=1, delete_when=hours, slave_sync_period=10_000).open()

    async def begins_of_logs_after(hours: float) -> list[int]:
        for name in (MASTER, SLAVE):
            world.skew(name, int(hours * HOUR_MS))
        await world.run_for(seconds=45)
        return [pair.brokers[name].state.store.min_position for name in (MASTER, SLAVE)]

    await pair.send(b"at once", TIMER_DELAY_SEC="1")
    await pair.send(b"3 h", TIMER_DELAY_SEC="10800")
    await pair.send(b"2 h", DELAY="18")
    for _ in range(8):
        await pair.send(BODY, topic="others")
    await world.run_for(seconds=15)
    assert await begins_of_logs_after(hours=1.1) == [0, 0]
    for name in (MASTER, SLAVE):
        world.skew(name, 3 * HOUR_MS)
    await pair.failover()
    begins = await begins_of_logs_after(hours=3)
    assert await pair.bodies(SLAVE) == [b"at once", b"2 h", b"3 h"]
    assert begins[0] == begins[1] > 0
    assert [line for line in logged if line.event in ("timers_lost", "delayed_messages_lost")] == []
    await pair.close()


@pytest.mark.row("D2", "F2")
async def test_a_slave_keeps_what_began_to_wait_after_its_master_said_that_nothing_waits(world: SimulatedWorld) -> None:
    hours = ";".join(f"{hour:02}" for hour in range(24))
    pair = await ReplicaSet(world, file_reserved_time=1, delete_when=hours, slave_sync_period=60_000).open()
    for _ in range(8):
        await pair.send(BODY, topic="others")
    await world.run_for(seconds=61)
    await pair.send(b"3 h", TIMER_DELAY_SEC="10800")
    for _ in range(8):
        await pair.send(BODY, topic="others")
    await pair.until_caught_up()
    for name in (MASTER, SLAVE):
        world.skew(name, 2 * HOUR_MS)
    await world.run_for(seconds=15)
    assert pair.brokers[SLAVE].state.store.min_position > 0
    await pair.failover()
    for name in (MASTER, SLAVE):
        world.skew(name, 4 * HOUR_MS)
    await world.run_for(seconds=15)
    assert await pair.bodies(SLAVE) == [b"3 h"]
    await pair.close()


@pytest.mark.row("F3")
async def test_a_key_finds_only_what_is_still_there(world: SimulatedWorld, stand: BrokerStand) -> None:
    for number in range(12):
        await stand.send("orders", BODY + b"%d" % number, KEYS="42")
    world.disk(NAME).others_bytes = TIB * 86 // 100
    await world.run_for(minutes=2)
    answer = await stand.ask(QueryMessage("orders", "42", 32, 0, 1 << 62))
    assert len(answer.body.records) == 6
