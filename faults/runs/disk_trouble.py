"""What is wrong with the disk of a broker: steps that fail by chance, and the step before which its process ends."""

import errno
from collections.abc import Callable
from random import Random

from staticfire.faults.simulation.disk import disk_error
from staticfire.faults.simulation.process import ProcessKilled
from staticfire.faults.simulation.world import SimulatedWorld

WRITES = ("write", "create", "truncate", "rename")
SYNCS = ("sync", "sync names")


class DiskTrouble:
    """The hook of one disk."""

    def __init__(self, world: SimulatedWorld, name: str) -> None:
        self._world = world
        self._name = name
        self.was_bad = False
        """Whether anything has failed yet."""
        self._failing: dict[str, float] = {}
        self._chance = Random(0)
        self._steps_left = 0
        self._end: list[Callable[[], None]] = []

    def fail(self, steps: tuple[str, ...], share: float, chance: Random) -> None:
        """Let a share of such steps fail from now on."""
        self._chance = chance
        self._failing |= dict.fromkeys(steps, share)
        self._take_effect()

    def end_at_step(self, steps: int, end: Callable[[], None]) -> None:
        """Call `end`, which kills the process, before the so-and-so-many-th step from now."""
        self._steps_left = steps
        self._end = [end]
        self._take_effect()

    def mend(self) -> None:
        """Work again."""
        self._failing.clear()
        self._steps_left = 0
        self._end.clear()
        self._take_effect()

    def _take_effect(self) -> None:
        self._world.disk(self._name).before = self._before if self._failing or self._end else None

    def _before(self, what: str, path: str) -> None:
        if self._end:
            self._steps_left -= 1
            if self._steps_left <= 0:
                end = self._end.pop()
                self._take_effect()
                end()
                raise ProcessKilled(f"{self._name} ended before its {what} of {path}")
        if self._failing and self._chance.random() < self._failing.get(what, 0.0):
            self.was_bad = True
            raise disk_error(errno.ENOSPC if what in WRITES else errno.EIO, path)
