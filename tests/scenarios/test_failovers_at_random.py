"""One broker of a synchronous set fails at a time, at random, and slaves take over by themselves: nothing is lost."""

import asyncio
import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.protocol.errors import NetworkError
from staticfire.protocol.requests.replication import GetReplication, ReplicationState
from staticfire.protocol.requests.send import SendMessage
from staticfire.simulation.world import SimulatedWorld
from tests.cases import first_and_slow
from tests.scenarios.replica_set import MASTER, SECOND, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")
NAMES = (MASTER, SLAVE, SECOND)
ROUNDS = 5
# The watch waits 300 ms, and 10 s for a frozen master: some failures are shorter, some longer.
DOWN_MS = (50, 350, 800, 3_000)
TROUBLES = ("kill", "power loss", "freeze", "lost disk")
HEALED_MS_MAX = 60_000


@pytest_asyncio.fixture
async def trio(world: SimulatedWorld) -> AsyncIterator[ReplicaSet]:
    trio = ReplicaSet(world, broker_role="SYNC_MASTER", in_sync_replicas=2, slave_timeout=300)
    yield await trio.open(slaves=2)
    await trio.close()


async def states(trio: ReplicaSet) -> dict[str, ReplicationState]:
    """Return the states of the brokers that answer."""
    found = {}
    for name in NAMES:
        try:
            found[name] = (await trio.ask(name, GetReplication(), 500)).body
        except NetworkError:
            continue
    return found


async def produce(trio: ReplicaSet, acknowledged: list[bytes]) -> None:
    """Send to any broker that is a master, registered or not, and note what is answered 0."""
    number = 0
    while True:
        masters = [name for name, state in (await states(trio)).items() if state.role != "SLAVE"]
        for name in masters:
            for _ in range(10):
                number += 1
                body = b"%d" % number
                request = SendMessage("producers", "orders", "TBW102", 4, 0, 0, 0, 0, "", body=body)
                try:
                    answer = await trio.ask(name, request, 2_000)
                except NetworkError:
                    break
                if answer.code == 0:
                    acknowledged.append(body)
        await trio.world.run_for(20)


async def fail(trio: ReplicaSet, name: str, trouble: str, down_ms: int) -> None:
    world = trio.world
    if trouble == "freeze":
        world.freeze(name)
        await world.run_for(5 * down_ms)
        world.thaw(name)
        return
    world.kill(name, power_loss=trouble != "kill")
    if trouble == "lost disk":
        world.machine(name).files.remove_folder("/store")
        down_ms += 1_500  # A new machine takes longer than the slaves.
    await world.run_for(down_ms)
    await trio.start(name)


async def until_healed(trio: ReplicaSet) -> None:
    began_ms = trio.world.uptime_ms
    while True:
        all_states = (await states(trio)).values()
        masters = [state for state in all_states if state.role != "SLAVE"]
        if len(all_states) == len(NAMES) and len(masters) == 1 and len(masters[0].followers) == len(NAMES) - 1:
            return
        assert trio.world.uptime_ms - began_ms < HEALED_MS_MAX, all_states
        await trio.world.run_for(200)


@pytest.mark.parametrize("seed", first_and_slow(range(4)))
async def test_no_acknowledged_message_is_lost(trio: ReplicaSet, world: SimulatedWorld, seed: int) -> None:
    draw = random.Random(seed)
    acknowledged: list[bytes] = []
    async with trio.watched():
        producing = asyncio.ensure_future(produce(trio, acknowledged))
        for _ in range(ROUNDS):
            await world.run_for(draw.randrange(200, 1_000))
            masters = [name for name, state in (await states(trio)).items() if state.role != "SLAVE"]
            await fail(trio, draw.choice([*NAMES, *masters]), draw.choice(TROUBLES), draw.choice(DOWN_MS))
            await until_healed(trio)
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)
    [master] = [name for name, state in (await states(trio)).items() if state.role != "SLAVE"]
    for name in NAMES:
        if name != master:
            await trio.until_caught_up(name, master)
    trio.assert_equal(*NAMES)
    bodies = await trio.bodies(master)
    assert len(acknowledged) > 100
    assert [body for body in acknowledged if body not in set(bodies)] == []
    assert len(set(bodies)) == len(bodies)
