"""Faults of a broker's disk: steps that fail at random, and a step before which the process is killed."""

import errno
from collections.abc import Callable
from random import Random

from staticfire.simulation.world.chance import source_of_chance
from staticfire.simulation.world.disk import disk_error
from staticfire.simulation.world.process import ProcessKilled
from staticfire.simulation.world.world import SimulatedWorld

WRITES = ("write", "create", "truncate", "rename")
ROTTEN_MAX = 4
# The share of disks on which a power loss keeps arbitrary sectors of what wasn't synced; others keep a prefix.
REORDERS_SHARE = 0.5
# The share of disks on which the data of a failed sync is lost from memory, too, so that the broker must give up.
EVICTS_SHARE = 0.5
SYNC_MS = (0.0, 1.0, 15.0)
SYNCS = ("sync", "sync names")


class DiskTrouble:
    """The faults of one disk."""

    def __init__(self, world: SimulatedWorld, name: str) -> None:
        self._world = world
        self._name = name
        self.was_bad = False
        """Whether anything has failed so far."""
        kind, disk = source_of_chance(world.seed, "kind of disk", name), world.disk(name)
        disk.reorders = kind.random() < REORDERS_SHARE
        self.usual_sync_ms = disk.sync_ms = kind.choice(SYNC_MS)
        """How long a sync of this disk takes without a fault."""
        disk.evicts = kind.random() < EVICTS_SHARE
        self._failing: dict[str, float] = {}
        self._chance = Random(0)
        self._steps_left = 0
        self._end: list[Callable[[], None]] = []

    def fail(self, steps: tuple[str, ...], share: float, chance: Random) -> None:
        """Let a share of these steps fail from now on."""
        self._chance = chance
        self._failing |= dict.fromkeys(steps, share)
        self._take_effect()

    def fail_reads(self, share: float, chance: Random, end: Callable[[], None]) -> None:
        """Let a share of reads fail from now on. A failed read through a map kills the process: it calls `end`."""

        def on_read(path: str, position: int, _: int, is_map: bool) -> int:
            if chance.random() >= share:
                return position
            self.was_bad = True
            if is_map:
                end()
                raise ProcessKilled(f"{self._name} ended by a read of {path}")
            raise disk_error(errno.EIO, path)

        self._world.disk(self._name).on_read = on_read

    def misdirect_reads(self, share: float, chance: Random) -> None:
        """Let a share of reads return the bytes before or after the requested ones."""

        def on_read(_: str, position: int, size: int, __: bool) -> int:
            if chance.random() >= share:
                return position
            self.was_bad = True
            return max(0, position + chance.choice((-1, 1)) * max(1, size))

        self._world.disk(self._name).on_read = on_read

    def rot(self, chance: Random) -> None:
        """Flip bits in the files of queues, within what is written."""
        disk = self._world.disk(self._name)
        paths = sorted(path for path, inode in disk.files.items() if "/consumequeue/" in path and inode.content)
        for _ in range(chance.randint(1, ROTTEN_MAX) if paths else 0):
            path = chance.choice(paths)
            disk.rot(path, chance.randrange(len(disk.files[path].content)), 1 << chance.randrange(8))
            self.was_bad = True

    def end_at_step(self, steps: int, end: Callable[[], None]) -> None:
        """Call `end`, which kills the process, before the `steps`-th step from now."""
        self._steps_left = steps
        self._end = [end]
        self._take_effect()

    def mend(self) -> None:
        """End all faults."""
        self._failing.clear()
        self._steps_left = 0
        self._end.clear()
        self._world.disk(self._name).on_read = None
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
