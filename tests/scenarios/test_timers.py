"""Messages with a delivery time of their own: on time, once, whatever happens to the broker meanwhile."""

import asyncio
from base64 import urlsafe_b64decode
from typing import Any

import pytest

from staticfire.protocol.names import WHEEL_TIMER_TOPIC
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.send import ManyMessage, SendMany
from staticfire.protocol.requests.send_back import SendBack
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, TIMER_ILLEGAL_WORDS, BrokerStand, text
from tests.scenarios.logged import LogLine

pytestmark = pytest.mark.row("D4")

OK, SYSTEM_ERROR, ILLEGAL, NO_PERMISSION = 0, 1, 13, 16


# -- what a send asks for ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue_id", [0, 3])
async def test_a_timer_message_waits_in_rocketmqs_topic(stand: BrokerStand, queue_id: int) -> None:
    await stand.send("orders", b"0", TIMER_DELAY_MS="60000")
    due_ms = stand.message_ms + 90_000
    answer = await stand.send("orders", b"x", queue_id, UNIQ_KEY="U1", TAGS="paid", TIMER_DELIVER_MS=str(due_ms))
    assert (answer.code, answer.queue_id, answer.queue_offset, answer.transaction_id) == (OK, queue_id, 1, "U1")
    (record,) = await stand.stored(WHEEL_TIMER_TOPIC, 0, offset=1)
    assert (answer.msg_id or "").endswith(f"{record.log_position:016X}")
    out_ms = (due_ms - 1) // 1000 * 1000
    names = ("TIMER_OUT_MS", "REAL_TOPIC", "REAL_QID", "TIMER_DELIVER_MS", "TAGS")
    assert [text(record, name) for name in names] == [str(out_ms), "orders", str(queue_id), str(due_ms), "paid"]
    assert urlsafe_b64decode(answer.recall_handle or "") == f"v1 orders {NAME} {out_ms + 1} U1".encode()
    assert await stand.bodies("orders", queue_id) == []


@pytest.mark.parametrize(
    ("properties", "after_ms"),
    [
        ({"TIMER_DELAY_SEC": "5"}, 5_000),
        ({"TIMER_DELAY_MS": "1"}, 1),
        ({"TIMER_DELAY_MS": "1234"}, 1_234),
        ({"TIMER_DELAY_SEC": "+7"}, 7_000),
        ({"TIMER_DELAY_SEC": "2", "TIMER_DELAY_MS": "x", "TIMER_DELIVER_MS": "1"}, 2_000),
        ({"TIMER_DELAY_MS": "900", "TIMER_DELIVER_MS": "1"}, 900),
        ({"DELAY": "0", "TIMER_DELAY_MS": "3000"}, 3_000),
    ],
)
async def test_it_comes_when_it_is_due_and_not_before(
    world: SimulatedWorld, stand: BrokerStand, properties: dict[str, Any], after_ms: int
) -> None:
    sent_ms = stand.message_ms
    answer = await stand.send("orders", b"x", UNIQ_KEY="U1", TAGS="paid", mine="yes", **properties)
    assert (answer.code, answer.recall_handle is None) == (OK, False)
    await world.run_for(after_ms + 100)
    (record,) = await stand.stored("orders")
    assert after_ms <= record.stored_ms - sent_ms < after_ms + 100
    assert (record.body, record.flag, text(record, "mine"), text(record, "UNIQ_KEY")) == (b"x", 7, "yes", "U1")
    assert record.prepared_position < 0
    for name, value in properties.items():
        assert text(record, name) == value
    assert text(record, "TIMER_DEQUEUE_MS") == str(record.stored_ms)
    assert int(text(record, "TIMER_ENQUEUE_MS") or 0) <= record.born_ms + 1_000


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_MS": "0"},
        {"TIMER_DELAY_SEC": "-5"},
        {"TIMER_DELIVER_MS": "1"},
        {"TIMER_OUT_MS": "5", "TIMER_DELAY_MS": "x"},
        {"TIMER_DEL_UNIQKEY": "orders+U1"},
        {"TIMER_DELIVERY": "1000"},
    ],
)
async def test_what_is_due_already_or_names_no_time_is_stored_at_once(
    stand: BrokerStand, properties: dict[str, Any]
) -> None:
    answer = await stand.send("orders", b"x", **properties)
    assert (answer.code, answer.recall_handle) == (OK, None)
    (record,) = await stand.stored("orders")
    assert {name: text(record, name) for name in properties} == properties


@pytest.mark.parametrize(
    "properties",
    [
        {"TIMER_DELAY_SEC": "x", "TIMER_DELAY_MS": "5"},
        {"TIMER_DELAY_MS": "1.5"},
        {"TIMER_DELIVER_MS": "9223372036854775808"},
        {"TIMER_DELIVER_MS": "9" * 5_000},
        {"TIMER_DELAY_MS": "0" * 5_000 + "259200001"},
        {"TIMER_DELAY_SEC": "259201"},
        {"TIMER_DELAY_MS": "259200001"},
        {"TIMER_DELAY_SEC": "9223372036854775807"},
        {"TIMER_DEL_UNIQKEY": "orders+U1", "TIMER_DELIVER_MS": "1"},
    ],
)
async def test_a_time_that_cant_be_is_refused(stand: BrokerStand, properties: dict[str, Any]) -> None:
    answer = await stand.send("orders", b"x", **properties)
    assert (answer.code, answer.remark) == (ILLEGAL, TIMER_ILLEGAL_WORDS)
    assert await stand.bodies("orders") == await stand.bodies(WHEEL_TIMER_TOPIC) == []


