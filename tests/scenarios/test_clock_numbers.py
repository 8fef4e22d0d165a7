"""Absurd numbers for the clock: each is refused with words that say what would do, and the clock stays as it is."""

import math
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from staticfire.client import ClusterClock
from staticfire.cluster.cluster_clock import RunningClock
from staticfire.protocol.errors import BrokerAnswer, UsageError
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.stand import NAMESERVER, Stand

pytestmark = pytest.mark.row("S1")

ABSURD_RATES = [10**30, 10**400, 1e300, math.inf, -math.inf, math.nan, 0, -1, -(10**400), 100_001, True, "fast", None]
ABSURD_TIMES = [10**30, 10**400, math.inf, math.nan, -(10**30), 2**63, -1, 1.5, True, "later"]


@pytest_asyncio.fixture
async def clock(world: SimulatedWorld) -> AsyncIterator[ClusterClock]:
    stand = await Stand(world, brokers=1).start()
    yield ClusterClock(stand.pool, NAMESERVER)
    await stand.close()


async def refused(clock: ClusterClock, move: str, *numbers: Any, **named: Any) -> str:
    """Return the words with which a move is refused."""
    before = await clock.now()
    with pytest.raises((UsageError, BrokerAnswer)) as error:
        await getattr(clock, move)(*numbers, **named)
    after = await clock.now()
    assert (after.mode, after.rate) == (before.mode, before.rate)
    assert abs(after.ahead_ms - before.ahead_ms) < 100
    return str(error.value)


@pytest.mark.parametrize("rate", ABSURD_RATES, ids=lambda rate: str(rate)[:12])
async def test_a_rate_is_above_0_and_not_absurd(clock: ClusterClock, rate: Any) -> None:
    words = await refused(clock, "scale", rate)
    assert "above 0 and at most 100000" in words
    assert len(words) < 200


@pytest.mark.parametrize("name", ["by_ms", "to_ms", "settle_ms_max"])
@pytest.mark.parametrize("number", ABSURD_TIMES, ids=lambda number: str(number)[:12])
async def test_an_advance_takes_whole_milliseconds_that_are_not_absurd(
    clock: ClusterClock, name: str, number: Any
) -> None:
    given = {name: number} if name != "settle_ms_max" else {"by_ms": 1, name: number}
    words = await refused(clock, "advance", **given)
    assert any(part in words for part in (name, "can't go back", "over the limit"))
    assert len(words) < 250


@pytest.mark.parametrize(
    "given",
    [
        {"days": 10**9}, {"hours": math.inf}, {"seconds": math.nan}, {"milliseconds": -1}, {"days": 10**400},
        {"days": 999_999_999}, {"by": timedelta.max}, {"by": timedelta.min}, {"by": "99999999999999d"}, {"to": 10**30},
        {"to": datetime.min}, {"to": -5}, {"hours": 1, "settle": timedelta(days=-1)},
    ],
    ids=str,
)  # fmt: skip
async def test_what_a_cluster_takes_as_a_time(clock: ClusterClock, given: dict[str, Any]) -> None:
    class Here(RunningClock):
        """The clock of a cluster that runs here already."""

        def __init__(self) -> None: ...

        async def _moved(self, move: Any) -> Any:
            return await move(clock)

    before = await clock.now()
    with pytest.raises((UsageError, BrokerAnswer)) as error:
        await Here().advance(**given)
    assert len(str(error.value)) < 250
    assert abs((await clock.now()).ahead_ms - before.ahead_ms) < 100
