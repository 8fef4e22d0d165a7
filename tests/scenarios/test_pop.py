"""Messages that are popped: once, again when nobody acknowledges them, and whatever happens to the broker meanwhile."""

import asyncio
from typing import Any

import pytest

from staticfire.protocol.requests.config import UpdateBrokerConfig
from staticfire.protocol.requests.reset_offset import ResetOffset
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand, text
from tests.scenarios.popping import INVISIBLE_MS, Popper, handles, offsets

pytestmark = pytest.mark.row("G1")

RETRY = "%RETRY%billing_orders"
EMPTY, FULL = 210, 209


async def send(stand: BrokerStand, *bodies: str, queue_id: int = 0, **properties: Any) -> None:
    for body in bodies:
        assert (await stand.send("orders", body.encode(), queue_id, **properties)).code == 0


async def test_what_is_popped_is_popped_once(stand: BrokerStand, popper: Popper) -> None:
    await send(stand, "a", "b", "c")
    answer = await popper.pop()
    assert (answer.code, answer.remark, answer.rest_num, answer.revive_qid in range(8)) == (0, "FOUND", 0, True)
    assert (answer.start_offset_info, answer.msg_offset_info) == ("0 0 0", "0 0 0,1,2")
    assert (answer.order_count_info, answer.invisible_time) == (None, INVISIBLE_MS)
    assert [record.body for record in answer.body.records] == [b"a", b"b", b"c"]
    again = await popper.pop()
    assert (again.code, again.remark, again.start_offset_info, again.msg_offset_info) == (
        EMPTY, "NO_MESSAGE_IN_QUEUE", "", "",
    )  # fmt: skip
    assert await popper.committed() == 3


async def test_what_is_not_acknowledged_is_redelivered_when_it_is_due(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, "a", "b", "c", TAGS="paid", UNIQ_KEY="U1")
    answer = await popper.pop()
    assert (await popper.ack(1, handles(answer)[1])).code == 0
    await world.run_for(INVISIBLE_MS - 100)
    assert (await popper.pop()).code == EMPTY
    await world.run_for(150)
    again = await popper.pop()
    assert [record.body for record in again.body.records] == [b"a", b"c"]
    assert (again.start_offset_info, again.msg_offset_info) == ("1 0 0", "1 0 0,1")
    for index, record in enumerate(again.body.records):
        assert (record.topic, record.queue_id, record.queue_offset, record.reconsume_times) == ("orders", 0, index, 1)
        assert text(record, "1ST_POP_TIME") == str(answer.pop_time)
        assert text(record, "TAGS") == "paid"
        expected = f"0 {again.pop_time} {INVISIBLE_MS} {again.revive_qid} 1 broker-a 0 {index}"
        assert text(record, "POP_CK") == expected
    await popper.ack_all(again)
    await world.run_for(3 * INVISIBLE_MS)
    assert (await popper.pop()).code == EMPTY
    assert [record.body for record in await stand.stored(RETRY)] == [b"a", b"c"]


async def test_a_message_comes_again_and_again(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, "a")
    first = (await popper.pop(invisible_ms=1_000)).pop_time
    for times in range(1, 6):
        await world.run_for(1_100)
        answer = await popper.pop(invisible_ms=1_000)
        (record,) = answer.body.records
        assert (record.body, record.reconsume_times, text(record, "1ST_POP_TIME")) == (b"a", times, str(first))


async def test_a_changed_time_counts_and_spends_the_handle(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    await send(stand, "a", "b")
    answer = await popper.pop()
    old = handles(answer)[0]
    changed = await popper.change(0, old, 30_000)
    assert (changed.code, changed.remark, changed.invisible_time) == (0, "not set any response code", 30_000)
    assert (await popper.ack(0, old)).code == 0  # and does nothing
    await world.run_for(INVISIBLE_MS + 100)
    assert await popper.bodies(invisible_ms=60_000) == [b"b"]
    await world.run_for(20_100)
    again = await popper.pop()
    assert [record.body for record in again.body.records] == [b"a"]
    assert text(again.body.records[0], "1ST_POP_TIME") == str(changed.pop_time)


async def test_the_new_handle_acknowledges(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await send(stand, "a", "b")
    answer = await popper.pop()
    changed = await popper.change(1, handles(answer)[1], 5_000)
    new = f"1 {changed.pop_time} 5000 {changed.revive_qid} 0 broker-a 0 1"
    assert (await popper.ack(1, new)).code == 0
    await world.run_for(2 * INVISIBLE_MS)
    assert await popper.bodies() == [b"a"]


async def test_a_held_pop_gets_what_arrives(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    popping = asyncio.ensure_future(popper.pop(-1, poll_time=15_000))
    other = asyncio.ensure_future(popper.pop(1, poll_time=1_000))
    await world.run_for(500)
    await send(stand, "a", queue_id=2)
    await world.run_for(50)
    assert [record.body for record in popping.result().body.records] == [b"a"]
    assert not other.done()
    await world.run_for(600)
    assert other.result().code == EMPTY


async def test_a_held_pop_ends_shortly_before_its_client_gives_up(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    popping = asyncio.ensure_future(popper.pop(0, poll_time=1_500))
    await world.run_for(1_400)
    assert not popping.done()
    await world.run_for(100)
    assert popping.result().code == EMPTY


@pytest.mark.parametrize("how", ["stop", "kill", "power"])
async def test_a_restart_forgets_nothing(world: SimulatedWorld, stand: BrokerStand, popper: Popper, how: str) -> None:
    await send(stand, "a", "b", "c", "d")
    answer = await popper.pop(count=3)
    await popper.ack(1, handles(answer)[1])
    changed = await popper.change(2, handles(answer)[2], 30_000)
    if how == "power":
        await world.run_for(2_000)
    await (stand.restart() if how == "stop" else stand.kill_and_start(power_loss=how == "power"))
    assert await popper.committed() == 3
    assert await popper.bodies(invisible_ms=60_000) == [b"d"]
    await world.run_for(INVISIBLE_MS + 200)
    assert await popper.bodies(invisible_ms=60_000) == [b"a"]
    new = f"2 {changed.pop_time} 30000 {changed.revive_qid} 0 broker-a 0 2"
    assert (await popper.ack(2, new)).code == 0
    await world.run_for(30_000)
    assert offsets(await popper.pop()) == []


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("how", ["live", "restart"])
async def test_a_reset_that_waits_when_server_side_resets_are_switched_off_is_taken_once(
    stand: BrokerStand, popper: Popper, order: bool, how: str
) -> None:
    await send(stand, "a", "b", "c")
    await popper.ack_all(await popper.pop(order=order))
    assert (await stand.ask(ResetOffset("billing", "orders", 0, False, 0, 1))).code == 0
    if how == "live":
        assert (await stand.ask(UpdateBrokerConfig(body=b"useServerSideResetOffset=false\n"))).code == 0
    else:
        await stand.restart(use_server_side_reset_offset=False)
    again = await popper.pop(order=order)
    assert offsets(again) == [1, 2]
    await popper.ack_all(again)
    assert (await popper.committed(), (await popper.pop(order=order)).code) == (3, EMPTY)
