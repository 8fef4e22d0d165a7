"""Pops and notifications that wait, and what ends them."""

import asyncio
from typing import Any

import pytest

from staticfire.protocol.requests.pop import CancelPop, Notification, PollingInfo, PopMessage
from staticfire.protocol.requests.topics import DeleteTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, NAME, BrokerStand, text
from tests.scenarios.popping import Popper

pytestmark = pytest.mark.row("G1")


def begin(popper: Popper, poll_ms: int = 10_000, **fields: Any) -> "asyncio.Future[Any]":
    return asyncio.ensure_future(popper.pop(poll_time=poll_ms, **fields))


async def held(stand: BrokerStand, queue_id: int = 0, group: str = "billing") -> int:
    answer = await stand.ask(PollingInfo(group, "orders", queue_id))
    assert (answer.code, answer.remark) == (0, "not set any response code")
    count: int = answer.polling_num
    return count


@pytest.mark.parametrize(("kind", "wanted"), [("TAG", "B"), ("SQL92", "TAGS = 'B'")])
async def test_only_what_is_wanted_wakes(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, kind: str, wanted: str
) -> None:
    waiting = begin(popper, exp=wanted, exp_type=kind)
    await world.run_for(100)
    await stand.send("orders", b"a", TAGS="A")
    await world.run_for(100)
    assert not waiting.done()
    await stand.send("orders", b"b", TAGS="B")
    await world.run_for(20)
    assert [record.body for record in waiting.result().body.records] == [b"b"]


