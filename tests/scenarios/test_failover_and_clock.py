"""Message time of a set whose master has changed."""

from typing import Any

import pytest

from staticfire.protocol.requests.clock import Clock
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet

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


async def test_a_delayed_message_is_due_once_when_message_time_is_moved_after_each_failover(
    world: SimulatedWorld,
) -> None:
    """Two are due after the first failover, one after the second, and none before message time has reached it."""
    pair = await ReplicaSet(world).open()
    frozen: Any = await pair.pool.ask(NAMESRV, Clock("freeze"))
    assert frozen.code == 0
    for body, level in ((b"10 s", "3"), (b"30 s", "4"), (b"2 min", "6")):
        await pair.send(body, DELAY=level)
    await pair.until_caught_up()
    expected: list[bytes] = []
    for master, other, by_ms, due in (
        (SLAVE, MASTER, 9_000, []),
        (MASTER, SLAVE, 25_000, [b"10 s", b"30 s"]),
        (SLAVE, MASTER, 50_000, []),
        (MASTER, SLAVE, 60_000, [b"2 min"]),
    ):
        await pair.failover()
        await pair.until_caught_up(other, master)
        advanced: Any = await pair.pool.ask(NAMESRV, Clock("advance", by_ms=by_ms), 60_000)
        assert (advanced.code, advanced.delivered) == (0, len(due))
        expected += due
        assert await pair.bodies(master) == expected
    await pair.close()
