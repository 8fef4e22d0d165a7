"""A skipping clock: exact for one chain of retries, and few steps for many chains side by side.

With several brokers, it waits for the work at each of them, and not for one that has left.
"""

from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import Message, ReceivedMessage, TransactionProducer, TransactionState
from staticfire.nameserver.clock_owner import SKIP_SPAN_MS
from staticfire.protocol.record import StoredRecord
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine
from tests.scenarios.stand import NAMESERVER, BareConsumer, Stand

pytestmark = pytest.mark.row("S1")

RETRY_DELAYS_MS = [
    1_000 * delay_s for delay_s in (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
]
MESSAGES, GAP_MS = 60, 7
MINUTE_MS, HOUR_MS = 60_000, 3_600_000
IN_TWO_HOURS = "DELAY\x0118\x02"


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[Stand]:
    stand = await Stand(world, brokers=2).start()
    yield stand
    await stand.close()


def failing(record: StoredRecord) -> bool:
    return False


async def chains(stand: Stand, messages: int) -> dict[bytes, list[int]]:
    """Send messages that always fail, then let the clock skip; return when each delivery of each one was stored."""
    await stand.create_topic("orders")
    consumer = await BareConsumer(stand, "billing", {"orders": 1}, failing).start()
    for number in range(messages):
        await stand.send("orders", b"%d" % number)
        await stand.world.run_for(ms=GAP_MS)
    await stand.clock("skip")
    await stand.world.until(lambda: len(consumer.seen) == messages * (len(RETRY_DELAYS_MS) + 1))
    await consumer.stop()
    stored: dict[bytes, list[int]] = defaultdict(list)
    for record in sorted(consumer.seen, key=lambda record: record.reconsume_times):
        stored[record.body].append(record.stored_ms)
    return stored


async def test_one_chain_of_retries_is_exact(stand: Stand) -> None:
    [times] = (await chains(stand, 1)).values()
    assert [after - before for before, after in pairwise(times[1:])] == RETRY_DELAYS_MS[1:]


async def test_chains_side_by_side_share_their_steps(stand: Stand) -> None:
    """Without that each retry of each message is a step, which for thousands of messages takes minutes."""
    stored = await chains(stand, MESSAGES)
    assert len({times[-1] for times in stored.values()}) <= MESSAGES * GAP_MS // SKIP_SPAN_MS + 3
    for times in stored.values():
        gaps = [after - before for before, after in pairwise(times[1:])]
        late = [gap - delay for gap, delay in zip(gaps, RETRY_DELAYS_MS[1:], strict=True)]
        assert min(late) >= 0  # Nothing is early.
        assert sum(late) <= SKIP_SPAN_MS  # A chain is late once.


# -- several brokers -----------------------------------------------------------------------------------------------


async def moved_ms(stand: Stand, began: Any) -> int:
    """Return how far message time has moved since `began`."""
    return int((await stand.clock("now")).message_ms - began.message_ms)


async def test_no_broker_lets_the_clock_skip_past_a_transaction_on_another_one(
    world: SimulatedWorld, stand: Stand
) -> None:
    """The producer is connected, and its local transaction takes 3 s of real time."""
    await stand.create_topic("orders")
    await stand.create_topic("later", broker="broker-b")
    checked: list[ReceivedMessage] = []

    def check(message: ReceivedMessage) -> TransactionState:
        checked.append(message)
        return TransactionState.UNKNOWN

    async def execute(_message: Message, _argument: object) -> TransactionState:
        await world.run_for(seconds=3)
        return TransactionState.COMMIT

    async with TransactionProducer("shop", NAMESERVER, machine=world.machine("shop", "10.0.3.1"), check=check) as shop:
        for level in range(9, 19):
            await stand.send("later", properties=f"DELAY\x01{level}\x02", broker="broker-b")
        began = await stand.clock("skip")
        await shop.send_in_transaction(Message("orders", b"paid"), execute)
        assert checked == []
        assert await moved_ms(stand, began) < MINUTE_MS
        await world.run_for(seconds=5)
        assert await moved_ms(stand, began) >= 2 * HOUR_MS


async def test_no_broker_lets_the_clock_skip_past_the_end_of_an_invisible_time_on_another_one(
    world: SimulatedWorld, stand: Stand
) -> None:
    await stand.create_topic("orders")
    await stand.create_topic("later", broker="broker-b")
    await stand.send("orders")
    client = await stand.pop("orders", 20 * MINUTE_MS)
    began = await stand.clock("skip")
    for level in (14, 18):  # In 10 minutes and in 2 hours: before and after the end of the invisible time.
        await stand.send("later", properties=f"DELAY\x01{level}\x02", broker="broker-b")
    await world.run_for(seconds=5)
    assert 10 * MINUTE_MS <= await moved_ms(stand, began) < 11 * MINUTE_MS
    await client.close()
    await world.run_for(seconds=5)
    assert await moved_ms(stand, began) >= 2 * HOUR_MS


@pytest.mark.parametrize("how", ["stopped", "killed"])
async def test_a_broker_that_has_left_for_good_keeps_the_clock_from_skipping_only_for_a_while(
    world: SimulatedWorld, stand: Stand, logged: list[LogLine], how: str
) -> None:
    await stand.create_topic("orders")
    began = await stand.clock("skip")
    if how == "stopped":
        await world.stop("broker-b")
    else:
        world.kill("broker-b")
    await stand.send("orders", properties=IN_TWO_HOURS)
    await world.run_for(seconds=5)
    assert await moved_ms(stand, began) < MINUTE_MS
    await world.run_for(seconds=10)
    assert await moved_ms(stand, began) >= 2 * HOUR_MS
    await world.run_for(seconds=2)
    assert [line.fields["broker"] for line in logged if line.event == "skips_without_broker"] == ["broker-b"]


async def test_the_clock_waits_for_a_broker_that_restarts_although_it_went_on_without_it_before(
    world: SimulatedWorld, stand: Stand
) -> None:
    await stand.create_topic("orders")
    began = await stand.clock("skip")
    await world.stop("broker-b")
    await world.run_for(seconds=12)
    await stand.start_broker("broker-b")
    await world.stop("broker-b")
    await stand.send("orders", properties=IN_TWO_HOURS)
    await world.run_for(seconds=5)
    assert await moved_ms(stand, began) < MINUTE_MS
    await stand.start_broker("broker-b")
    await world.run_for(seconds=5)
    assert await moved_ms(stand, began) >= 2 * HOUR_MS
