"""Machines of a simulated world: who they are, what runs on them, and the end."""

import asyncio
import gc
from typing import Self

import pytest

from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Service
from staticfire.simulation.world import LeftOver, SimulatedWorld, TimeIsUp, simulate
from tests.faults.recorder import connect, join, listen, part

JANUARY_2026_MS = 1_767_225_600_000


class Beat(Service):
    """Counts seconds."""

    def __init__(self, machine: Machine, fails_at: int = -1) -> None:
        super().__init__()
        self.beats = 0
        self.left = False
        self._fails_at = fails_at

    async def _start(self) -> None:
        await asyncio.sleep(0.5)  # house: virtual time
        self.spawn(self._beat_loop(), "beat")

    async def _stop(self) -> None:
        self.left = True

    async def _beat_loop(self) -> None:
        while True:
            await asyncio.sleep(1)  # house: virtual time
            self.beats += 1
            if self.beats == self._fails_at:
                raise ValueError("out of beats")


class Refuses(Beat):
    async def __aenter__(self) -> Self:
        raise OSError("no such thing")


async def test_wall_clocks_begin_in_2026_and_can_be_wrong(world: SimulatedWorld) -> None:
    right, wrong = world.machine("right"), world.machine("wrong", skew_ms=-5_000)
    await world.run_for(minutes=1)
    assert right.clock.wall_ms() == JANUARY_2026_MS + 60_000
    assert wrong.clock.wall_ms() == JANUARY_2026_MS + 55_000
    world.skew("wrong", 1_000)
    assert wrong.clock.wall_ms() == JANUARY_2026_MS + 61_000
    assert right.clock.uptime_ms() == wrong.clock.uptime_ms() == 60_000


async def test_identities_depend_on_seed_and_name_only(world: SimulatedWorld) -> None:
    a, b = world.machine("a"), world.machine("b", host="10.0.0.2")
    async with SimulatedWorld(seed=world.seed) as again:
        b2, a2 = again.machine("b", host="10.0.0.2"), again.machine("a")
        assert (a.identity.pid, b.identity.pid) == (a2.identity.pid, b2.identity.pid)
        assert a.identity.random.random() == a2.identity.random.random()
        assert b.identity.random.random() == b2.identity.random.random()
    async with SimulatedWorld(seed=world.seed + 1) as other:
        assert other.machine("a").identity.pid != a.identity.pid
    assert (b.identity.host_name, b.identity.host_ip) == ("b", "10.0.0.2")
    assert a.identity.random.random() != b.identity.random.random()


async def test_a_name_is_one_machine(world: SimulatedWorld) -> None:
    machine = world.machine("a", host="10.0.0.1")
    assert world.machine("a") is machine
    assert world.machine("a", host="10.0.0.1") is machine
    with pytest.raises(ValueError, match="a has the address"):
        world.machine("a", host="10.0.0.2")
    with pytest.raises(KeyError, match="there is no machine c; the machines are a"):
        world.disk("c")


async def test_a_service_runs_on_a_machine_until_it_is_stopped(world: SimulatedWorld) -> None:
    beat = await world.start("a", Beat(world.machine("a")))
    assert world.uptime_ms == 500
    await world.run_for(ms=100, seconds=10)
    await world.stop("a")
    assert (beat.beats, beat.left) == (10, True)


async def test_what_still_runs_at_the_end_is_stopped(world: SimulatedWorld) -> None:
    beat = Beat(world.machine("a"))
    async with SimulatedWorld() as inner:
        await inner.start(inner.machine("a"), beat)
    assert beat.left


async def test_a_service_that_cannot_start_says_so(world: SimulatedWorld) -> None:
    with pytest.raises(OSError, match="no such thing"):
        await world.start("a", Refuses(world.machine("a")))


async def test_stop_raises_what_a_service_crashed_with(world: SimulatedWorld) -> None:
    await world.start("a", Beat(world.machine("a"), fails_at=3))
    await world.run_for(seconds=10)
    with pytest.raises(ValueError, match="out of beats"):
        await world.stop("a")