async def test_the_farthest_time(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"x", TIMER_DELAY_SEC="259200")
    stand.jump(259_200_000 - 1_000)
    await world.run_for(500)
    assert await stand.bodies("orders") == []
    await world.run_for(600)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_level_counts_before_a_time(world: SimulatedWorld, stand: BrokerStand) -> None:
    answer = await stand.send("orders", b"x", DELAY="1", TIMER_DELAY_SEC="x")
    assert (answer.code, answer.recall_handle) == (OK, None)
    await world.run_for(seconds=1.1)
    assert await stand.bodies("orders") == [b"x"]


async def test_settings_say_whether_and_how_far(stand: BrokerStand) -> None:
    await stand.restart(timer_max_delay_sec=10)
    refused = await stand.send("orders", b"x", TIMER_DELAY_SEC="11")
    assert (refused.code, "max delay 10000ms" in (refused.remark or "")) == (ILLEGAL, True)
    handle = (await stand.send("orders", b"x", TIMER_DELAY_SEC="10")).recall_handle
    await stand.restart(timer_wheel_enable=False, recall_message_enable=False)
    refused = await stand.send("orders", b"x", TIMER_DELAY_SEC="1")
    assert refused.code == SYSTEM_ERROR
    assert (await stand.recall(handle)).code == NO_PERMISSION


async def test_no_client_sends_to_the_timers_topic(stand: BrokerStand) -> None:
    """A real broker stores it, and its timers stand still from then on."""
    assert (await stand.send(WHEEL_TIMER_TOPIC, b"x")).code == NO_PERMISSION


async def test_each_of_many_has_a_time_of_its_own(world: SimulatedWorld, stand: BrokerStand) -> None:
    times = (b"1000", b"x", b"3000")
    messages = [ManyMessage("orders", 0, b"TIMER_DELAY_MS\x01%b\x02" % time, time) for time in times]
    answer = await stand.ask(SendMany("producers", "TBW102", 4, body=messages))
    assert [result.code for result in answer.body] == [OK, ILLEGAL, OK]
    await world.run_for(seconds=2)
    assert await stand.bodies("orders") == [b"1000"]
    await world.run_for(seconds=2)
    assert await stand.bodies("orders") == [b"1000", b"3000"]


