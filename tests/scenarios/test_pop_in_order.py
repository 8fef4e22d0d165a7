"""Messages that are popped in order: one attempt at a time, counted, and free again when all is acknowledged or due."""

import asyncio
from typing import Any

import pytest

from staticfire.protocol.numbers import INT64_MAX, INT64_MIN
from staticfire.protocol.requests.pop import Notification
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.protocol.requests.topics import DeleteTopic, UpdateTopic
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand
from tests.scenarios.popping import INVISIBLE_MS, Popper, handles, offsets

pytestmark = pytest.mark.row("G1")


async def take(popper: Popper, count: int = 3, **fields: Any) -> Any:
    return await popper.pop(count=count, order=True, **fields)


async def send(stand: BrokerStand, count: int, queue_id: int = 0) -> None:
    for index in range(count):
        await stand.send("orders", b"%d" % index, queue_id)


async def test_a_queue_is_blocked_until_all_is_acknowledged(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 6)
    await send(stand, 1, queue_id=1)
    answer = await take(popper)
    assert (answer.revive_qid, answer.order_count_info, await popper.committed()) == (999, "0 0 0", 0)
    blocked = await take(popper)
    assert (blocked.code, blocked.rest_num, blocked.order_count_info) == (210, 0, "")
    assert offsets(await take(popper, queue_id=1)) == [0]
    reported = handles(answer)
    for offset, committed in ((1, 0), (0, 2), (2, 3)):
        assert (await popper.ack(offset, reported[offset])).code == 0
        assert await popper.committed() == committed
    assert offsets(await take(popper)) == [3, 4, 5]


async def test_an_acknowledgement_of_what_was_not_taken(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 6)
    reported = handles(await take(popper))
    for offset in (1, 0):
        await popper.ack(offset, reported[offset])
    refused = await popper.ack(5, reported[0])
    words = "offset is illegal, key:orders@billing@0, old:2, commit:5, next:-1, /10.0.0.9:"
    assert (refused.code, refused.remark.startswith(words)) == (13, True)
    assert (await popper.ack(0, reported[0])).code == 0
    stale = reported[2].replace(reported[2].split()[1], "1")
    assert (await popper.ack(2, stale)).code == 0
    assert await popper.committed() == 2


async def test_what_is_due_comes_again_from_its_queue_and_is_counted(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, 6)
    await popper.ack_all(await take(popper))
    await take(popper, 2)
    await world.run_for(INVISIBLE_MS - 100)
    assert (await take(popper)).code == 210
    await world.run_for(200)
    again = await take(popper)
    assert (again.start_offset_info, again.msg_offset_info) == ("0 0 3", "0 0 3,4,5")
    assert again.order_count_info == "0 qo0%3 1;0 qo0%4 1;0 0 0"
    assert {record.reconsume_times for record in again.body.records} == {0}
    reported = handles(again)
    await world.run_for(100)
    now_ms = stand.message_ms
    for offset, invisible_ms in ((3, 1_000), (4, 1_500), (5, 1_500)):
        changed = await popper.change(offset, reported[offset - 3], invisible_ms)
        assert (changed.code, changed.pop_time, changed.revive_qid) == (0, again.pop_time, 999)
        assert 0 <= changed.invisible_time - (invisible_ms + now_ms - again.pop_time) < 50
    await world.run_for(1_200)
    assert (await take(popper)).code == 210
    await world.run_for(400)
    third = await take(popper)
    assert third.order_count_info == "0 qo0%3 2;0 qo0%4 2;0 qo0%5 1;0 0 1"


