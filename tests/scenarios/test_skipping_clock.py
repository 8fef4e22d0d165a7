"""A skipping clock: exact for one chain of retries, and few steps for many chains side by side."""

from collections import defaultdict
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
import pytest_asyncio

from staticfire.nameserver.clock_owner import SKIP_SPAN_MS
from staticfire.protocol.record import StoredRecord
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import BareConsumer, Stand

pytestmark = pytest.mark.row("S1")

RETRY_DELAYS_MS = [
    1_000 * delay_s for delay_s in (10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
]
MESSAGES, GAP_MS = 60, 7


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
