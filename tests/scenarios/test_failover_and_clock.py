"""Message time of a set whose master has changed."""

from typing import Any

import pytest

from staticfire.protocol.requests.clock import Clock
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, ReplicaSet

pytestmark = pytest.mark.row("P7")


async def test_message_time_is_that_of_the_master_after_two_failovers(world: SimulatedWorld) -> None:
    """A slave that was a master doesn't follow the clock any more: it would deliver in its master's place."""
    pair = await ReplicaSet(world).open()
    await pair.send(b"delivered", DELAY="1")
    await world.run_for(seconds=3)
    for _ in range(2):
        await pair.failover()
        await world.run_for(seconds=2)
    frozen: Any = await pair.pool.ask(NAMESRV, Clock("freeze"))
    assert frozen.next_due_ms == -1
    await pair.send(b"late", DELAY="5")
    advanced: Any = await pair.pool.ask(NAMESRV, Clock("advance", by_ms=120_000), 60_000)
    assert (advanced.code, advanced.delivered) == (0, 1)
    assert await pair.bodies(MASTER) == [b"delivered", b"late"]
    await pair.close()
