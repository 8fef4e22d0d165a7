"""Invisible times are message time: an advance steps to their ends, a skipping clock waits for who has the messages."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from staticfire.broker.pop.returning import PAUSES_S
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.numbers import INT64_MAX
from staticfire.protocol.pop_handles import parse_start_offsets
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.pop import AckMessage, ChangeInvisibleTime, PopMessage
from staticfire.protocol.requests.snapshots import SaveSnapshot
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine
from tests.scenarios.stand import Stand

pytestmark = [pytest.mark.row("G1"), pytest.mark.row("S1")]

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
NOT_AT_REST = 9001


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world, wake_pops_of_returning=True).start()
    await stand.create_topic("orders")
    yield stand
    await stand.close()


class Client:
    """Someone who pops; `is_push`: a member of the group that says so in heartbeats."""

    def __init__(self, stand: Stand, name: str = "client", host: str = "10.0.3.1") -> None:
        self._address = stand.brokers["broker-a"]
        self.pool = ConnectionPool(stand.world.machine(name, host))

    async def join(self) -> None:
        consumer = ConsumerData(
            "billing", "CONSUME_PASSIVELY", "CLUSTERING", subscription_data_set=[SubscriptionData("orders")]
        )
        await self.pool.ask(self._address, Heartbeat(body=HeartbeatData("c1", [], [consumer])), 3_000)

    async def pop(self, invisible_ms: int = MINUTE_MS, poll_ms: int = 0, order: bool = False) -> Any:
        request = PopMessage("billing", "orders", -1, 32, invisible_ms, poll_ms, 0, 0, order=order)
        return await self.pool.ask(self._address, request, poll_ms + 3_000)

    async def ack(self, answer: Any, offset: int = 0) -> None:
        start = parse_start_offsets(answer.start_offset_info)[0, 0]
        handle = f"{start} {answer.pop_time} {answer.invisible_time} {answer.revive_qid} 0 broker-a 0 {offset}"
        assert (await self.pool.ask(self._address, AckMessage("billing", "orders", 0, handle, offset), 3_000)).code == 0

    async def change(self, answer: Any, invisible_ms: int, **fields: Any) -> None:
        handle = f"0 {answer.pop_time} {answer.invisible_time} {answer.revive_qid} 0 broker-a 0 0"
        request = ChangeInvisibleTime("billing", "orders", 0, handle, 0, invisible_ms, **fields)
        assert (await self.pool.ask(self._address, request, 3_000)).code == 0


@pytest_asyncio.fixture
async def client(stand: Stand) -> AsyncIterator[Client]:
    client = Client(stand)
    yield client
    await client.pool.close()


@pytest.mark.parametrize("mode", ["run", "freeze"])
async def test_an_advance_has_what_is_due_come_again(
    world: SimulatedWorld, stand: Stand, client: Client, mode: str
) -> None:
    await stand.clock(mode)
    for body in (b"a", b"b", b"c"):
        await stand.send("orders", body)
    first = await client.pop(10 * MINUTE_MS)
    await client.ack(first, 1)
    before = await stand.clock("advance", by_ms=9 * MINUTE_MS)
    assert (before.code, before.expired) == (0, 0)
    assert (await client.pop()).code == 210
    after = await stand.clock("advance", by_ms=2 * MINUTE_MS)
    assert (after.code, after.expired, after.steps) == (0, 2, 1)
    again = await client.pop()
    assert [record.body for record in again.body.records] == [b"a", b"c"]
    assert again.body.records[0].stored_ms - first.pop_time == pytest.approx(10 * MINUTE_MS, abs=5)


@pytest.mark.parametrize("order", [False, True])
async def test_an_advance_goes_past_a_pop_with_the_largest_invisible_time(
    stand: Stand, client: Client, order: bool
) -> None:
    await stand.send("orders", b"a")
    assert (await client.pop(INT64_MAX, order=order)).code == 0
    advanced = await stand.clock("advance", by_ms=HOUR_MS)
    assert (advanced.code, advanced.expired) == (0, 0)


async def test_a_message_that_cant_be_redelivered_is_tried_ever_more_rarely_until_it_is_old(
    stand: Stand, client: Client, logged: list[LogLine]
) -> None:
    filling = "y" * (PROPERTIES_BYTES_MAX - 130)
    await stand.send("orders", properties=f"filling\x01{filling}\x02")
    assert (await client.pop(1_000)).code == 0
    assert (await stand.clock("advance", by_ms=5 * HOUR_MS)).code == 0
    pauses_ms = [line.fields["retry_ms"] for line in logged if line.event == "pop_not_returned"]
    assert pauses_ms == [pause_s * 1_000 for pause_s in (*PAUSES_S, PAUSES_S[-1])]
    assert (await stand.clock("advance", by_ms=72 * HOUR_MS)).code == 0
    assert len([line for line in logged if line.event == "pop_given_up"]) == 1
    logged.clear()
    assert (await stand.clock("advance", by_ms=72 * HOUR_MS)).steps == 0
    assert logged == []


async def test_while_time_stands_each_change_has_a_name_of_its_own(stand: Stand, client: Client) -> None:
    await stand.clock("freeze")
    for body in (b"a", b"b"):
        await stand.send("orders", body)
    first = await client.pop()
    await client.change(first, 5 * MINUTE_MS)
    await client.ack(first, 0)  # spent
    await client.ack(first, 1)
    assert (await stand.clock("advance", by_ms=4 * MINUTE_MS)).expired == 0
    assert (await stand.clock("advance", by_ms=2 * MINUTE_MS)).expired == 1
    assert [record.body for record in (await client.pop()).body.records] == [b"a"]


async def test_an_advance_waits_for_a_push_consumer_and_names_it(
    world: SimulatedWorld, stand: Stand, client: Client
) -> None:
    await client.join()
    await stand.send("orders", b"a")
    answer = await client.pop()
    refused = await stand.clock("advance", by_ms=HOUR_MS, settle_ms_max=2_000)
    assert refused.code == NOT_AT_REST
    assert all(words in refused.remark for words in ("billing", "orders", "messages are being consumed"))
    await client.change(answer, 10 * MINUTE_MS)  # it has failed, and is given back
    advanced = asyncio.ensure_future(stand.clock("advance", by_ms=10 * MINUTE_MS))
    again = await client.pop(poll_ms=15_000)
    assert [record.body for record in again.body.records] == [b"a"]
    await client.pool.close()
    assert (await advanced).expired == 1


@pytest.mark.parametrize("order", [False, True])
async def test_a_skipping_clock_waits_for_who_has_a_message(
    world: SimulatedWorld, stand: Stand, client: Client, order: bool
) -> None:
    await stand.send("orders", b"a")
    await client.pop(20 * MINUTE_MS, order=order)
    await stand.clock("skip")
    began = (await stand.clock("now")).message_ms
    await world.run_for(5_000)
    assert (await stand.clock("now")).message_ms - began < 10_000
    await stand.send("orders", b"b", properties="TIMER_DELAY_MS\x01600000\x02")
    await world.run_for(5_000)
    assert 10 * MINUTE_MS <= (await stand.clock("now")).message_ms - began < 11 * MINUTE_MS  # that far it may go
    await client.pool.close()
    await world.run_for(5_000)
    assert (await stand.clock("now")).message_ms - began >= 19 * MINUTE_MS
    other = Client(stand, "other", "10.0.3.2")
    answer = await other.pop(order=order)
    assert sorted(record.body for record in answer.body.records) == [b"a", b"b"]
    await other.pool.close()


async def test_a_skipping_clock_waits_in_order_for_who_has_more_time_and_not_for_who_has_given_up(
    world: SimulatedWorld, stand: Stand, client: Client
) -> None:
    await stand.send("orders", b"a")
    popped = await client.pop(order=True)
    await stand.clock("skip")
    began = (await stand.clock("now")).message_ms
    await client.change(popped, 10 * MINUTE_MS)
    await world.run_for(5_000)
    assert (await stand.clock("now")).message_ms - began < 10_000
    await client.change(popped, 10 * MINUTE_MS, given_back=True)
    await world.run_for(5_000)
    assert (await stand.clock("now")).message_ms - began >= 10 * MINUTE_MS
    assert [record.body for record in (await client.pop(order=True)).body.records] == [b"a"]


@pytest.mark.parametrize("order", [False, True])
async def test_who_has_a_message_is_known_after_a_snapshot_was_saved(
    world: SimulatedWorld, stand: Stand, client: Client, order: bool
) -> None:
    await stand.send("orders", b"a")
    popped = await client.pop(20 * MINUTE_MS, order=order)
    await stand.clock("skip")
    began = (await stand.clock("now")).message_ms
    for _ in range(2):
        assert (await stand.ask(stand.brokers["broker-a"], SaveSnapshot("base"), 20_000)).code == 0
        await world.run_for(5_000)
    assert (await stand.clock("now")).message_ms - began < 15_000
    await client.change(popped, 20 * MINUTE_MS, given_back=True)
    await world.run_for(5_000)
    assert (await stand.clock("now")).message_ms - began >= 20 * MINUTE_MS


@pytest.mark.parametrize("order", [False, True])
async def test_a_skipping_clock_doesnt_jump_to_the_end_of_the_largest_invisible_time(
    world: SimulatedWorld, stand: Stand, client: Client, order: bool
) -> None:
    await stand.send("orders", b"a")
    await client.pop(INT64_MAX, order=order)
    await client.pool.close()
    await stand.clock("skip")
    began = (await stand.clock("now")).message_ms
    await world.run_for(5_000)
    assert (await stand.clock("now")).message_ms - began < 10_000


async def test_a_skipping_clock_takes_no_dense_step_over_the_end_of_an_invisible_time(
    world: SimulatedWorld, stand: Stand, client: Client
) -> None:
    """Many due times in one step end before the time at which a connected client's message would be redelivered."""
    await stand.send("orders", b"taken")
    popped = await client.pop(10 * MINUTE_MS)
    ends_ms = popped.pop_time + popped.invisible_time
    for before_ms in range(150, 20, -5):
        await stand.send("orders", b"due", properties=f"TIMER_DELIVER_MS\x01{ends_ms - before_ms}\x02")
    await stand.clock("skip")
    while (now_ms := (await stand.clock("now")).message_ms) < ends_ms - 40:
        await world.run_for(1)
    assert now_ms < ends_ms
    await client.pool.close()