async def test_the_largest_invisible_time_costs_no_other_group_its_messages(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    """Both events are in one record: if one can't be read at the next start, neither can the other."""
    await send(stand, 1)
    await stand.put_topic("payments")
    await stand.send("payments", b"payment")
    other = Popper(stand, "accounting", "payments")
    (handle,) = handles(await take(popper))
    changed, popped = await asyncio.gather(popper.change(0, handle, INT64_MAX), other.pop())
    assert (changed.code, len(offsets(popped))) == (0, 1)
    await world.run_for(seconds=8)  # The offsets are saved.
    await stand.kill_and_start()
    await world.run_for(INVISIBLE_MS)
    assert await other.bodies() == [b"payment"]
    assert (await take(popper)).code == 210


@pytest.mark.parametrize("pop_ms", [INT64_MIN, INT64_MAX])
@pytest.mark.parametrize("invisible_ms", [INT64_MIN, INT64_MAX])
async def test_a_change_is_answered_whatever_its_numbers_are(
    stand: BrokerStand, popper: Popper, pop_ms: int, invisible_ms: int
) -> None:
    await send(stand, 1)
    (handle,) = handles(await take(popper))
    parts = handle.split()
    parts[1] = str(pop_ms)
    changed = await popper.change(0, " ".join(parts), invisible_ms)
    assert (changed.code, changed.pop_time) == (0, pop_ms)


async def test_the_same_attempt_gets_the_same_again(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 3)
    first = await take(popper, attempt_id="A1")
    await world.run_for(10)
    again = await take(popper, attempt_id="A1")
    assert (offsets(first), offsets(again), again.order_count_info) == ([0, 1, 2], [0, 1, 2], "0 0 0")
    assert (await take(popper, attempt_id="A2")).code == 210
    await popper.ack(0, handles(first)[0])  # its pop time is over
    assert await popper.committed() == 0
    await popper.ack_all(again)
    assert await popper.committed() == 3


async def test_a_handle_of_an_earlier_attempt_hides_nothing(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, 1)
    earlier = handles(await take(popper))[0]
    await world.run_for(INVISIBLE_MS + 100)
    await take(popper)
    assert (await popper.change(0, earlier, 10 * INVISIBLE_MS)).code == 0
    await world.run_for(INVISIBLE_MS + 100)
    assert offsets(await take(popper)) == [0]


async def test_without_a_state_an_acknowledgement_moves_the_group(stand: BrokerStand, popper: Popper) -> None:
    await take(popper)
    await send(stand, 3)
    now_ms = stand.broker.state.clock.message_ms()
    assert (await popper.ack(1, f"0 {now_ms} 1 999 0 broker-a 0 1")).code == 0
    assert await popper.committed() == 2
    assert offsets(await take(popper)) == [2]


@pytest.mark.parametrize("is_empty_at_pop", [False, True])
@pytest.mark.parametrize("is_late", [False, True])
async def test_an_acknowledgement_of_a_deleted_topics_message_skips_no_new_one(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, is_empty_at_pop: bool, is_late: bool
) -> None:
    await send(stand, 1)
    [old] = handles(await take(popper))
    await stand.ask(DeleteTopic("orders"))
    await world.run_for(100)
    await stand.ask(UpdateTopic("orders", 4, 4, 6))
    if is_empty_at_pop:
        assert (await take(popper)).code == 210  # The group has an offset now.
    if is_late:
        await send(stand, 2)
    assert (await popper.ack(0, old)).code == 0
    if not is_late:
        await send(stand, 2)
    assert offsets(await take(popper)) == [0, 1]


async def test_a_reset_ends_what_was_taken(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, 10)
    old = handles(await take(popper, 10))
    assert (await stand.ask(ResetOffset("billing", "orders", -1, False, 0, 2))).code == 0
    assert (await popper.ack(5, old[5])).code == 0
    assert await popper.committed() == 2
    again = await take(popper, 32)
    assert offsets(again) == [2, 3, 4, 5, 6, 7, 8, 9]
    await popper.ack(5, old[5])
    assert await popper.committed() == 2
    await popper.ack_all(again)
    assert await popper.committed() == 10


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_restart_keeps_the_order(world: SimulatedWorld, stand: BrokerStand, popper: Popper, how: str) -> None:
    await send(stand, 4)
    answer = await take(popper, 3, attempt_id="A1")
    reported = handles(answer)
    await popper.ack(0, reported[0])
    await popper.change(1, reported[1], 20_000)
    await (stand.restart() if how == "stop" else stand.kill_and_start())
    assert (await popper.committed(), (await take(popper)).code) == (1, 210)
    await popper.ack(1, reported[1])
    assert await popper.committed() == 2
    assert offsets(await take(popper, 1, attempt_id="A1")) == [2]
    await world.run_for(INVISIBLE_MS + 100)
    again = await take(popper)
    assert (offsets(again), again.order_count_info) == ([2, 3], "0 qo0%2 1;0 0 0")


@pytest.mark.parametrize("freed_by", ["ack", "time"])
async def test_a_held_pop_gets_a_queue_that_becomes_free(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, freed_by: str
) -> None:
    await send(stand, 2)
    reported = handles(await take(popper, 1, invisible_ms=2_000))
    waiting = asyncio.ensure_future(take(popper, poll_time=15_000))
    await world.run_for(500)
    assert not waiting.done()
    if freed_by == "ack":
        await popper.ack(0, reported[0])
    await world.run_for(1_600 if freed_by == "time" else 20)
    assert offsets(waiting.result()) == ([1] if freed_by == "ack" else [0, 1])


@pytest.mark.parametrize(
    ("fields", "has_message"),
    [({}, True), ({"order": True}, False), ({"order": True, "attempt_id": "A1"}, True),
     ({"order": True, "attempt_id": "A2"}, False)],
)  # fmt: skip
async def test_a_notification_sees_what_is_blocked(
    stand: BrokerStand, popper: Popper, fields: dict[str, Any], has_message: bool
) -> None:
    await send(stand, 2)
    await take(popper, 1, attempt_id="A1")
    answer = await stand.ask(Notification("billing", "orders", 0, 0, 0, **fields))
    assert (answer.code, answer.has_msg, answer.polling_full) == (0, has_message, False)
