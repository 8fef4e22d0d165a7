"""What was popped from a master that dies: the slave that takes over reads it in the log."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
import pytest_asyncio

from staticfire.protocol.command import Request
from staticfire.protocol.requests.offsets import UpdateConsumerOffset
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import BrokerStand
from tests.scenarios.popping import Popper
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = [pytest.mark.row("P7"), pytest.mark.row("C9")]

NEVER_MS = 3_600_000
MESSAGES = [b"%d" % number for number in range(10)]


class OneBroker:
    """One broker of a set, for a `Popper`."""

    def __init__(self, pair: ReplicaSet, name: str) -> None:
        self._pair = pair
        self._name = name

    async def ask(self, request: Request) -> Any:
        return await self._pair.ask(self._name, request)


@pytest_asyncio.fixture
async def pair(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    """A master and a slave with ten messages; the slave copies offsets only on request."""
    pair = ReplicaSet(world, slave_sync_period=NEVER_MS)
    await pair.open()
    await pair.fill(messages=len(MESSAGES))
    yield pair
    await pair.close()


def popper(pair: ReplicaSet, name: str) -> Popper:
    return Popper(cast(BrokerStand, OneBroker(pair, name)))


async def copied_offsets(pair: ReplicaSet) -> None:
    """Let the slave copy offsets now, and wait until it has."""
    await pair.control(SLAVE, copy_state=True)
    await pair.world.until(lambda: not pair.brokers[SLAVE].replication_state().lacks_state, 5_000, "offsets are copied")


async def killed_and_replaced(pair: ReplicaSet, restarts_slave: bool = False) -> Popper:
    """Kill the master when the slave has its log, and let the slave take over."""
    await pair.until_caught_up()
    pair.world.kill(MASTER)
    if restarts_slave:
        await pair.kill_and_start(SLAVE)
    await pair.failover(losing=0)  # A slave that was restarted doesn't know what it lacks.
    return popper(pair, SLAVE)


@pytest.mark.parametrize("restarts_slave", [False, True])
async def test_what_is_acknowledged_is_not_delivered_again(
    pair: ReplicaSet, world: SimulatedWorld, restarts_slave: bool
) -> None:
    before = popper(pair, MASTER)
    await copied_offsets(pair)
    await before.ack_all(await before.pop(count=4))
    await before.ack_all(await before.pop(count=4))
    after = await killed_and_replaced(pair, restarts_slave)
    assert await after.committed() == 8
    assert await after.bodies() == MESSAGES[8:]
    await world.run_for(seconds=30)
    assert await after.bodies() == MESSAGES[8:]  # Once more, because these were not acknowledged.


async def test_what_is_not_acknowledged_is_delivered_once_more_when_its_time_is_over(
    pair: ReplicaSet, world: SimulatedWorld
) -> None:
    assert await popper(pair, MASTER).bodies() == MESSAGES
    after = await killed_and_replaced(pair)
    assert await after.bodies() == []
    await world.run_for(seconds=11)
    again = await after.pop()
    assert [record.body for record in again.body.records] == MESSAGES
    await after.ack_all(again)
    await world.run_for(seconds=60)
    assert await after.bodies() == []


async def test_an_offset_is_not_copied_before_the_notes_of_what_was_popped(
    pair: ReplicaSet, world: SimulatedWorld
) -> None:
    """Otherwise nobody gets these messages: they are before the offset, and no log says that they are in flight."""
    await pair.control(SLAVE, lag_ms=30_000)
    assert await popper(pair, MASTER).bodies() == MESSAGES
    await pair.control(SLAVE, copy_state=True)
    await world.run_for(seconds=5)
    world.kill(MASTER)
    await pair.failover(losing=1)
    assert await popper(pair, SLAVE).bodies() == MESSAGES


async def test_offsets_that_wait_for_the_log_are_taken_over_with_it(pair: ReplicaSet, world: SimulatedWorld) -> None:
    await pair.control(SLAVE, lag_ms=3_000)
    before = popper(pair, MASTER)
    await before.ack_all(await before.pop())
    await pair.control(SLAVE, copy_state=True)
    await world.run_for(seconds=1)
    assert await popper(pair, SLAVE).committed() == 0
    await world.run_for(seconds=3)
    assert await popper(pair, SLAVE).committed() == len(MESSAGES)


async def test_a_group_that_continued_at_the_slave_is_not_set_back(pair: ReplicaSet, world: SimulatedWorld) -> None:
    before = popper(pair, MASTER)
    await before.ack_all(await before.pop(count=2))
    await copied_offsets(pair)
    await before.ack_all(await before.pop(count=2))
    await pair.until_caught_up()
    world.kill(MASTER)
    assert (await pair.ask(SLAVE, UpdateConsumerOffset("billing", "orders", 0, 7))).code == 0
    await pair.failover()
    assert await popper(pair, SLAVE).bodies() == MESSAGES[7:]


async def test_a_new_master_that_is_restarted_has_the_offsets_of_its_own_time(
    pair: ReplicaSet, world: SimulatedWorld
) -> None:
    before = popper(pair, MASTER)
    await before.ack_all(await before.pop(count=2))
    await copied_offsets(pair)
    await before.ack_all(await before.pop(count=2))
    after = await killed_and_replaced(pair)
    assert await after.committed() == 4
    assert (await pair.ask(SLAVE, UpdateConsumerOffset("billing", "orders", 0, 1))).code == 0
    await pair.restart(SLAVE)
    assert await after.committed() == 1
