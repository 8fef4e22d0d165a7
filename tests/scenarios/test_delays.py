"""Delayed messages: on time, in order, once, whatever happens to the broker meanwhile."""

from typing import Any

import pytest

from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.simulation.world.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.scenarios.broker_stand import NAME, BrokerStand, text

SCHEDULE = "SCHEDULE_TOPIC_XXXX"


@pytest.mark.row("D1", "A6")
async def test_a_delayed_message_waits_in_the_queue_of_its_level(stand: BrokerStand) -> None:
    await stand.send("orders", b"first", DELAY="3")
    answer = await stand.send("orders", b"x", queue_id=2, DELAY="3", TIMER_DELAY_SEC="5", TAGS="paid")
    assert (answer.code, answer.queue_id, answer.queue_offset) == (0, 2, 1)
    assert await stand.bodies("orders", 2) == []
    (record,) = await stand.stored(SCHEDULE, 2, offset=1)
    assert answer.msg_id is not None
    assert answer.msg_id.endswith(f"{record.log_position:016X}")
    assert {name: text(record, name) for name in ("REAL_TOPIC", "REAL_QID", "DELAY", "TIMER_DELAY_SEC")} == {
        "REAL_TOPIC": "orders",
        "REAL_QID": "2",
        "DELAY": "3",
        "TIMER_DELAY_SEC": None,
    }


@pytest.mark.row("D1", "D3")
@pytest.mark.parametrize(("requested", "level"), [("1", 1), ("5", 5), ("18", 18), ("19", 18), ("2147483647", 18)])
async def test_it_is_delivered_when_its_level_is_over_and_not_before(
    world: SimulatedWorld, stand: BrokerStand, requested: str, level: int
) -> None:
    sent_ms = stand.message_ms
    await stand.send("orders", b"x", DELAY=requested)
    due_ms = DEFAULT_DELAY_LEVELS.delay_ms(level)
    await world.run_for(due_ms - 100)
    assert await stand.bodies("orders") == []
    await world.run_for(200)
    (record,) = await stand.stored("orders")
    assert due_ms <= record.stored_ms - sent_ms < due_ms + 100
    assert text(record, "DELAY") == str(level)


@pytest.mark.row("A6")
async def test_what_is_delivered_is_what_was_sent(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"at once", queue_id=1, TAGS="paid")
    await stand.send("orders", b"later", queue_id=1, TAGS="paid", KEYS="a b", UNIQ_KEY="U1", DELAY="1", mine="yes")
    await world.run_for(seconds=1.1)
    first, later = await stand.stored("orders", 1)
    assert (later.body, later.flag, later.sys_flag, later.reconsume_times) == (b"later", 7, 0, 0)
    assert (later.born_host, later.queue_offset) == (first.born_host, 1)
    assert later.born_ms < later.stored_ms - 999
    names = ("TAGS", "KEYS", "UNIQ_KEY", "DELAY", "mine", "REAL_TOPIC", "REAL_QID", "CLUSTER")
    values = ["paid", "a b", "U1", "1", "yes", "orders", "1", "DefaultCluster"]
    assert [text(later, name) for name in names] == values
    tagged = PullMessage("readers", "orders", 1, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "paid")
    assert len((await stand.ask(tagged)).body.records) == 2


@pytest.mark.parametrize("level", ["x", "", "1.5", " 2", "2147483648"])
async def test_a_level_that_is_no_number_is_refused(stand: BrokerStand, level: str) -> None:
    properties: dict[str, Any] = {"DELAY": level} if level else {"DELAY": "2", "x": "1"}
    answer = await stand.send("orders", b"x", **properties)
    assert answer.code == (1 if level else 0)


@pytest.mark.parametrize("properties", [{"DELAY": "0"}, {"DELAY": "-1"}, {"XDELAY": "3"}])
async def test_a_message_that_names_no_level_doesnt_wait(stand: BrokerStand, properties: dict[str, Any]) -> None:
    await stand.send("orders", b"x", **properties)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_level_that_is_no_number_fails_alone_among_many(world: SimulatedWorld, stand: BrokerStand) -> None:
    messages = [ManyMessage("orders", 0, b"DELAY\x01" + level + b"\x02", level) for level in (b"1", b"x", b"2")]
    answer = await stand.ask(SendMany("producers", "TBW102", 4, body=messages))
    assert [result.code for result in answer.body] == [0, 1, 0]
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [b"1", b"2"]


@pytest.mark.row("D2")
async def test_the_messages_of_a_level_keep_their_order(world: SimulatedWorld, stand: BrokerStand) -> None:
    for number in range(600):
        await stand.send("orders", b"%d" % number, DELAY="2")
    await world.run_for(seconds=10)
    assert await stand.bodies("orders") == [b"%d" % number for number in range(600)]


