"""A failover that is refused, or fails on its way: all replicas go back to their work."""

import asyncio

import pytest

from staticfire.protocol.errors import ClientError, NetworkError
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet

pytestmark = pytest.mark.row("P7")


async def test_a_failover_that_is_refused_lets_the_slaves_copy_again(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    world.freeze(MASTER)
    with pytest.raises(ClientError, match="no slave with id 7"):
        await pair.failover(to=7)
    world.thaw(MASTER)
    assert (await pair.send(b"1")).code == 0
    await pair.until_caught_up(within_ms=1_000)
    await pair.close()


@pytest.mark.parametrize("how", ["killed", "frozen", "cancelled"])
async def test_a_failover_that_fails_lets_the_master_accept_messages_again(world: SimulatedWorld, how: str) -> None:
    pair = await ReplicaSet(world).open()
    await pair.fill(1)
    master = pair.brokers[MASTER].state.store
    failing = asyncio.ensure_future(pair.failover())
    await world.until(lambda: master.refusal is not None, 1_000, "the master refuses messages")
    if how == "cancelled":
        failing.cancel()
    elif how == "frozen":
        world.freeze(SLAVE)
    else:
        world.kill(SLAVE)
    with pytest.raises((NetworkError, asyncio.CancelledError)):
        await failing
    assert (await pair.send(b"still the master")).code == 0
    if how == "frozen":
        world.thaw(SLAVE)
    await pair.close()
