"""A whole world on virtual time, in one event loop with its test: machines, network, disks, and their faults.

Machines are identified by name. `machine(name)` returns the five seams of its process; after a `kill`, those of its
next process, on the same disk. A service that was started with `start` belongs to that process, with all tasks that it
starts in turn. It ends gracefully by `stop`, or at an arbitrary line by `kill`. What a test runs itself on a machine's
seams belongs to the test and isn't killed, but its connections, files and locks are.

Two worlds with the same seed have the same history, to the nanosecond (`history.fingerprint`).
"""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Machine
from staticfire.simulation.world.box import Box, S
from staticfire.simulation.world.chance import source_of_chance
from staticfire.simulation.world.disk import Disk
from staticfire.simulation.world.ending import LeftOver, left_over, tidy_up
from staticfire.simulation.world.history import History
from staticfire.simulation.world.link import LinkQuality
from staticfire.simulation.world.loop import JumpingLoop
from staticfire.simulation.world.network import SimulatedNetwork
from staticfire.simulation.world.process import Process

# How long `until` waits for its condition, if nothing else is set.
UNTIL_MS = 600_000
# Virtual time at the end, so that the peers of closed connections are notified.
FAREWELL_S = 1.0

Who = str | Machine


class SimulatedWorld:
    """Machines that share time and a network. Create it on a running JumpingLoop and close it at the end."""

    def __init__(self, seed: int = 0, quality: LinkQuality | None = None) -> None:
        """`quality`: of every link without a quality of its own."""
        loop = asyncio.get_running_loop()
        if not isinstance(loop, JumpingLoop):
            raise TypeError(f"a simulated world needs a JumpingLoop, not {type(loop).__name__}")
        self.seed = seed
        self.loop = loop
        self.history = History(loop)
        self.network = SimulatedNetwork(loop, self.history, seed, quality or LinkQuality())
        self.random = source_of_chance(seed, "test")
        """Random numbers for the test itself."""
        self._boxes: dict[str, Box] = {}
        self._dead: list[Process] = []
        self._unhandled: list[dict[str, Any]] = []
        self._is_closed = False
        loop.set_exception_handler(lambda _, context: self._unhandled.append(context))

    # -- machines --------------------------------------------------------------------------------------------------

    def machine(self, name: str, host: str | None = None, skew_ms: int = 0, disk_of: Who | None = None) -> Machine:
        """Return the machine with this name. It is created at the first call; after a kill it gets a new process.

        `host`: its address, by default 127.0.0.1; machines may share one. `skew_ms`: how far its wall clock is ahead.
        `disk_of`: the machine whose disk it uses instead of its own.
        """
        box = self._boxes.get(name)
        if box is None:
            disk = Disk(name) if disk_of is None else self.disk(disk_of)
            self.network.hosts[name] = host or "127.0.0.1"
            box = self._boxes[name] = Box(name, self.network.hosts[name], disk, skew_ms, self.network)
        elif host not in (None, box.host):
            raise ValueError(f"{name} has the address {box.host}; {host} must be another machine")
        if box.process.is_dead:
            box.begin_life()
        return box.machine

    async def start(self, who: Who, service: S) -> S:
        """Run a service in a machine's process; return it when it is ready. Raises: what its start raises."""
        return await self._box(who).start(service)

    async def stop(self, who: Who) -> None:
        """Stop all services in a machine's process gracefully, newest first. Raises: what a service crashed with."""
        await self._box(who).stop()

    def failures(self, who: Who) -> list[BaseException]:
        """Return what services in a machine's process crashed with."""
        return self._box(who).failures()

    def disk(self, who: Who) -> Disk:
        """Return a machine's disk, on which disk faults are set."""
        return self._box(who).disk

    # -- faults ----------------------------------------------------------------------------------------------------

    def kill(self, who: Who, power_loss: bool = False, torn: bool = False) -> None:
        """Kill a machine's process at an arbitrary line, as SIGKILL does. What it wrote to files is kept. What it wrote
        to connections arrives, and then they are reset.

        `power_loss`: the machine loses power, so only synced bytes are kept. `torn`: a random part of the others is
        kept, too.
        """
        box = self._box(who)
        self.history.record(box.name, "is killed", "without power" if power_loss else "")
        self._dead.append(box.process)
        box.kill()
        if power_loss:
            box.disk.lose_power(source_of_chance(self.seed, "torn", box.name, box.life) if torn else None)

    def freeze(self, who: Who) -> None:
        """Stop a machine's process for a while, as SIGSTOP does: none of its code runs, its connections remain open."""
        box = self._box(who)
        self.history.record(box.name, "is frozen")
        box.process.require_alive()
        box.process.freeze()

    def thaw(self, who: Who) -> None:
        """Let a frozen process continue where it was stopped."""
        box = self._box(who)
        self.history.record(box.name, "is thawed")
        self.loop.make_ready(box.process.thaw())

    def skew(self, who: Who, skew_ms: int) -> None:
        """Set how far a machine's wall clock is ahead."""
        self._box(who).clock.skew_ms = skew_ms

    def partition(self, one: Who, other: Who, one_way: bool = False) -> None:
        """Let nothing pass from one machine to the other, and back, until `heal`. Connections stay open but silent."""
        here, there = self._box(one).name, self._box(other).name
        self.history.record(here, "can't reach" if one_way else "is cut off from", there)
        self.network.link(here, there).cut()
        if not one_way:
            self.network.link(there, here).cut()

    def isolate(self, who: Who) -> None:
        """Cut a machine off from all other machines that exist now."""
        name = self._box(who).name
        self.history.record(name, "is isolated")
        for link in self.network.links_of(name):
            link.cut()

    def heal(self, one: Who, other: Who | None = None) -> None:
        """Reconnect a machine with another or with all. What was sent meanwhile arrives."""
        name = self._box(one).name
        self.history.record(name, "is joined again")
        if other is None:
            links = self.network.links_of(name)
        else:
            there = self._box(other).name
            links = [self.network.link(name, there), self.network.link(there, name)]
        for link in links:
            link.heal()

    def set_link(self, one: Who, other: Who, quality: LinkQuality) -> None:
        """Set the quality of the links between two machines, in both directions, from now on."""
        here, there = self._box(one).name, self._box(other).name
        self.network.link(here, there).use(quality)
        self.network.link(there, here).use(quality)

    # -- time ------------------------------------------------------------------------------------------------------

    @property
    def uptime_ms(self) -> UptimeMs:
        """Virtual time since the start of the world."""
        return UptimeMs(self.loop.uptime_ns // 1_000_000)

    async def run_for(self, ms: float = 0, *, seconds: float = 0, minutes: float = 0, hours: float = 0) -> None:
        """Let this much virtual time pass."""
        await asyncio.sleep(ms / 1000 + seconds + 60 * minutes + 3600 * hours)  # house: virtual time

    async def until(self, condition: Callable[[], object], within_ms: float = UNTIL_MS, what: str = "") -> None:
        """Return as soon as the condition is true. It is checked each time before the clock moves on.

        Raises: AssertionError after `within_ms`, with the latest events.
        """
        held = self.loop.create_future()
        self.loop.watch(condition, held)
        try:
            async with asyncio.timeout(within_ms / 1000):
                await held
        except TimeoutError:
            words = f"{what or 'the condition'} wasn't met within {within_ms} ms of virtual time"
            raise AssertionError(f"{words}; the last events:\n{self.history.last()}") from None

    # -- the end ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self.close(quietly=error is not None)

    async def close(self, quietly: bool = False) -> None:
        """Stop the services, newest machine first, and clean up.

        Raises: LeftOver for remaining tasks, connections and ports, and for unnoticed exceptions; but not if `quietly`,
        and not if the world got stuck, which was already reported.
        """
        if self._is_closed:
            return
        self.loop.hours_max += 1
        problems: list[str] = []
        if not quietly and self.loop.stuck is None:
            problems += await self._stop_all()
            problems += left_over(self.network, self._unhandled)
        self._is_closed = True
        await tidy_up(self.network, [*self._dead, *(box.process for box in self._boxes.values())])
        self.loop.set_exception_handler(None)
        if problems:
            raise LeftOver("\n".join(["the simulation ended with these problems", *problems]))

    async def _stop_all(self) -> list[str]:
        problems = []
        self.network.heal_all()
        for box in reversed(list(self._boxes.values())):
            self.loop.make_ready(box.process.thaw())
            if not box.process.is_dead:
                try:
                    await box.stop()
                except Exception as error:  # noqa: BLE001 - one service that failed, to be reported with the others
                    problems.append(f"  a service that failed: {box.name}: {error!r}")
        await self.run_for(seconds=FAREWELL_S)
        return problems

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _box(self, who: Who) -> Box:
        name = who if isinstance(who, str) else who.identity.host_name
        if name not in self._boxes:
            raise KeyError(f"there is no machine {name}; the machines are {', '.join(self._boxes) or 'none'}")
        return self._boxes[name]
