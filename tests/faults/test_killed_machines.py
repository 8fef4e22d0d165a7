"""Processes that are killed or frozen in mid-line."""

import asyncio
import contextlib
import errno
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextvars import Context
from typing import Any, Self

import pytest

from staticfire.runtime.machine import File, Listener, Machine
from staticfire.simulation.world import ProcessKilled, SimulatedWorld, simulate
from tests.faults.recorder import Doorman, Recorder, connect, join, listen


class Notary:
    """A service with what a kill has to stop: task, timer, port, open file, lock, `finally` blocks."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.doorman = Doorman()
        self.file: File
        self.listener: Listener
        self.notes = 0
        self.farewells = 0
        self._end = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.machine.files.make_folder("/notes")
        self.machine.files.lock_folder("/notes")
        self.file = self.machine.files.open("/notes/log")
        self.notes = self.file.size()
        self.listener = await self.machine.network.listen(self.doorman.let_in, "0.0.0.0", 9876)
        self._task = asyncio.create_task(self._write_loop(), name="writer")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.listener.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        for guest in self.doorman.guests:
            guest.transport.close()

    async def wait(self) -> None:
        await self._end.wait()

    def stop(self) -> None:
        self._end.set()

    async def _write_loop(self) -> None:
        try:
            while True:
                await asyncio.sleep(1)  # house: virtual time
                self.file.write(self.notes, b"x")
                self.notes += 1
        finally:
            self.farewells += 1
            await asyncio.sleep(0)
            self.farewells += 1


async def test_a_killed_process_runs_no_other_line(world: SimulatedWorld) -> None:
    notary = await world.start("a", Notary(world.machine("a")))
    await world.run_for(ms=100, seconds=5)
    world.kill("a")
    await world.run_for(hours=1)
    assert (notary.notes, notary.farewells) == (5, 0)


async def test_the_next_life_finds_what_was_written(world: SimulatedWorld) -> None:
    first = world.machine("a")
    await world.start("a", Notary(first))
    await world.run_for(ms=100, seconds=5)
    world.kill("a")
    second = world.machine("a")
    assert second.identity.pid != first.identity.pid
    assert second.identity.host_name == "a"
    notary = await world.start("a", Notary(second))
    assert notary.notes == 5
    await world.run_for(ms=100, seconds=5)
    await world.stop("a")
    assert (notary.notes, notary.farewells) == (10, 2)


async def test_a_killed_machine_does_nothing_more(world: SimulatedWorld) -> None:
    machine = world.machine("a")
    machine.files.make_folder("/x")
    world.kill("a")
    with pytest.raises(
        ProcessKilled, match=r"a \(pid \d+\) was killed; world\.machine\('a'\) returns its next process"
    ):
        machine.files.replace("/x/y", b"")
    with pytest.raises(ProcessKilled):
        await machine.workers.run(len, "x")
    with pytest.raises(ProcessKilled):
        await listen(machine)
    with pytest.raises(ProcessKilled):
        await connect(machine, "127.0.0.1", 1)
    assert world.machine("a").files.list_folder("/x") == []


async def test_killing_resets_the_connections_of_others_and_closes_the_port(world: SimulatedWorld) -> None:
    notary = await world.start("a", Notary(world.machine("a", host="10.0.0.1")))
    client = await connect(world.machine("client", host="10.0.0.2"), "10.0.0.1", 9876)
    await world.until(lambda: notary.doorman.guests)
    notary.doorman.guests[0].transport.write(b"last words")
    world.kill("a")
    await client.until_event("lost")
    assert client.received == b"last words"
    assert isinstance(client.error, ConnectionResetError)
    assert notary.doorman.guests[0].events == ["made"]
    with pytest.raises(ConnectionRefusedError):
        await connect(world.machine("client"), "10.0.0.1", 9876)


async def test_a_caller_that_waits_for_a_killed_start_gets_an_error(world: SimulatedWorld) -> None:
    class Slow(Notary):
        async def __aenter__(self) -> Self:
            await asyncio.sleep(60)  # house: virtual time
            return self

    starting = asyncio.create_task(world.start("a", Slow(world.machine("a"))))
    await world.run_for(seconds=1)
    world.kill("a")
    with pytest.raises(ProcessKilled):
        await starting


def test_coroutines_of_a_dead_process_end_with_their_world_and_without_a_word() -> None:
    async def scenario(world: SimulatedWorld) -> Notary:
        notary = await world.start("a", Notary(world.machine("a")))
        world.kill("a")
        await world.run_for(hours=1)
        assert notary.farewells == 0
        return notary

    notary = simulate(scenario)
    assert notary.farewells == 1  # the second is behind an await, and nothing comes after an await any more
    del notary
    gc.collect()


async def test_the_loss_of_a_process_frees_its_lock(world: SimulatedWorld) -> None:
    world.machine("a").files.make_folder("/store")
    other = world.machine("b", disk_of="a")
    world.machine("a").files.lock_folder("/store")
    with pytest.raises(BlockingIOError):
        other.files.lock_folder("/store")
    world.kill("a")
    other.files.lock_folder("/store").release()


async def test_a_frozen_process_continues_where_it_stopped(world: SimulatedWorld) -> None:
    notary = await world.start("a", Notary(world.machine("a")))
    await world.run_for(ms=100, seconds=5)
    world.freeze("a")
    await world.run_for(minutes=1)
    assert notary.notes == 5
    world.thaw("a")
    await world.run_for(ms=500)
    assert notary.notes == 6
    await world.run_for(seconds=4)
    assert notary.notes == 10


async def test_connections_of_a_frozen_process_are_silent_and_lose_nothing(world: SimulatedWorld) -> None:
    notary = await world.start("a", Notary(world.machine("a", host="10.0.0.1")))
    world.freeze("a")
    client = await connect(world.machine("client", host="10.0.0.2"), "10.0.0.1", 9876)
    client.transport.write(b"are you there?")
    await world.run_for(minutes=1)
    assert notary.doorman.guests == []
    assert client.events == ["made"]
    world.thaw("a")
    await world.until(lambda: notary.doorman.guests and notary.doorman.guests[0].received)
    assert notary.doorman.guests[0].received == b"are you there?"
    client.transport.close()
    await client.until_event("lost")


async def test_a_frozen_process_can_be_killed(world: SimulatedWorld) -> None:
    notary = await world.start("a", Notary(world.machine("a")))
    world.freeze("a")
    await world.run_for(seconds=10)
    world.kill("a")
    world.machine("a")
    world.thaw("a")
    await world.run_for(seconds=10)
    assert notary.notes == notary.farewells == 0


async def test_a_frozen_process_stops_when_it_is_thawed_and_can_be_killed_before(world: SimulatedWorld) -> None:
    for name, host in (("a", "10.0.0.1"), ("b", "10.0.0.2")):
        await world.start(name, Notary(world.machine(name, host)))
        world.freeze(name)
    stopping = [asyncio.create_task(world.stop(name)) for name in ("a", "b")]
    await world.run_for(seconds=10)
    assert not any(task.done() for task in stopping)
    world.thaw("a")
    world.kill("b")
    await world.run_for(seconds=1)
    await stopping[0]
    with pytest.raises(ProcessKilled):
        await stopping[1]


async def test_a_process_that_dies_while_it_writes_leaves_the_write_undone(world: SimulatedWorld) -> None:
    notary = await world.start("a", Notary(world.machine("a")))

    def die(path: str, position: int, data: object) -> None:
        if position == 3:
            world.disk("a").on_write = None
            world.kill("a")
            raise ProcessKilled

    world.disk("a").on_write = die
    await world.run_for(seconds=10)
    assert notary.notes == 3
    assert world.machine("a").files.read_bytes("/notes/log") == b"xxx"


async def test_what_a_test_runs_itself_on_a_machine_survives_it(world: SimulatedWorld) -> None:
    near, far, doorman = await join(world.machine("a"), world.machine("b"))
    world.kill("a")
    await far.until_event("lost")
    assert near.events == ["made"]
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            await near.until_event("lost")
    await doorman.listener.close()
    assert type(near) is Recorder


class Waiter(Notary):
    """A process that is killed while it waits for something."""

    def __init__(self, world: SimulatedWorld, work: Callable[["Waiter"], Coroutine[Any, Any, None]]) -> None:
        super().__init__(world.machine("a"))
        self.world = world
        self._work = work

    async def _write_loop(self) -> None:
        await self._work(self)

    def be_killed(self) -> None:
        self.world.loop.call_soon(self.world.kill, "a", context=Context())


async def waits_for_what_fails(waiter: Waiter) -> None:
    async def fail() -> None:
        waiter.be_killed()
        raise OSError(errno.EIO, "the disk")

    await asyncio.shield(asyncio.ensure_future(fail()))


async def waits_in_a_context_manager(waiter: Waiter) -> None:
    @contextlib.asynccontextmanager
    async def locked() -> AsyncIterator[None]:
        waiter.be_killed()
        await asyncio.sleep(60)  # house: virtual time
        yield

    async with locked():
        raise AssertionError("it has been killed")


@pytest.mark.parametrize("work", [waits_for_what_fails, waits_in_a_context_manager])
def test_what_a_killed_process_left_undone_is_not_reported(
    work: Callable[[Waiter], Coroutine[Any, Any, None]], caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: SimulatedWorld) -> None:
        await world.start("a", Waiter(world, work))
        await world.run_for(seconds=1)

    simulate(scenario)
    gc.collect()
    assert caplog.text == ""
