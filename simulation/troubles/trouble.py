"""A trouble: a story that is played once per way, and the facts that come of each."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.protocol.errors import UsageError
from staticfire.runtime.log import logged_to
from staticfire.simulation.troubles.stage import Stage
from staticfire.simulation.world.running import simulate
from staticfire.simulation.world.world import SimulatedWorld

SEED = 1
ISSUES = "https://github.com/{}/issues/{}"

Facts = Mapping[str, object]
"""What came of a way, by what it is called: the same names in each."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One trouble, and the ways to have it and to avoid it."""

    title: str
    threads: Sequence[str]
    """Where people tell of it: owner/repository#number."""
    story: Callable[..., Awaitable[Facts]]
    """Called with a Stage, and with what the way says by name."""
    ways: Mapping[str, Mapping[str, Any]]
    """RocketMQ's default first."""

    def __post_init__(self) -> None:
        if not self.ways:
            raise UsageError(f"trouble {self.title!r} has no ways; write at least one")

    @property
    def links(self) -> list[str]:
        """The addresses of the threads."""
        return [ISSUES.format(*thread.split("#", 1)) for thread in self.threads]

    def play(self, way: str, seed: int = SEED) -> Facts:
        """Return what comes of one way. Raises: what the story raises."""

        async def scenario(world: SimulatedWorld) -> Facts:
            return await self.story(Stage(world), **self.ways[way])

        with logged_to(lambda *_: None):  # What brokers warn of is part of the story, and not of its numbers.
            return simulate(scenario, seed)

    def play_all(self, seed: int = SEED) -> dict[str, Facts]:
        """Return what comes of each way."""
        return {way: self.play(way, seed) for way in self.ways}
