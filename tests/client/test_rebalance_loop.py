"""When a client rebalances."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.consume.membership.rebalance_loop import RebalanceLoop
from staticfire.runtime.service import Service
from staticfire.simulation.world import SimulatedWorld

pytestmark = pytest.mark.row("R1")


class Member:
    """Notes when it is rebalanced."""

    def __init__(self, world: SimulatedWorld) -> None:
        self.rounds_ms: list[int] = []
        self.is_done = True
        self.fails = False
        self._world = world

    async def rebalance(self) -> bool:
        self.rounds_ms.append(self._world.uptime_ms)
        if self.fails:
            raise ValueError("out of luck")
        return self.is_done


class Instance(Service):
    """A client with nothing but the loop."""

    def __init__(self, world: SimulatedWorld) -> None:
        super().__init__()
        self.loop = RebalanceLoop(ClientSettings(), world.machine("client").clock, self.spawn, self.pause_for)


@pytest_asyncio.fixture
async def loop(world: SimulatedWorld) -> AsyncIterator[RebalanceLoop]:
    async with Instance(world) as instance:
        yield instance.loop


async def test_every_twenty_seconds(world: SimulatedWorld, loop: RebalanceLoop) -> None:
    member = Member(world)
    loop.add("billing", member)
    await world.run_for(seconds=61)
    assert member.rounds_ms == [20_000, 40_000, 60_000]


async def test_at_once_when_rung(world: SimulatedWorld, loop: RebalanceLoop) -> None:
    member = Member(world)
    loop.add("billing", member)
    await world.run_for(seconds=5)
    loop.wake()
    await world.run_for(seconds=21)
    assert member.rounds_ms == [5_000, 25_000]


async def test_however_often_it_is_rung_not_more_than_ten_times_a_second(
    world: SimulatedWorld, loop: RebalanceLoop
) -> None:
    member = Member(world)
    loop.add("billing", member)
    for _ in range(1_000):
        loop.wake()
        await world.run_for(ms=1)
    assert len(member.rounds_ms) == 10


async def test_soon_again_when_something_was_missing(world: SimulatedWorld, loop: RebalanceLoop) -> None:
    member = Member(world)
    member.is_done = False
    loop.add("billing", member)
    await world.run_for(ms=22_500)
    assert member.rounds_ms == [20_000, 21_000, 22_000]
    member.is_done = True
    await world.run_for(seconds=21)
    assert member.rounds_ms == [20_000, 21_000, 22_000, 23_000, 43_000]


async def test_one_that_fails_stops_no_other(world: SimulatedWorld, loop: RebalanceLoop) -> None:
    unlucky, lucky = Member(world), Member(world)
    unlucky.fails = True
    loop.add("unlucky", unlucky)
    loop.add("lucky", lucky)
    loop.wake()
    await asyncio.sleep(0)
    await world.run_for(ms=1_500)
    assert len(lucky.rounds_ms) == len(unlucky.rounds_ms) == 2


async def test_who_has_left_is_left_alone(world: SimulatedWorld, loop: RebalanceLoop) -> None:
    member = Member(world)
    loop.add("billing", member)
    loop.remove("billing")
    await world.run_for(minutes=2)
    assert member.rounds_ms == []
