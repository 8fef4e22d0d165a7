"""A consumer gives messages back: retries, dead letters, and everything that a broker answers to it."""

import asyncio
from typing import Any

import pytest

from staticfire.broker.groups.retries import DeadLetterStored, SentBack
from staticfire.protocol.delay_levels import DEFAULT_DELAY_LEVELS
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.send_back import SendBack
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, BrokerStand, ask_as_an_old_client, text

RETRY, DEAD = "%RETRY%billing", "%DLQ%billing"


async def sent(stand: BrokerStand, **properties: Any) -> StoredRecord:
    """Return a message that was sent just now."""
    await stand.send("orders", b"cancelled", queue_id=1, **properties)
    return (await stand.stored("orders", 1))[-1]


# -- the road ----------------------------------------------------------------------------------------------------------


@pytest.mark.row("A4", "A6")
async def test_a_message_sent_back_comes_again_with_all_it_had(world: SimulatedWorld, stand: BrokerStand) -> None:
    first = await sent(stand, UNIQ_KEY="U1", TAGS="paid", KEYS="a", mine="yes", WAIT="true")
    assert (await stand.send_back(first, origin_msg_id="U1", origin_topic="orders")).code == 0
    await world.run_for(seconds=9.9)
    assert await stand.stored(RETRY) == []
    await world.run_for(200)
    (again,) = await stand.stored(RETRY)
    assert (again.body, again.flag, again.sys_flag, again.born_ms, again.born_host) == (
        (first.body, first.flag, first.sys_flag, first.born_ms, first.born_host)
    )
    assert (again.reconsume_times, again.queue_offset) == (1, 0)
    assert again.log_position > first.log_position
    offset_id = f"0A00000200002A9F{first.log_position:016X}"
    assert {name: text(again, name) for name in text_names(again)} == {
        **{name: text(first, name) for name in text_names(first)},
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": offset_id,
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": RETRY,
        "REAL_QID": "0",
    }
    assert (await stand.send_back(again)).code == 0
    await world.run_for(seconds=30.1)
    later = (await stand.stored(RETRY))[-1]
    assert (later.reconsume_times, text(later, "RETRY_TOPIC")) == (2, "orders")
    assert (text(later, "ORIGIN_MESSAGE_ID"), text(later, "DELAY")) == (offset_id, "4")


async def test_with_sync_flush_it_is_given_back_when_the_disk_has_it(world: SimulatedWorld, stand: BrokerStand) -> None:
    """RocketMQ answers before: a loss of power takes the retry, and the group has gone on."""
    await stand.restart(flush_disk_type="SYNC_FLUSH")
    first = await sent(stand)
    world.disk(NAME).sync_ms = 500
    given_back = asyncio.ensure_future(stand.send_back(first))
    await world.run_for(200)
    assert not given_back.done()
    await world.run_for(1_000)
    assert (await given_back).code == 0


def text_names(record: StoredRecord) -> list[str]:
    return [entry.split(b"\x01")[0].decode() for entry in record.properties.split(b"\x02") if entry]


