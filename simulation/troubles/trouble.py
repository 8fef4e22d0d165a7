"""A trouble: a story that is played once per way, and the facts that result from each."""

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
"""The results of a way by name. All ways of a trouble have the same names."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """One trouble, and the ways to have it and to avoid it."""

    title: str
    threads: Sequence[str]
    """The discussions of it: owner/repository#number."""
    story: Callable[..., Awaitable[Facts]]
    """Called with a Stage and the keyword arguments of a way."""
    ways: Mapping[str, Mapping[str, Any]]
    """Keyword arguments of the story by the way's name. RocketMQ's default comes first."""

    def __post_init__(self) -> None:
        if not self.ways:
            raise UsageError(f"trouble {self.title!r} has no variants; add at least one")

    @property
    def links(self) -> list[str]:
        """The URLs of the threads."""
        return [ISSUES.format(*thread.split("#", 1)) for thread in self.threads]

    def play(self, way: str, seed: int = SEED) -> Facts:
        """Return the results of one way. Raises: what the story raises."""

        async def scenario(world: SimulatedWorld) -> Facts:
            return await self.story(Stage(world), **self.ways[way])

        with logged_to(lambda *_: None):  # The warnings of brokers belong to the story, but not to its results.
            return simulate(scenario, seed)

    def play_all(self, seed: int = SEED) -> dict[str, Facts]:
        """Return the results of each way."""
        return {way: self.play(way, seed) for way in self.ways}
