"""The moment at which a life ends: before any step of the disk, or between any two steps of the program.

A disk is copied as it is at that moment; the process gets a few steps further until it is killed, and finds its disk as
it was: nobody is told what became of these steps.
"""

import asyncio
import errno
from random import Random
from typing import Any

from staticfire.simulation.world.disk import Disk, DiskImage, disk_error
from staticfire.simulation.world.world import SimulatedWorld

STEPS_MAX = 300
LIFE_MS_MAX = 12_000
NUDGES_MAX = 12


class Strike:
    """Waits for its moment, at a step of the disk or a time, and notes what there was."""

    def __init__(self, world: SimulatedWorld, disk: Disk, random: Random) -> None:
        self._world = world
        self._disk = disk
        self._random = random
        self.at_step = random.randrange(1, STEPS_MAX) if random.random() < 0.6 else 0
        self.at_ms = random.randrange(20, LIFE_MS_MAX)
        self.failing = random.choice((0.0, 0.0, 0.01, 0.05))
        self.has_failed = False
        self.is_starting = True
        self.happened = asyncio.Event()
        self.image: DiskImage | None = None
        self._steps = 0
        self.note: Any = lambda: None
        """Called at the moment."""
        disk.before = self._before

    async def wait(self) -> None:
        """Return when it has happened."""
        try:
            async with asyncio.timeout(self.at_ms / 1000):
                await self.happened.wait()
        except TimeoutError:
            for _ in range(self._random.randrange(NUDGES_MAX)):
                await asyncio.sleep(0)
            self._strike()

    def _before(self, what: str, path: str) -> None:
        self._steps += 1
        if self._steps == self.at_step:
            self._strike()
        is_fallible = what in ("write", "sync", "sync names", "rename") and not self.is_starting
        if is_fallible and self._random.random() < self.failing:
            self.has_failed |= what == "sync"
            raise disk_error(errno.EIO if what != "write" else errno.ENOSPC, path)

    def _strike(self) -> None:
        if self.image is None:
            self.image = self._disk.image()
            self.note()
            self.happened.set()

    def finish(self, power_loss: bool) -> None:
        """Give the disk back as it was. The process is dead."""
        assert self.image is not None
        self._disk.before = None
        self._disk.put_back(self.image)
        if power_loss:
            self._disk.lose_power(self._random if self._random.random() < 0.8 else None)
