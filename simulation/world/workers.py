"""Workers of a simulated process, without threads: a function takes virtual time, and nothing else runs meanwhile."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from staticfire.simulation.world.disk import Disk
from staticfire.simulation.world.link import WIRE
from staticfire.simulation.world.loop import JumpingLoop
from staticfire.simulation.world.process import Process

T = TypeVar("T")
RUN_MS = 0.05


class SimulatedWorkers:
    """Runs functions in the loop after a moment of virtual time. A sync additionally takes the disk's time."""

    def __init__(self, loop: JumpingLoop, process: Process, disk: Disk, run_ms: float = RUN_MS) -> None:
        self.run_ms = run_ms
        self._loop = loop
        self._process = process
        self._disk = disk
        self._is_closed = False

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        self._process.require_alive()
        if self._is_closed:
            raise RuntimeError("these workers are closed")
        await asyncio.sleep(self.run_ms / 1000)  # house: virtual time
        syncing: list[tuple[Callable[[], None], float]] = []
        self._disk.syncing = syncing
        try:
            return function(*arguments)
        finally:
            self._disk.syncing = None
            if syncing:
                await self._finish_syncs(syncing)

    async def run_foreign(self, function: Callable[..., T], *arguments: object) -> T:
        return await self.run(function, *arguments)

    def foreign_threads(self, threads_max: int) -> "SimulatedThreads":
        return SimulatedThreads(self)

    async def close(self) -> None:
        self._is_closed = True

    async def _finish_syncs(self, syncing: list[tuple[Callable[[], None], float]]) -> None:
        """Make the synced data durable after the time that this takes, unless power is lost before.

        The disk continues even if the process is killed or the caller is cancelled, so this isn't part of the task.
        """
        disk, power_losses = self._disk, self._disk.power_losses
        delay_ms = sum(takes_ms for _, takes_ms in syncing)
        if not delay_ms:
            for make_durable, _ in syncing:
                make_durable()
            return
        is_done = self._loop.create_future()

        def done() -> None:
            if disk.power_losses == power_losses:
                for make_durable, _ in syncing:
                    make_durable()
            if not is_done.done():
                is_done.set_result(None)

        self._loop.call_at_ns(self._loop.uptime_ns + round(delay_ms * 1e6), done, context=WIRE)
        await is_done


class SimulatedThreads:
    """Threads of one part of a program. No limit is needed: nothing else runs while a function runs."""

    def __init__(self, workers: SimulatedWorkers) -> None:
        self._workers = workers

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        return await self._workers.run(function, *arguments)

    def resize(self, threads_max: int) -> None: ...

    def close(self) -> None: ...
