"""Messages that wait for their time are called back: before it, after it, twice, with forged handles."""

import asyncio
import errno
import os
from itertools import count
from typing import Any

import pytest

from staticfire.broker.timers.forms import hash_of
from staticfire.protocol.names import WHEEL_TIMER_TOPIC
from staticfire.protocol.recall_handle import RecallHandle, decode_handle, encode_handle
from staticfire.protocol.requests.reset import Reset
from staticfire.protocol.requests.send import SendMessage
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import NAME, TIMER_ILLEGAL_WORDS, BrokerStand, text
from tests.scenarios.test_damage import rot

pytestmark = pytest.mark.row("D4")

OK, ILLEGAL, NO_TOPIC, REFUSED = 0, 13, 17, 604


async def test_a_recalled_message_never_comes(world: SimulatedWorld, stand: BrokerStand) -> None:
    handle = (await stand.send("orders", b"x", UNIQ_KEY="U1", TIMER_DELAY_SEC="5")).recall_handle
    await stand.send("orders", b"y", UNIQ_KEY="U2", TIMER_DELAY_SEC="5")
    answer = await stand.recall(handle)
    assert (answer.code, answer.msg_id, answer.region) == (OK, "U1", "DefaultRegion")
    marker = (await stand.stored(WHEEL_TIMER_TOPIC))[-1]
    names = ("TAGS", "TIMER_DEL_UNIQKEY", "UNIQ_KEY", "PGROUP")
    assert marker.body == b"0"
    assert [text(marker, name) for name in names] == ["_RECALL_TAG_", "orders+U1", "U1", "producers"]
    again = await stand.recall(handle)
    assert (again.code, again.msg_id, "was recalled before" in (again.remark or "")) == (OK, "U1", True)
    assert len(await stand.stored(WHEEL_TIMER_TOPIC)) == 3
    await world.run_for(seconds=10)
    assert await stand.bodies("orders") == [b"y"]


async def test_a_message_that_was_delivered_cant_be_recalled(world: SimulatedWorld, stand: BrokerStand) -> None:
    handle = (await stand.send("orders", b"x", TIMER_DELAY_SEC="5")).recall_handle
    await world.run_for(seconds=6)
    answer = await stand.recall(handle)
    assert (answer.code, answer.remark) == (REFUSED, "recall failed, timestamp invalid")


async def test_a_message_can_be_recalled_up_to_its_last_moment(world: SimulatedWorld, stand: BrokerStand) -> None:
    due_ms = stand.message_ms // 1000 * 1000 + 5_900
    handle = (await stand.send("orders", b"x", TIMER_DELIVER_MS=str(due_ms))).recall_handle
    await world.run_for(due_ms - stand.message_ms - 50)
    assert (await stand.recall(handle)).code == OK
    await world.run_for(seconds=2)
    assert await stand.bodies("orders") == []