def test_a_crash_that_no_fault_caused_fails_the_run() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        await world.start("a", Beat(world.machine("a"), fails_at=3))
        await world.run_for(seconds=10)

    with pytest.raises(LeftOver, match="a service that failed: a: ValueError"):
        simulate(scenario)


def test_an_unfinished_task_fails_the_run() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        world.keep = asyncio.create_task(world.run_for(hours=1), name="forgotten")  # type: ignore[attr-defined]

    with pytest.raises(LeftOver, match=r"an unfinished task: forgotten \(in sleep, "):
        simulate(scenario)


def test_a_failure_that_was_not_noticed_fails_the_run() -> None:
    async def fail() -> None:
        raise ValueError("unseen")

    async def task(world: SimulatedWorld) -> None:
        world.keep = asyncio.create_task(fail())  # type: ignore[attr-defined]

    async def callback(world: SimulatedWorld) -> None:
        world.loop.call_later(0.1, int, "no number")
        await world.run_for(seconds=1)

    with pytest.raises(LeftOver, match=r"a task with an unhandled failure: .*ValueError\('unseen'\)"):
        simulate(task)
    with pytest.raises(LeftOver, match=r"an unhandled exception: .*ValueError"):
        simulate(callback)


def test_an_open_connection_or_port_fails_the_run() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        await join(world.machine("a"), world.machine("b"))

    with pytest.raises(LeftOver, match=r"(?s)connection of a \(127.*listener of b at 127\.0\.0\.1:4"):
        simulate(scenario)


def test_a_run_that_failed_says_why_and_nothing_else() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        await join(world.machine("a"), world.machine("b"))
        asyncio.create_task(world.run_for(hours=1))  # noqa: RUF006
        raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        simulate(scenario)


def test_a_stuck_world_says_why_and_nothing_else() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        await world.start("a", Beat(world.machine("a")))
        await join(world.machine("a"), world.machine("b"))
        async with asyncio.timeout(20):
            await world.loop.create_future()

    with pytest.raises(TimeoutError):
        simulate(scenario)

    async def stuck(world: SimulatedWorld) -> None:
        await world.start("a", Beat(world.machine("a")))
        await world.loop.create_future()

    with pytest.raises(TimeIsUp, match="waiting: a: Beat of a"):
        simulate(stuck, hours_max=1)
    gc.collect()


async def test_machines_of_other_hosts_are_reached_by_address_and_by_name(world: SimulatedWorld) -> None:
    client = world.machine("client", host="10.0.0.1")
    broker = world.machine("broker", host="10.0.0.2")
    near, far, doorman = await join(client, broker, "10.0.0.2")
    by_name = await connect(client, "broker", doorman.listener.port)
    assert near.transport.get_extra_info("peername") == ("10.0.0.2", doorman.listener.port)
    assert far.transport.get_extra_info("peername")[0] == "10.0.0.1"
    by_name.transport.close()
    await by_name.until_event("lost")
    await part(near, far, doorman)


async def test_loopback_is_ones_own_machine(world: SimulatedWorld) -> None:
    client = world.machine("client", host="10.0.0.1")
    broker, neighbour = world.machine("broker", host="10.0.0.2"), world.machine("neighbour", host="10.0.0.2")
    doorman = await listen(broker, "127.0.0.1", 9876)
    with pytest.raises(ConnectionRefusedError):
        await connect(client, "10.0.0.2", 9876)
    with pytest.raises(ConnectionRefusedError):
        await connect(client, "127.0.0.1", 9876)
    (await connect(neighbour, "127.0.0.1", 9876)).transport.close()
    same_port_elsewhere = await listen(client, "127.0.0.1", 9876)
    await same_port_elsewhere.listener.close()
    await doorman.listener.close()


async def test_an_unused_address_gives_no_answer(world: SimulatedWorld) -> None:
    with pytest.raises(TimeoutError, match=r"10\.9\.9\.9:80: no response within 3000 ms"):
        await connect(world.machine("client"), "10.9.9.9", 80)
    assert world.uptime_ms == 3_000