@pytest.mark.row("A5", "A7")
async def test_the_whole_road_takes_16_retries_and_4_hours_45_minutes_40_seconds(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    record = await sent(stand, UNIQ_KEY="U1")
    started_ms = stand.message_ms
    for times in range(16):
        assert (await stand.send_back(record)).code == 0
        delay_ms = DEFAULT_DELAY_LEVELS.delay_ms(3 + times)
        stand.jump(delay_ms - 100)
        await world.run_for(1)
        assert len(await stand.stored(RETRY)) == times
        stand.jump(100)
        await world.run_for(1)
        record = (await stand.stored(RETRY))[-1]
        assert (record.reconsume_times, text(record, "UNIQ_KEY")) == (times + 1, "U1")
    assert await stand.stored(DEAD) == []
    assert (await stand.send_back(record)).code == 0
    (dead,) = await stand.stored(DEAD)
    assert (dead.body, dead.reconsume_times, text(dead, "UNIQ_KEY")) == (b"cancelled", 17, "U1")
    assert (text(dead, "RETRY_TOPIC"), text(dead, "DELAY")) == ("orders", "0")
    hours_ms = (4 * 60 + 45) * 60_000 + 40_000
    assert hours_ms <= dead.stored_ms - started_ms < hours_ms + 5_000
    assert stand.broker.delays.next_due_ms() is None


@pytest.mark.row("A1", "A5")
@pytest.mark.parametrize(
    ("delay_level", "max_reconsume_times", "waits_in"),
    [(0, None, 3), (1, None, 1), (7, 16, 7), (99, None, 18), (-1, None, None), (5, 0, None), (5, -1, None)],
)
async def test_client_and_broker_choose_the_level(
    stand: BrokerStand, delay_level: int, max_reconsume_times: int | None, waits_in: int | None
) -> None:
    record = await sent(stand)
    answer = await stand.send_back(record, delay_level=delay_level, max_reconsume_times=max_reconsume_times)
    assert answer.code == 0
    assert stand.broker.delays.queue.waiting() == ({} if waits_in is None else {waits_in: 1})
    assert len(await stand.stored(DEAD)) == (1 if waits_in is None else 0)


@pytest.mark.row("A5")
async def test_the_group_decides_for_clients_before_3_4_9(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.put_group("billing", retry_max_times=1)
    record = await sent(stand)
    request = SendBack(record.log_position, "billing", 1, max_reconsume_times=0)
    assert (await ask_as_an_old_client(world, request)).code == 0
    await world.run_for(seconds=1.1)
    (again,) = await stand.stored(RETRY)
    await ask_as_an_old_client(world, SendBack(again.log_position, "billing", 1, max_reconsume_times=9))
    assert [dead.reconsume_times for dead in await stand.stored(DEAD)] == [2]


@pytest.mark.row("A3", "A4")
async def test_retries_are_spread_over_the_groups_retry_queues(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.put_group("billing", retry_queue_nums=3)
    for _ in range(40):
        await stand.send_back(await sent(stand), delay_level=1)
    await world.run_for(seconds=2)
    counts = [len(await stand.stored(RETRY, queue_id)) for queue_id in range(3)]
    assert sum(counts) == 40
    assert min(counts) > 5


@pytest.mark.row("A3", "A4")
async def test_no_retry_goes_to_a_queue_that_members_dont_read(world: SimulatedWorld, stand: BrokerStand) -> None:
    """The group has more retry queues now than its retry topic had when it was created."""
    await stand.put_group("billing", retry_queue_nums=8)
    await stand.put_topic(RETRY, queues=1)
    for _ in range(10):
        await stand.send_back(await sent(stand), delay_level=1)
    await world.run_for(seconds=2)
    assert len(await stand.stored(RETRY)) == 10


@pytest.mark.row("A5")
@pytest.mark.parametrize(("dlq_perm", "readable"), [(6, True), (2, False)])
async def test_the_permission_of_dead_letters_is_a_setting(stand: BrokerStand, dlq_perm: int, readable: bool) -> None:
    await stand.restart(dlq_perm=dlq_perm)
    await stand.send_back(await sent(stand), delay_level=-1)
    topic = stand.broker.tables.topics.get(DEAD)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, dlq_perm)
    assert len(await stand.stored(DEAD)) == (1 if readable else 0)
    assert (await stand.send(DEAD, b"sent again")).code == 0


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.row("A3")
@pytest.mark.parametrize("group", ["not legal", "g" * 256])
async def test_an_unknown_group_that_cant_be_created_is_refused(stand: BrokerStand, group: str) -> None:
    answer = await stand.send_back(await sent(stand), group)
    assert answer.code == 26
    assert answer.remark is not None
    assert answer.remark.startswith(f"subscription group not exist, {group} ")
    assert "https://" in answer.remark


@pytest.mark.row("A3")
async def test_a_broker_that_creates_no_groups_refuses_unknown_ones(stand: BrokerStand) -> None:
    record = await sent(stand)
    await stand.put_group("known")
    await stand.restart(auto_create_subscription_group=False)
    assert (await stand.send_back(record, "known")).code == 0
    assert (await stand.send_back(record, "unknown")).code == 26


@pytest.mark.row("A3")
async def test_a_broker_that_cant_be_written_to_refuses(stand: BrokerStand) -> None:
    record = await sent(stand)
    await stand.restart(broker_permission=4)
    answer = await stand.send_back(record)
    assert (answer.code, answer.remark) == (16, "the broker[10.0.0.2] sending message is forbidden")


@pytest.mark.row("A3")
@pytest.mark.parametrize(("refuse", "code"), [(False, 0), (True, 16)])
async def test_a_retry_sent_as_a_message_to_a_broker_that_cant_be_written_to(
    stand: BrokerStand, refuse: bool, code: int
) -> None:
    """RocketMQ takes it until clients have seen the new route; refuseRetriesWhenReadOnly doesn't."""
    await stand.put_group("billing")
    await stand.restart(broker_permission=4, refuse_retries_when_read_only=refuse)
    assert (await stand.send(RETRY, b"x", DELAY="3")).code == code
    assert (await stand.send("orders", b"x")).code == 0


@pytest.mark.row("A3")
async def test_a_slave_refuses(stand: BrokerStand) -> None:
    record = await sent(stand)
    await stand.restart(broker_id=1)
    answer = await stand.send_back(record)
    assert (answer.code, answer.remark) == (1, "no master available along with 10.0.0.2")


@pytest.mark.row("A3")
async def test_a_send_back_of_a_group_without_retries_is_answered_with_success(stand: BrokerStand) -> None:
    await stand.put_group("billing", retry_queue_nums=0)
    position = stand.broker.state.store.max_position
    assert (await stand.ask(SendBack(0, "billing", 0))).code == 0
    assert stand.broker.state.store.max_position == position
    assert stand.broker.tables.topics.get(RETRY) is None


@pytest.mark.row("A3")
async def test_a_retry_topic_that_cant_be_written_to_is_refused(stand: BrokerStand) -> None:
    await stand.put_topic(RETRY, 1, perm=4)
    answer = await stand.send_back(await sent(stand))
    assert (answer.code, answer.remark) == (16, f"the topic[{RETRY}] sending message is forbidden")


@pytest.mark.row("A3")
@pytest.mark.parametrize("position", [-1, 3, 10**12])
async def test_a_position_without_a_record_is_an_error_and_creates_the_retry_topic(
    stand: BrokerStand, position: int
) -> None:
    await sent(stand)
    answer = await stand.ask(SendBack(position, "billing", 0))
    assert (answer.code, answer.remark) == (1, f"look message by offset failed, {position}")
    assert stand.broker.tables.topics.get(RETRY) is not None


async def test_a_refused_retry_reports_what_is_wrong_with_it(stand: BrokerStand) -> None:
    """What a retry adds to the properties doesn't fit any more: the refusal says how long they are, and may be."""
    assert (await stand.send("orders", b"x", note="n" * 32_640)).code == 0
    (first,) = await stand.stored("orders")
    answer = await stand.send_back(first)
    assert answer.code == 1
    assert answer.remark is not None
    assert "its properties have 32" in answer.remark
    assert "bytes, the limit is 32767" in answer.remark


async def test_names_that_are_too_long_for_dead_letters_but_not_for_retries(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    group = "g" * 200
    record = await sent(stand)
    assert (await stand.send_back(record, group, 1)).code == 0
    answer = await stand.send_back(record, group, -1)
    assert (answer.code, answer.remark) == (1, "MESSAGE_ILLEGAL")
    await world.run_for(seconds=1.1)
    assert len(await stand.stored(f"%RETRY%{group}")) == 1


@pytest.mark.row("A3")
async def test_it_is_answered_only_when_it_is_stored(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.put_topic(RETRY, queues=1)  # As the first heartbeat of a member does, long before.
    record = await sent(stand)
    await stand.send_back(record, delay_level=1)
    world.disk(NAME).bytes_left = 0
    answer = await stand.send_back(record, delay_level=1)
    assert (answer.code, answer.remark) == (1, "SERVICE_NOT_AVAILABLE")
    world.disk(NAME).bytes_left = None
    await stand.kill_and_start()
    await world.run_for(seconds=2)
    assert len(await stand.stored(RETRY)) == 1


@pytest.mark.row("A3")
async def test_a_broker_killed_after_the_answer_still_has_the_retry(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.put_topic(RETRY, queues=1)  # As the first heartbeat of a member does, long before.
    await stand.send_back(await sent(stand))
    await stand.kill_and_start()
    await world.run_for(seconds=11)
    assert len(await stand.stored(RETRY)) == 1


# -- who watches -------------------------------------------------------------------------------------------------------


@pytest.mark.row("A8", "A5")
async def test_hooks_see_each_send_back_and_each_dead_letter(stand: BrokerStand) -> None:
    seen: list[SentBack] = []
    dead: list[DeadLetterStored] = []
    watch = stand.broker.tables.groups.retries
    watch.consume_hooks.append(seen.append)
    watch.dead_letter_hooks.append(dead.append)
    record = await sent(stand)
    await stand.send_back(record, origin_msg_id="U1", origin_topic="orders")
    await stand.send_back(record, delay_level=-1)
    assert [(one.group, one.topic, one.queue_id, one.queue_offset, one.delay_level, one.success) for one in seen] == [
        ("billing", "orders", 1, 0, 3, True),
        ("billing", "orders", 1, 0, None, True),
    ]
    assert (seen[0].origin_message_id, seen[0].reconsume_times) == ("U1", 1)
    (letter,) = dead
    assert (letter.group, letter.topic, letter.queue_offset, letter.origin_topic) == ("billing", DEAD, 0, "orders")
    assert watch.dead_letters == {"billing": 1}


@pytest.mark.row("A8")
async def test_a_hook_sees_what_could_not_be_stored(world: SimulatedWorld, stand: BrokerStand) -> None:
    seen: list[SentBack] = []
    record = await sent(stand)
    await stand.send_back(record, delay_level=-1)
    stand.broker.tables.groups.retries.consume_hooks.append(seen.append)
    world.disk(NAME).bytes_left = 0
    await stand.send_back(record, delay_level=-1)
    assert [(one.success, one.status) for one in seen] == [(False, "SERVICE_NOT_AVAILABLE")]
    assert stand.broker.tables.groups.retries.dead_letters == {"billing": 1}
    world.disk(NAME).bytes_left = None


# -- what clients send to the retry topic themselves -------------------------------------------------------------------


@pytest.mark.row("A2")
async def test_a_message_sent_to_the_retry_topic_comes_after_its_delay(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.put_group("billing")
    assert (await stand.send(RETRY, b"x", reconsume_times=3, DELAY="6", RETRY_TOPIC="orders")).code == 0
    await world.run_for(minutes=2.1)
    assert [(record.body, record.reconsume_times) for record in await stand.stored(RETRY)] == [(b"x", 3)]


@pytest.mark.row("A2", "A5")
@pytest.mark.parametrize(
    ("times", "times_max", "is_dead"),
    [(16, None, False), (17, None, True), (3, 3, False), (4, 3, True), (None, None, False), (None, -1, True)],
)
async def test_it_is_a_dead_letter_when_it_came_back_more_often_than_it_may(
    stand: BrokerStand, times: int | None, times_max: int | None, is_dead: bool
) -> None:
    answer = await stand.send(RETRY, b"x", queue_id=2, reconsume_times=times, max_reconsume_times=times_max, DELAY="3")
    assert (answer.code, answer.queue_id) == (0, 2)
    dead = await stand.stored(DEAD)
    assert len(dead) == is_dead
    if is_dead:
        assert (text(dead[0], "DELAY"), dead[0].reconsume_times) == ("-1", times or 0)
        assert stand.broker.tables.groups.retries.dead_letters == {"billing": 1}
        assert stand.broker.delays.next_due_ms() is None


async def test_a_retry_topic_of_a_group_that_cant_be_created_is_refused(stand: BrokerStand) -> None:
    await stand.restart(auto_create_subscription_group=False)
    answer = await stand.send(RETRY, b"x")
    assert answer.code == 26
    assert (await stand.send(RETRY, b"x", queue_id=9)).code == 29
