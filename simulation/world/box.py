"""One machine of a simulated world: a permanent disk and clock, one process after another, and the services in them."""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, TypeVar

from staticfire.runtime.machine import Machine
from staticfire.simulation.world.disk import Disk
from staticfire.simulation.world.files import SimulatedFiles
from staticfire.simulation.world.machine import SimulatedClock, simulated_identity
from staticfire.simulation.world.network import ProcessNetwork, SimulatedNetwork
from staticfire.simulation.world.process import Process
from staticfire.simulation.world.workers import SimulatedWorkers


class Startable(Protocol):
    """What a process can run; `runtime.service.Service` is one."""

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> object: ...

    async def wait(self) -> None: ...

    def stop(self) -> None: ...


S = TypeVar("S", bound=Startable)


@dataclass
class _Running:
    service: Startable
    task: asyncio.Task[None]
    ended: asyncio.Future[None]
    """Done when the task is done, or when its process is killed: a killed task is never done."""


class Box:
    """A machine with one process at a time."""

    def __init__(self, name: str, host: str, disk: Disk, skew_ms: int, network: SimulatedNetwork) -> None:
        self.name = name
        self.host = host
        self.disk = disk
        self.clock = SimulatedClock(network.loop, skew_ms)
        self.life = 0
        self._network = network
        self._running: list[_Running] = []
        self.process: Process
        self.machine: Machine
        self.begin_life()

    def begin_life(self) -> None:
        """Create a new process for the machine."""
        self.life += 1
        identity = simulated_identity(self._network.seed, self.name, self.host, self.life)
        self.process = Process(self.name, self.host, identity.pid)
        self.machine = Machine(
            clock=self.clock,
            network=ProcessNetwork(self.process, self._network),
            files=SimulatedFiles(self.process, self.disk, self._network.history),
            workers=SimulatedWorkers(self._network.loop, self.process, self.disk),
            identity=identity,
        )

    async def start(self, service: S) -> S:
        """Run a service in the process; return it when it is ready. Raises: what its start raises, ProcessKilled."""
        self.process.require_alive()
        loop = self._network.loop
        ready, ended = loop.create_future(), loop.create_future()
        task = loop.create_task(
            _main(service, ready),
            name=f"{self.name}: {type(service).__name__}",
            context=self.process.context.copy(),
        )
        running = _Running(service, task, ended)
        task.add_done_callback(lambda _: _finish(ended))
        self._running.append(running)
        await asyncio.wait((ready, ended), return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            if running in self._running:
                self._running.remove(running)
            self.process.require_alive()
            await task
        return service

    async def stop(self) -> None:
        """Stop the services gracefully, the newest first. Raises: what a service crashed with, ProcessKilled."""
        process = self.process
        process.require_alive()
        while self._running:
            running = self._running[-1]
            running.service.stop()
            await running.ended  # Also if the process is killed meanwhile.
            process.require_alive()
            self._running.remove(running)
            await running.task

    def failures(self) -> list[BaseException]:
        """Return what services of the process crashed with."""
        ended = (running.task for running in self._running if running.task.done())
        return [error for task in ended if (error := task.exception()) is not None]

    def kill(self) -> None:
        """Kill the process, wherever its code is."""
        self.process.require_alive()
        self.process.die(self._network.loop.take_away(self.process))
        self._network.drop(self.process)
        running, self._running = self._running, []
        for one in running:
            _finish(one.ended)


async def _main(service: Startable, ready: asyncio.Future[None]) -> None:
    """Run a service in a simulated process until it stops."""
    async with service:
        ready.set_result(None)
        await service.wait()


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