async def test_what_is_given_back_after_its_time_waits_for_its_retry(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.put_group("billing")
    await stand.send("orders", b"x", TIMER_DELAY_MS="500")
    await world.run_for(seconds=1)
    (record,) = await stand.stored("orders")
    assert (await stand.ask(SendBack(record.log_position, "billing", 1))).code == OK
    await world.run_for(seconds=1.1)
    assert await stand.bodies("%RETRY%billing") == [b"x"]


# -- delivery ----------------------------------------------------------------------------------------------------------


async def test_messages_come_in_the_order_of_their_times(world: SimulatedWorld, stand: BrokerStand) -> None:
    delays = [90_000, 10, 70_000, 5_000, 10, 8_192, 8_191, 65_536, 65_535, 131_072]
    for delay in delays:
        await stand.send("orders", b"%d" % delay, TIMER_DELIVER_MS=str(stand.message_ms // 1000 * 1000 + 2_000 + delay))
    await world.run_for(minutes=3)
    assert await stand.bodies("orders") == [b"%d" % delay for delay in sorted(delays)]


async def test_a_time_that_is_nearer_than_all_others_wakes_the_broker(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    for body, delay_s in ((b"2 d", 172_800), (b"1 h", 3_600), (b"5 s", 5), (b"1 s", 1)):
        await stand.send("orders", body, TIMER_DELAY_SEC=str(delay_s))
        await world.run_for(100)
    held = PullMessage("readers", "orders", 0, 0, 32, FLAG_SUBSCRIPTION | FLAG_SUSPEND, 0, 20_000, "*")
    answer = await stand.ask(held)
    assert answer.code != OK or [record.body for record in answer.body.records] == [b"1 s"]
    await world.run_for(seconds=5)
    assert await stand.bodies("orders") == [b"1 s", b"5 s"]


async def test_more_than_one_slice_at_once(world: SimulatedWorld, stand: BrokerStand) -> None:
    due_ms = stand.message_ms + 60_000
    for number in range(300):
        await stand.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms))
    await world.run_for(seconds=70)
    assert await stand.bodies("orders") == [b"%d" % number for number in range(300)]


async def test_a_jump_of_the_clock_delivers_what_falls_due_by_it(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"2 h", TIMER_DELAY_SEC="7200")
    await stand.send("orders", b"1 h", TIMER_DELAY_SEC="3600")
    stand.jump(3_600_000)
    await world.run_for(seconds=1)
    assert await stand.bodies("orders") == [b"1 h"]
    stand.jump(3_600_000)
    await world.run_for(seconds=1)
    assert await stand.bodies("orders") == [b"1 h", b"2 h"]


async def test_a_reset_broker_delivers_nothing_old(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"old", TIMER_DELAY_SEC="2")
    await world.run_for(seconds=3)
    await stand.send("orders", b"old", TIMER_DELAY_SEC="2")
    await stand.ask(Reset())
    assert stand.broker.timers.next_due_ms() is None
    await stand.send("orders", b"new", TIMER_DELAY_SEC="3")
    await stand.kill_and_start()
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [b"new"]


async def test_what_falls_due_while_nothing_can_be_stored_waits(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"x", TIMER_DELAY_SEC="1")
    world.disk(NAME).bytes_left = 0
    await world.run_for(seconds=5)
    world.disk(NAME).bytes_left = None
    await world.run_for(seconds=1)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_message_whose_send_still_waits_for_the_disk_is_delivered_when_it_is_due(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.restart(flush_disk_type="SYNC_FLUSH")
    world.disk(NAME).sync_ms = 3_000
    sending = asyncio.ensure_future(stand.send("orders", b"x", TIMER_DELAY_MS="1000"))
    await world.run_for(1_100)
    assert await stand.bodies("orders") == [b"x"]
    assert not sending.done()
    await sending


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("wait_s", [0, 0.5, 1.5, 3, 9.8, 12, 25])
async def test_a_killed_broker_delivers_nothing_twice_and_forgets_nothing(
    world: SimulatedWorld, stand: BrokerStand, wait_s: float, power_loss: bool
) -> None:
    stand.settings["flush_disk_type"] = "SYNC_FLUSH"
    await stand.restart()
    handles = []
    for number in range(50):
        answer = await stand.send("orders", b"%d" % number, TIMER_DELAY_MS=str(1_000 + 37 * (50 - number)))
        handles.append(answer.recall_handle)
        await world.run_for(40)
    await stand.send("orders", b"last", TIMER_DELAY_SEC="60")
    recalled = (await stand.send("orders", b"never", TIMER_DELAY_SEC="30")).recall_handle
    assert (await stand.recall(recalled)).code == OK
    await world.run_for(seconds=wait_s)
    await stand.kill_and_start(power_loss)
    await world.run_for(seconds=5)
    await stand.kill_and_start(power_loss)
    await world.run_for(minutes=2)
    found = await stand.bodies("orders")
    assert sorted(found) == sorted([*(b"%d" % number for number in range(50)), b"last"])


async def test_kills_in_the_middle_of_deliveries_one_after_the_other(world: SimulatedWorld, stand: BrokerStand) -> None:
    due_ms = stand.message_ms + 20_000
    for number in range(200):
        await stand.send("orders", b"%d" % number, TIMER_DELIVER_MS=str(due_ms + number))
    await world.run_for(due_ms - stand.message_ms + 20)
    for _ in range(8):
        await stand.kill_and_start()
        await world.run_for(15)
    await world.run_for(seconds=1)
    assert sorted(await stand.bodies("orders")) == sorted(b"%d" % number for number in range(200))


@pytest.mark.parametrize("damage", ["", '{"base": 8000, "end": 9000}', '{"logPosition": 1000000}'])
async def test_a_start_without_the_file_reads_the_log(world: SimulatedWorld, stand: BrokerStand, damage: str) -> None:
    for number in range(20):
        await stand.send("orders", b"%d" % number, TIMER_DELAY_MS=str(1_000 * (number + 1)))
    await world.run_for(seconds=10.5)
    world.kill(NAME)
    await world.run_for(10)
    files = world.machine(NAME, "10.0.0.2").files
    if damage:
        files.replace("/store/config/timers.json", damage.encode())
    elif files.exists("/store/config/timers.json"):
        files.remove("/store/config/timers.json")
    await stand.start()
    await world.run_for(seconds=15)
    assert await stand.bodies("orders") == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("damage", ["not JSON", '{"done": "%%%"}', '{"base": -1}'])
async def test_a_file_that_cant_be_read_is_rebuilt_from_the_log(
    world: SimulatedWorld, stand: BrokerStand, damage: str, logged: list[LogLine]
) -> None:
    for number in range(3):
        await stand.send("orders", b"%d" % number, TIMER_DELAY_SEC=str(1 + 10 * number))
    await world.run_for(seconds=5)
    await world.stop(NAME)
    world.machine(NAME, "10.0.0.2").files.replace("/store/config/timers.json", damage.encode())
    await stand.start()
    [line] = [line for line in logged if line.event == "state_file_made_anew"]
    assert "timers.json can't be read" in str(line.fields["error"])
    assert await stand.bodies("orders") == [b"0"]
    await stand.restart()
    await world.run_for(seconds=30)
    assert await stand.bodies("orders") == [b"0", b"1", b"2"]
    assert len([line for line in logged if line.event == "state_file_made_anew"]) == 1