async def test_one_message_wakes_one_pop_the_one_that_ends_first(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    late, early = begin(popper, 9_000), begin(popper, 5_000)
    await world.run_for(100)
    assert await held(stand) == 2
    await stand.send("orders", b"a")
    await world.run_for(20)
    assert (early.done(), late.done(), await held(stand)) == (True, False, 1)
    late.cancel()


async def test_only_its_own_connection_cancels_a_pop(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    first, second = begin(popper, cancel_id=1), begin(popper, cancel_id=2)
    await world.run_for(100)
    others = ConnectionPool(world.machine("other", "10.0.0.10"))
    await others.ask(ADDRESS, CancelPop("billing", "orders", 1))
    await others.close()
    assert await held(stand) == 2
    assert (await stand.ask(CancelPop("billing", "orders", 1))).code == 0
    assert (first.result().code, first.result().remark, second.done()) == (210, "NO_MESSAGE_IN_QUEUE", False)
    assert (await stand.ask(CancelPop("billing", "orders", 1))).code == 0  # It isn't held any more.
    await stand.send("orders", b"a")
    await world.run_for(20)
    assert [record.body for record in second.result().body.records] == [b"a"]


async def test_what_one_pop_leaves_wakes_the_next(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    waiting = [begin(popper, count=1) for _ in range(3)]
    await world.run_for(100)
    await asyncio.gather(*(stand.send("orders", b"%d" % number) for number in range(3)))
    await world.run_for(50)
    assert sorted(one.result().body.records[0].body for one in waiting) == [b"0", b"1", b"2"]


@pytest.mark.usefixtures("popper")
async def test_one_pop_of_each_group_is_woken(world: SimulatedWorld, stand: BrokerStand) -> None:
    waiting = [begin(Popper(stand, group), queue_id=-1) for group in ("billing", "shipping")]
    await world.run_for(100)
    await stand.send("orders", b"a", 3)
    await world.run_for(20)
    assert [one.result().code for one in waiting] == [0, 0]


@pytest.mark.parametrize("queue_id", [-1, 0, -5])
async def test_negative_queue_ids_are_keys_of_their_own(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, queue_id: int
) -> None:
    waiting = begin(popper, 1_000, queue_id=queue_id)
    await world.run_for(100)
    assert [await held(stand, key) for key in (-1, 0, -5)] == [int(key == queue_id) for key in (-1, 0, -5)]
    await world.run_for(1_000)
    assert waiting.result().code == 210


async def test_too_many_pops_at_all(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await stand.restart(max_pop_polling_size=1)
    waiting = begin(popper)
    await world.run_for(100)
    assert (await popper.pop(queue_id=1, poll_time=5_000)).code == 209
    waiting.cancel()


async def test_too_many_pops_of_a_key(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    await stand.restart(pop_polling_size=1)
    waiting = [begin(popper), begin(popper)]
    await world.run_for(100)
    refused = await popper.pop(poll_time=5_000)
    assert (refused.code, refused.remark, refused.start_offset_info) == (209, "NO_MESSAGE_IN_QUEUE", "")
    requested = [asyncio.ensure_future(stand.ask(Notification("billing", "orders", 0, 5_000, 0))) for _ in range(3)]
    await world.run_for(100)
    assert [one.done() and one.result().polling_full for one in requested] == [False, False, True]
    for one in [*waiting, *requested]:
        one.cancel()


async def test_a_topic_that_disappears_is_reported_at_the_deadline(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    waiting = begin(popper, 2_000)
    await world.run_for(100)
    await stand.ask(DeleteTopic("orders"))
    await world.run_for(2_000)
    assert waiting.result().code == 17


async def test_a_pop_whose_client_is_gone_takes_nothing(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper
) -> None:
    pool = ConnectionPool(world.machine("gone", "10.0.0.8"))
    request = PopMessage("billing", "orders", 0, 32, 60_000, 20_000, 0, 0)
    asking = asyncio.ensure_future(pool.ask(ADDRESS, request, 30_000))
    await world.run_for(100)
    asking.cancel()
    await pool.close()
    await world.run_for(100)
    await stand.send("orders", b"a")
    assert await popper.bodies() == [b"a"]
    assert await held(stand) == 0


@pytest.mark.usefixtures("popper")
async def test_a_notification_waits_for_a_message(world: SimulatedWorld, stand: BrokerStand) -> None:
    requested = asyncio.ensure_future(stand.ask(Notification("billing", "orders", -1, 5_000, 0)))
    other = asyncio.ensure_future(stand.ask(Notification("billing", "orders", 1, 2_000, 0)))
    await world.run_for(500)
    await stand.send("orders", b"a", 2)
    await world.run_for(20)
    assert (requested.result().has_msg, other.done()) == (True, False)
    await world.run_for(2_000)
    answer = other.result()
    assert (answer.code, answer.has_msg, answer.polling_full) == (0, False, False)
    assert (await stand.ask(Notification("shipping", "orders", -1, 5_000, 0))).has_msg
    refused = await stand.ask(Notification("billing", "NOPE", 0, 5_000, 0))
    assert (refused.code, refused.has_msg, refused.polling_full) == (17, False, False)


async def test_a_stop_answers_what_waits(world: SimulatedWorld, stand: BrokerStand, popper: Popper) -> None:
    waiting = begin(popper, 20_000)
    await world.run_for(100)
    await world.stop(NAME)
    assert (await waiting).code == 210


@pytest.mark.row("G5")
@pytest.mark.parametrize(("wakes", "version"), [(False, 1), (True, 1), (False, 2)])
async def test_whether_what_comes_back_wakes(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, wakes: bool, version: int
) -> None:
    await stand.restart(
        wake_pops_of_returning=wakes, enable_retry_topic_v2=version == 2, retrieve_message_from_pop_retry_topic_v1=False
    )
    await stand.send("orders", b"a")
    await popper.pop(invisible_ms=2_000)
    waiting = begin(popper, 8_000, queue_id=-1)
    await world.run_for(2_050)
    assert waiting.done() is (wakes or version == 2)
    await world.run_for(6_000)
    (record,) = waiting.result().body.records
    assert (record.body, record.reconsume_times) == (b"a", 1)


@pytest.mark.row("G5")
@pytest.mark.parametrize("version", [1, 2])
async def test_what_comes_back_to_either_version_of_the_retry_topic_wakes(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, version: int
) -> None:
    await stand.restart(wake_pops_of_returning=True, enable_retry_topic_v2=version == 2)
    await stand.send("orders", b"a")
    await popper.pop(invisible_ms=100)
    await world.run_for(200)
    # The message is in the retry topic of this version now, and returns to it each time.
    await stand.restart(enable_retry_topic_v2=True)
    for _ in range(10):  # A random number decides which version a pop reads first.
        waiting = begin(popper, 8_000, invisible_ms=1_000)
        await world.run_for(1_050)
        assert [record.body for record in waiting.result().body.records] == [b"a"]


@pytest.mark.row("G5")
@pytest.mark.parametrize("has_dead_letters", [False, True])
async def test_what_comes_back_too_often_is_dead(
    world: SimulatedWorld, stand: BrokerStand, popper: Popper, has_dead_letters: bool
) -> None:
    await stand.restart(pop_dead_letters=has_dead_letters)
    await stand.put_group("billing", retry_max_times=2)
    await stand.send("orders", b"a", UNIQ_KEY="U1", KEYS="k")
    for _ in range(3):
        assert await popper.bodies(invisible_ms=1_000) == [b"a"]
        await world.run_for(1_100)
    assert await popper.bodies() == ([] if has_dead_letters else [b"a"])
    if has_dead_letters:
        (letter,) = await stand.stored("%DLQ%billing")
        assert (letter.body, letter.reconsume_times) == (b"a", 3)
        names = ("UNIQ_KEY", "KEYS", "RETRY_TOPIC", "POP_CK")
        assert [text(letter, name) for name in names] == ["U1", "k", "orders", None]
        assert stand.broker.tables.groups.retries.dead_letters == {"billing": 1}
