"""Runs a scenario without pytest."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from staticfire.simulation.world.link import LinkQuality
from staticfire.simulation.world.loop import HOURS_MAX, JumpingLoop
from staticfire.simulation.world.world import SimulatedWorld

T = TypeVar("T")


def simulate(
    scenario: Callable[[SimulatedWorld], Coroutine[Any, Any, T]],
    seed: int = 0,
    quality: LinkQuality | None = None,
    hours_max: float = HOURS_MAX,
) -> T:
    """Run a scenario in a world of its own and return its result.

    Raises: what the scenario raises, LeftOver, SimulationStuck.
    """

    worlds: list[SimulatedWorld] = []

    async def in_world() -> T:
        async with SimulatedWorld(seed, quality) as world:
            worlds.append(world)
            return await scenario(world)

    with asyncio.Runner(loop_factory=lambda: JumpingLoop(hours_max), debug=False) as runner:
        try:
            return runner.run(in_world())
        finally:
            # A world that got stuck wasn't closed.
            for world in worlds:
                runner.run(world.close(quietly=True))