async def test_levels_that_are_due_together_come_in_the_order_of_their_due_times(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    for body, level in ((b"10 s", "3"), (b"1 s", "1"), (b"5 s", "2"), (b"1 s too", "1")):
        await stand.send("orders", body, DELAY=level)
    await world.stop(NAME)
    await world.run_for(minutes=1)
    await stand.start()
    await world.run_for(10)
    assert await stand.bodies("orders") == [b"1 s", b"1 s too", b"5 s", b"10 s"]


async def test_a_held_pull_is_answered_by_a_delivery(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"0")
    await stand.send("orders", b"later", DELAY="1")
    started_ms = world.uptime_ms
    held = PullMessage("readers", "orders", 0, 1, 32, FLAG_SUBSCRIPTION | FLAG_SUSPEND, 0, 20_000, "*")
    assert [record.body for record in (await stand.ask(held)).body.records] == [b"later"]
    assert world.uptime_ms - started_ms < 1_100


async def test_a_shorter_delay_that_comes_later_wakes_the_broker(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"2 h", DELAY="18")
    await world.run_for(seconds=30)
    await stand.send("orders", b"1 s", DELAY="1")
    await world.run_for(seconds=1.05)
    assert await stand.bodies("orders") == [b"1 s"]


async def test_a_message_for_a_topic_that_was_deleted_is_there_when_the_topic_is(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.send("orders", b"later", DELAY="2")
    await stand.ask(DeleteTopic("orders"))
    await world.run_for(seconds=6)
    await stand.send("orders", b"new")
    assert await stand.bodies("orders") == [b"later", b"new"]


async def test_a_reset_broker_delivers_nothing_old(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"old", DELAY="2")
    await world.run_for(seconds=6)
    await stand.send("orders", b"old", DELAY="2")
    await stand.ask(Reset())
    assert stand.broker.delays.next_due_ms() is None
    await stand.send("orders", b"new", DELAY="2")
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [b"new"]
    await stand.kill_and_start()
    await stand.send("orders", b"newer", DELAY="1")
    await world.run_for(seconds=2)
    assert await stand.bodies("orders") == [b"new", b"newer"]


# -- the clock ---------------------------------------------------------------------------------------------------------


async def test_a_jump_of_the_clock_delivers_what_falls_due_by_it(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"2 h", DELAY="18")
    await stand.send("orders", b"1 h", DELAY="17")
    stand.jump(3_600_000)
    await world.run_for(10)
    assert await stand.bodies("orders") == [b"1 h"]
    stand.jump(3_600_000)
    await world.run_for(10)
    assert await stand.bodies("orders") == [b"1 h", b"2 h"]


async def test_next_due_and_deliver_until_are_what_a_clock_needs(world: SimulatedWorld, stand: BrokerStand) -> None:
    delays = stand.broker.delays
    assert delays.next_due_ms() is None
    sent_ms = stand.message_ms
    for level in ("2", "3", "3"):
        await stand.send("orders", b"x", DELAY=level)
    first_due_ms = delays.next_due_ms()
    assert first_due_ms is not None
    assert sent_ms + 5_000 <= first_due_ms < sent_ms + 5_100
    await delays.stop()
    stand.jump(60_000)
    assert await delays.deliver_until(first_due_ms) == 1
    assert await delays.deliver_until(stand.broker.state.clock.message_ms()) == 2
    assert delays.next_due_ms() is None
    assert len(await stand.stored("orders")) == 3


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.row("D2")
async def test_overdue_messages_are_delivered_in_order_after_a_restart(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    for number in range(5):
        await stand.send("orders", b"%d" % number, DELAY="3")
    await world.stop(NAME)
    await world.run_for(minutes=5)
    await stand.start()
    await world.run_for(10)
    assert await stand.bodies("orders") == [b"%d" % number for number in range(5)]
    await stand.restart()
    await world.run_for(seconds=20)
    assert len(await stand.bodies("orders")) == 5


@pytest.mark.row("D2")
@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("wait_s", [0, 0.3, 0.8, 3, 9.8, 12, 25])
async def test_a_killed_broker_delivers_nothing_twice_and_forgets_nothing(
    world: SimulatedWorld, stand: BrokerStand, wait_s: float, power_loss: bool
) -> None:
    for number in range(50):
        await stand.send("orders", b"%d" % number, DELAY="1")
        await world.run_for(40)
    await world.run_for(seconds=wait_s)
    if power_loss:
        await world.run_for(seconds=1)  # what was acknowledged is on the disk half a second later
    delivered = len(await stand.bodies("orders"))
    await stand.kill_and_start(power_loss)
    assert len(await stand.bodies("orders")) <= delivered + 50
    await world.run_for(seconds=20)
    assert await stand.bodies("orders") == [b"%d" % number for number in range(50)]


@pytest.mark.row("D2")
@pytest.mark.parametrize("world", first_and_slow(range(3)), indirect=True)
async def test_kills_in_the_middle_of_deliveries_one_after_the_other(world: SimulatedWorld, stand: BrokerStand) -> None:
    number = 0
    for _ in range(5):
        for _ in range(world.random.randrange(40)):
            await stand.send("orders", b"%d" % number, DELAY=world.random.choice("11123"))
            number += 1
            await world.run_for(world.random.randrange(60))
        await world.run_for(world.random.randrange(12_000))
        await stand.kill_and_start()
    await world.run_for(seconds=30)
    assert sorted(map(int, await stand.bodies("orders"))) == list(range(number))


@pytest.mark.row("D2")
async def test_progress_isnt_believed_before_the_disk_has_the_deliveries(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.send("orders", b"x", DELAY="2")
    await stand.restart(flush_interval_commit_log=3_600_000, flush_interval_consume_queue=3_600_000)
    await world.run_for(seconds=30)
    assert await stand.bodies("orders") == [b"x"]
    await stand.kill_and_start(power_loss=True)
    await world.run_for(10)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_store_that_fails_is_tried_again_in_order(world: SimulatedWorld, stand: BrokerStand) -> None:
    for number in range(3):
        await stand.send("orders", b"%d" % number, DELAY="2")
    assert await stand.bodies("orders") == []
    world.disk(NAME).bytes_left = 0
    await world.run_for(seconds=8)
    assert await stand.bodies("orders") == []
    world.disk(NAME).bytes_left = None
    await world.run_for(200)
    assert await stand.bodies("orders") == [b"0", b"1", b"2"]


@pytest.mark.row("D1")
async def test_levels_are_a_setting(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.restart(message_delay_level="2s 1m")
    await stand.send("orders", b"2 s", DELAY="1")
    await stand.send("orders", b"1 m", DELAY="9")
    await world.run_for(seconds=3)
    assert await stand.bodies("orders") == [b"2 s"]
    await world.run_for(seconds=60)
    assert await stand.bodies("orders") == [b"2 s", b"1 m"]


async def test_messages_of_a_level_that_is_gone_wait_until_it_is_back(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    for number in range(3):
        await stand.send("orders", b"%d" % number, DELAY="3")
        await world.run_for(seconds=4)
    assert await stand.bodies("orders") == [b"0"]
    await stand.restart(message_delay_level="1s 5s")
    await world.run_for(minutes=1)
    assert await stand.bodies("orders") == [b"0"]
    await stand.restart(message_delay_level=BrokerSettings().message_delay_level)
    await world.run_for(10)
    assert await stand.bodies("orders") == [b"0", b"1", b"2"]


async def test_a_delay_that_became_shorter_holds_for_those_who_wait(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"x", DELAY="18")
    await stand.restart(message_delay_level=BrokerSettings().message_delay_level.replace("2h", "10s"))
    await world.run_for(seconds=11)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_half_message_whose_level_is_no_number_is_refused_at_once(stand: BrokerStand) -> None:
    """Refused only when it is committed, it could never be ended well."""
    answer = await stand.send("orders", b"x", TRAN_MSG="true", PGROUP="shop", UNIQ_KEY="U1", DELAY="abc")
    assert (answer.code, answer.remark) == (1, "the delay level 'abc' is not a number")
    assert len(stand.broker.transactions) == 0


async def test_the_file_of_the_progress_is_rocketmqs(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"x", DELAY="2")
    await world.run_for(seconds=20)
    text = world.machine(NAME).files.read_bytes("/store/config/delayOffset.json")
    assert b'"offsetTable"' in text
    assert b'"2": 1' in text


async def test_a_message_that_cant_be_read_is_skipped_and_delays_no_other(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    for number in range(5):
        await stand.send("orders", b"%d" % number, DELAY="2")
    third = (await stand.stored(SCHEDULE, 1))[2]
    log = world.disk(NAME).files["/store/commitlog/00000000000000000000"]
    log.content[third.log_position : third.log_position + 4] = b"torn"
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [b"0", b"1", b"3", b"4"]
    assert stand.broker.delays.next_due_ms() is None


@pytest.mark.row("D2")
async def test_what_falls_due_while_the_disk_is_full_waits_for_room(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"later", DELAY="4")
    world.disk(NAME).others_bytes = (95 << 40) // 100
    await world.run_for(seconds=60)
    assert await stand.stored("orders") == []
    world.disk(NAME).others_bytes = 0
    await world.run_for(seconds=11)
    assert await stand.bodies("orders") == [b"later"]
