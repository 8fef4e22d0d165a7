"""Message time of a set whose master has changed."""

from typing import Any

import pytest

from staticfire.failover.replicas import ReplicaAdmin
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.requests.clock import Clock
from staticfire.protocol.requests.pop import PopMessage
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, NAMESRV, SLAVE, ReplicaSet, address_of

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


async def test_nothing_is_due_at_the_new_master_while_message_time_is_frozen(world: SimulatedWorld) -> None:
    """A slave has shown the real time, which is ten minutes ahead of the frozen one."""
    pair = await ReplicaSet(world).open()
    frozen: Any = await pair.pool.ask(NAMESRV, Clock("freeze"))
    await pair.send(b"popped")
    client = ConnectionPool(world.machine("other", "10.0.0.8"))
    pop = PopMessage("billing", "orders", -1, 32, 10_000, 0, 0, 0)
    assert (await client.ask(address_of(MASTER), pop, 3_000)).code == 0
    await client.close()
    await pair.send(b"10 s", DELAY="3")
    await pair.until_caught_up()
    await world.run_for(minutes=10)
    await pair.failover()
    await world.run_for(seconds=2)
    assert await pair.bodies(SLAVE) == [b"popped"]
    for by_ms, due in ((1_000, 0), (10_000, 1)):
        before_ms = pair.brokers[SLAVE].state.clock.message_ms()
        advanced: Any = await pair.pool.ask(NAMESRV, Clock("advance", by_ms=by_ms), 60_000)
        assert (advanced.code, advanced.delivered, advanced.expired) == (0, due, due)
        assert advanced.message_ms - before_ms == by_ms
    assert advanced.message_ms - frozen.message_ms == 11_000
    await pair.close()


async def test_a_slave_knows_that_message_time_is_frozen_if_it_becomes_the_master_without_the_nameserver(
    world: SimulatedWorld,
) -> None:
    """The second nameserver knows no message time."""
    await world.start("namesrv-2", Nameserver(world.machine("namesrv-2", "10.0.0.2"), NameserverSettings()))
    both = f"{NAMESRV};10.0.0.2:9876"
    pair = await ReplicaSet(world, namesrv_addr=both).open()
    assert (await pair.pool.ask(NAMESRV, Clock("freeze"))).code == 0
    await pair.send(b"10 s", DELAY="3")
    await world.run_for(minutes=10)
    world.kill("namesrv")
    await ReplicaAdmin.at_nameservers(pair.pool, both).failover(MASTER)
    await world.run_for(seconds=10)
    assert await pair.bodies(SLAVE) == []
    await pair.close()