async def test_what_was_recalled_and_is_overdue_at_a_start_doesnt_come(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    """A real broker delivers it."""
    handle = (await stand.send("orders", b"x", TIMER_DELAY_SEC="5")).recall_handle
    await stand.recall(handle)
    world.kill(NAME)
    await world.run_for(minutes=1)
    await stand.start()
    await world.run_for(seconds=2)
    assert await stand.bodies("orders") == []


async def test_all_messages_of_an_id_are_recalled_and_no_other(world: SimulatedWorld, stand: BrokerStand) -> None:
    due_ms = stand.message_ms + 70_000
    for number in range(500):
        unique_id = "U1" if number in (7, 400) else f"V{number}"
        answer = await stand.send("orders", b"%d" % number, UNIQ_KEY=unique_id, TIMER_DELIVER_MS=str(due_ms))
        handle = answer.recall_handle if number == 400 else None
    await stand.send("others", b"x", UNIQ_KEY="U1", TIMER_DELIVER_MS=str(due_ms))
    answered = await stand.recall(encode_handle(decode_handle(handle or answer.recall_handle)))
    assert answered.code == OK
    again = encode_handle(RecallHandle("orders", NAME, (due_ms - 1) // 1000 * 1000 + 1, "U1"))
    assert (await stand.recall(again)).code == OK
    await world.run_for(seconds=80)
    left = {b"%d" % number for number in range(500)} - {b"7", b"400", b"499"}
    assert set(await stand.bodies("orders")) == left
    assert await stand.bodies("others") == [b"x"]


@pytest.mark.parametrize(
    ("handle", "topic", "code", "remark"),
    [
        (None, "orders", REFUSED, "recall handle is invalid"),
        ("", "orders", REFUSED, "recall handle is invalid"),
        ("a+b/", "orders", REFUSED, "recall handle is invalid"),
        ("djEgYSBi", "orders", REFUSED, "recall handle is invalid"),
        (RecallHandle("orders", NAME, 1, "U1"), "nowhere", NO_TOPIC, "recall failed, the topic[nowhere] not exist"),
        (RecallHandle("other", NAME, 1, "U1"), "orders", REFUSED, "recall failed, topic not match"),
        (RecallHandle("orders", "z", 1, "U1"), "orders", REFUSED, "recall failed, broker service not available"),
        (RecallHandle("orders", NAME, 1, "U1"), "orders", REFUSED, "recall failed, timestamp invalid"),
        (RecallHandle("orders", NAME, -1, "U1"), "orders", REFUSED, "recall failed, timestamp invalid"),
        (RecallHandle("orders", NAME, 1 << 60, "U1"), "orders", REFUSED, "recall failed, timestamp invalid"),
    ],
)
async def test_handles_that_cant_be(
    stand: BrokerStand, handle: RecallHandle | str | None, topic: str, code: int, remark: str
) -> None:
    await stand.ask(UpdateTopic("orders", 4, 4, 6))
    encoded = encode_handle(handle) if isinstance(handle, RecallHandle) else handle
    answer = await stand.recall(encoded, topic)
    assert (answer.code, answer.remark) == (code, remark)


async def test_a_forged_recall_does_no_harm(world: SimulatedWorld, stand: BrokerStand) -> None:
    """The marker of a real broker hits whatever has this id in this second; here the topic counts as well."""
    due_ms = stand.message_ms + 5_000
    await stand.send("orders", b"x", UNIQ_KEY="U1", TIMER_DELIVER_MS=str(due_ms))
    await stand.ask(UpdateTopic("others", 4, 4, 6))
    out_ms = (due_ms - 1) // 1000 * 1000
    for topic, timestamp_ms, unique_id in (("orders", out_ms + 1001, "U1"), ("orders", out_ms + 1, "U2"),
                                           ("others", out_ms + 1, "U1")):  # fmt: skip
        answer = await stand.recall(encode_handle(RecallHandle(topic, NAME, timestamp_ms, unique_id)), topic)
        assert answer.code == OK
    refused = await stand.send("orders", b"0", TIMER_DEL_UNIQKEY="orders+U1", TIMER_DELIVER_MS=str(out_ms + 1))
    assert refused.code == ILLEGAL
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_recall_in_another_topic_that_the_index_cant_tell_apart(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    """The index has some bits of the topic and the id; the message itself has both."""
    due_ms = stand.message_ms // 1000 * 1000 + 5_000
    alike = next(topic for topic in map("t{}".format, count()) if hash_of(topic, "U1") == hash_of("orders", "U1"))
    await stand.send("orders", b"x", UNIQ_KEY="U1", TIMER_DELIVER_MS=str(due_ms))
    await stand.put_topic(alike)
    handle = RecallHandle(alike, NAME, (due_ms - 1) // 1000 * 1000 + 1, "U1")
    assert (await stand.recall(encode_handle(handle), alike)).code == OK
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_slave_recalls_nothing(stand: BrokerStand) -> None:
    await stand.put_topic("orders")
    await stand.restart(broker_id=1)
    answer = await stand.recall(encode_handle(RecallHandle("orders", NAME, stand.message_ms + 5_001, "U1")))
    assert (answer.code, answer.remark) == (11, "recall failed, broker service not available")


def same_id_twice(stand: BrokerStand) -> tuple[dict[str, Any], str]:
    """Return the properties of two messages of one id, and the handle of both."""
    due_ms = stand.message_ms // 1000 * 1000 + 5_900
    properties = {"UNIQ_KEY": "U1", "TIMER_DELIVER_MS": str(due_ms)}
    return properties, encode_handle(RecallHandle("orders", NAME, (due_ms - 1) // 1000 * 1000 + 1, "U1"))


async def test_a_damaged_message_of_the_same_id_prevents_no_recall(world: SimulatedWorld, stand: BrokerStand) -> None:
    properties, handle = same_id_twice(stand)
    for body in (b"x", b"y"):
        await stand.send("orders", body, **properties)
    first = (await stand.stored(WHEEL_TIMER_TOPIC))[0]
    rot(stand, first.log_position)
    answer = await stand.recall(handle)
    assert (answer.code, answer.remark) == (OK, "not set any response code")
    await world.run_for(seconds=8)
    assert await stand.bodies("orders") == []


async def test_a_recall_whose_message_cant_be_read_now_fails(world: SimulatedWorld, stand: BrokerStand) -> None:
    """A refused recall can be tried again; "no message" would be the last word."""
    properties, handle = same_id_twice(stand)
    await stand.send("orders", b"x", **properties)

    def fail(path: str, position: int, size: int, is_map: bool) -> int:
        if "commitlog" in path:
            raise OSError(errno.ENFILE, "too many open files", path)
        return position

    world.disk(NAME).on_read = fail
    assert (await stand.recall(handle)).code != OK
    world.disk(NAME).on_read = None
    assert (await stand.recall(handle)).code == OK
    await world.run_for(seconds=8)
    assert await stand.bodies("orders") == []


async def test_a_recall_that_cant_be_stored_is_none(world: SimulatedWorld, stand: BrokerStand) -> None:
    handle = (await stand.send("orders", b"x", TIMER_DELAY_SEC="5")).recall_handle
    world.disk(NAME).bytes_left = 0
    assert (await stand.recall(handle)).code != OK
    world.disk(NAME).bytes_left = None
    await world.run_for(seconds=6)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_half_message_with_a_time_that_cant_be_is_refused_at_once(stand: BrokerStand) -> None:
    properties = "UNIQ_KEY\x01A\x02PGROUP\x01producers\x02TRAN_MSG\x01true\x02TIMER_DELAY_SEC\x01x\x02"
    answer = await stand.ask(SendMessage("producers", "orders", "TBW102", 4, 0, 4, 0, 0, properties, body=b"x"))
    assert (answer.code, answer.remark) == (ILLEGAL, TIMER_ILLEGAL_WORDS)


@pytest.mark.parametrize(("unreadable", "error"), [("commitlog", errno.ENFILE), ("consumequeue", errno.EIO)])
async def test_a_message_that_cant_be_read_when_it_is_due_is_delivered_later(
    world: SimulatedWorld, stand: BrokerStand, unreadable: str, error: int
) -> None:
    await stand.send("orders", b"x", TIMER_DELAY_SEC="5")
    await world.run_for(seconds=2)
    await stand.restart()

    def fail(path: str, position: int, size: int, is_map: bool) -> int:
        if unreadable in path:
            raise OSError(error, os.strerror(error), path)
        return position

    world.disk(NAME).on_read = fail
    await world.run_for(seconds=8)
    world.disk(NAME).on_read = None
    await world.run_for(seconds=8)
    assert await stand.bodies("orders") == [b"x"]


async def test_a_recall_that_waits_for_the_disk_during_a_reset_recalls_no_new_message(
    world: SimulatedWorld, stand: BrokerStand
) -> None:
    await stand.restart(flush_disk_type="SYNC_FLUSH")
    handle = (await stand.send("orders", b"old", TIMER_DELAY_SEC="5")).recall_handle
    world.disk(NAME).sync_ms = 500
    waiting = asyncio.gather(stand.recall(handle), stand.ask(Reset()))
    await world.run_for(100)
    for body in (b"0", b"1"):
        assert (await stand.send("orders", body, TIMER_DELAY_SEC="5")).code == OK
    assert [answer.code for answer in await waiting] == [OK, OK]
    await world.run_for(seconds=10)
    assert await stand.bodies("orders") == [b"0", b"1"]
