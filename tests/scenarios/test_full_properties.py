"""Messages whose properties have no room for what the broker adds to a copy: no RocketMQ client could read it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.requests.send import SendAnswer
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand
from tests.scenarios.logged import LogLine
from tests.scenarios.popping import INVISIBLE_MS, Popper, handles

pytestmark = pytest.mark.row("G1")

DEAD = "%DLQ%billing"
POP_RETRY, GROUP_RETRY = "%RETRY%billing_orders", "%RETRY%billing"


class JavaStand(BrokerStand):
    """A broker whose client uses JSON and RocketMQ's form of records."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__(world)
        self._pool = ConnectionPool(world.machine("java", "10.0.0.8"), codec_byte=0)

    async def send_with(
        self, properties_bytes: int, body: bytes, topic: str = "orders", reconsume_times: int = 0
    ) -> SendAnswer:
        """Send a message; its stored properties have so many bytes."""
        await self.put_topic("lengths", 1)
        assert (await self.send("lengths", b"x", UNIQ_KEY="U1", filling="y")).code == 0
        short = len((await self.stored("lengths"))[-1].properties)
        filling = "y" * (properties_bytes - short + 1)
        return await self.send(topic, body, 0, reconsume_times, UNIQ_KEY="U1", filling=filling)


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[JavaStand]:
    stand = JavaStand(world)
    await stand.start()
    await stand.put_group("billing")
    yield stand
    await stand.close()


@pytest.mark.parametrize("room", [0, 60])  # None at all, and only that for 1ST_POP_TIME.
async def test_a_message_without_room_for_a_pops_properties_keeps_no_other_from_the_group(
    world: SimulatedWorld, stand: JavaStand, popper: Popper, logged: list[LogLine], room: int
) -> None:
    await stand.send("orders", b"first")
    await stand.send_with(PROPERTIES_BYTES_MAX - room, b"full")
    await stand.send("orders", b"last")
    full = handles(await popper.pop(invisible_ms=1_000))[1]
    await world.run_for(1_100)
    assert [
        (line.fields["messages"], line.fields["retry_ms"]) for line in logged if line.event == "pop_not_returned"
    ] == [(1, 10_000)]
    again = await popper.pop()
    assert [record.body for record in again.body.records] == [b"first", b"last"]
    await popper.ack_all(again)
    await world.run_for(10_000)
    assert len([line for line in logged if line.event == "pop_not_returned"]) == 2
    assert (await popper.ack(1, full)).code == 0
    logged.clear()
    await world.run_for(10_000)
    assert (await popper.bodies(), logged) == ([], [])


async def test_after_a_kill_it_is_still_to_be_redelivered_and_the_others_are_not(
    world: SimulatedWorld, stand: JavaStand, popper: Popper, logged: list[LogLine]
) -> None:
    await stand.send("orders", b"first")
    await stand.send_with(PROPERTIES_BYTES_MAX, b"full")
    await popper.pop(invisible_ms=1_000)
    await world.run_for(1_100)
    await popper.ack_all(await popper.pop())
    logged.clear()
    await stand.kill_and_start()
    await world.run_for(1_000)
    assert [line.fields["messages"] for line in logged if line.event == "pop_not_returned"] == [1]
    assert await popper.bodies() == []


async def test_a_pop_leaves_out_what_has_no_room_for_its_handle(
    world: SimulatedWorld, stand: JavaStand, popper: Popper, logged: list[LogLine]
) -> None:
    """A client has sent it to the retry topic itself."""
    await stand.send("orders", b"first")
    await popper.pop(invisible_ms=1_000)
    await world.run_for(1_100)
    await stand.put_group("billing_orders")
    await stand.send_with(PROPERTIES_BYTES_MAX, b"full", POP_RETRY)
    answer = await popper.pop()
    assert [record.body for record in answer.body.records] == [b"first"]
    assert answer.msg_offset_info == "1 0 0"
    assert [line.fields["queue_offset"] for line in logged if line.event == "pop_message_left_out"] == [1]
    await popper.ack_all(answer)
    await world.run_for(INVISIBLE_MS)
    assert [line.fields["messages"] for line in logged if line.event == "pop_not_returned"] == [1]


async def test_a_pop_that_leaves_out_everything_waits_for_more(
    world: SimulatedWorld, stand: JavaStand, popper: Popper
) -> None:
    await stand.restart(journal_enable=True, enable_retry_topic_v2=False)
    await stand.send("orders", b"first")
    await popper.pop(invisible_ms=1_000)
    await world.run_for(1_100)
    await popper.ack_all(await popper.pop())
    await stand.put_group("billing_orders")
    await stand.send_with(PROPERTIES_BYTES_MAX, b"full", POP_RETRY)
    nothing = await popper.pop()
    assert (nothing.code, nothing.body or None) == (210, None)
    await stand.send("orders", b"next")
    assert await popper.bodies() == [b"next"]


async def test_a_dead_letter_without_room_for_its_origin_keeps_no_other_from_its_topic(
    world: SimulatedWorld, stand: JavaStand, popper: Popper, logged: list[LogLine]
) -> None:
    await stand.restart(pop_dead_letters=True)
    await stand.put_group("billing", retry_max_times=0)
    await stand.send("orders", b"first")
    await stand.send_with(PROPERTIES_BYTES_MAX - 30, b"full")
    await stand.send("orders", b"last")
    await popper.pop(invisible_ms=1_000)
    await world.run_for(25_000)
    assert await stand.bodies(DEAD) == [b"first", b"last"]
    assert {line.fields["messages"] for line in logged if line.event == "pop_not_returned"} == {1}


@pytest.mark.row("A3")
async def test_a_message_that_is_sent_back_as_a_dead_letter_is_refused_with_the_reason(stand: JavaStand) -> None:
    await stand.put_topic("orders")
    await stand.send_with(PROPERTIES_BYTES_MAX - 30, b"full")
    await stand.send("orders", b"last")
    full, last = await stand.stored("orders")
    answer = await stand.send_back(full, delay_level=-1)
    assert answer.code == 1
    assert (answer.remark or "").startswith("its properties have 32")
    assert (answer.remark or "").endswith("bytes, the limit is 32767")
    assert (await stand.send_back(last, delay_level=-1)).code == 0
    assert await stand.bodies(DEAD) == [b"last"]


@pytest.mark.row("A3")
async def test_a_retry_without_room_for_the_mark_of_a_dead_letter_is_refused_with_the_reason(stand: JavaStand) -> None:
    await stand.put_topic(GROUP_RETRY)
    assert (await stand.send_with(PROPERTIES_BYTES_MAX, b"full", GROUP_RETRY, reconsume_times=1)).code == 0
    answer = await stand.send_with(PROPERTIES_BYTES_MAX, b"full", GROUP_RETRY, reconsume_times=99)
    assert (answer.code, answer.remark) == (1, "its properties have 32776 bytes, the limit is 32767")
    assert await stand.bodies(DEAD) == []
