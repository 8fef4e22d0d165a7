"""What only real threads can show, and the identity of a real process."""

import asyncio
import os
import socket
import sys
import threading
from collections.abc import Awaitable

import pytest

from staticfire.runtime.live import identity, live_machine
from staticfire.runtime.live.workers import LiveWorkers
from staticfire.runtime.machine import ForeignThreads


async def test_functions_run_in_threads_beside_each_other_up_to_the_maximum() -> None:
    workers = LiveWorkers(threads_max=3)
    all_there = threading.Barrier(3)

    def meet() -> str:
        all_there.wait(timeout=20)
        return threading.current_thread().name

    names = await asyncio.gather(*(workers.run(meet) for _ in range(6)))
    assert len(set(names)) <= 3
    assert all(name.startswith("staticfire") for name in names)
    await workers.close()


async def test_closing_waits_for_running_work_while_the_loop_continues() -> None:
    workers = LiveWorkers()
    loop, begun, may_end = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def work() -> str:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(timeout=20)
        return "done"

    working = asyncio.ensure_future(workers.run(work))
    await begun.wait()
    closing = asyncio.ensure_future(workers.close())
    for _ in range(10):
        await asyncio.sleep(0)
    assert not closing.done()
    may_end.set()
    await closing
    assert await working == "done"
    assert not [thread for thread in threading.enumerate() if thread.name == "staticfire-close"]


async def test_threads_are_gone_after_closing() -> None:
    workers = LiveWorkers()
    thread = await workers.run(threading.current_thread)
    assert thread.is_alive()
    await workers.close()
    assert not thread.is_alive()


def test_a_machine_knows_its_process() -> None:
    machine = live_machine()
    assert machine.identity.pid == os.getpid()
    assert machine.identity.host_name == socket.gethostname()


def test_the_address_of_a_machine_is_one_of_its_own() -> None:
    with socket.socket() as sock:
        sock.bind((live_machine().identity.host_ip, 0))


def test_the_address_without_a_way_out_is_an_interfaces_or_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "NOWHERE", ("255.255.255.255", 9))  # connecting there is refused: broadcast
    address = identity.host_ip()
    with socket.socket() as sock:
        sock.bind((address, 0))
    monkeypatch.setattr(identity, "interfaces", lambda: ["lo", "no-such-interface"])
    assert identity.host_ip() == "127.0.0.1"


def test_two_machines_have_different_chances() -> None:
    assert live_machine().identity.random.random() != live_machine().identity.random.random()


async def test_who_was_never_needed_closes_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise AssertionError(f"{thread.name} was started")

    monkeypatch.setattr(threading.Thread, "start", start)
    workers = LiveWorkers()
    await workers.close()
    await workers.close()
    with pytest.raises(RuntimeError):
        await workers.run(print)


async def test_functions_that_never_end_hold_up_neither_others_nor_the_close() -> None:
    workers, release = LiveWorkers(threads_max=2), threading.Event()
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    def hang() -> None:
        loop.call_soon_threadsafe(begun.set)
        release.wait()

    hanging = asyncio.ensure_future(workers.run_foreign(hang))
    await begun.wait()
    thread = await workers.run_foreign(threading.current_thread)
    assert await workers.run_foreign(threading.current_thread) is thread, "an idle thread is used again"
    assert thread.daemon
    await workers.close()
    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="closed"):
        await workers.run_foreign(print)
    release.set()
    await hanging


async def test_a_close_doesnt_wait_for_a_function_that_an_idle_thread_is_about_to_take() -> None:
    threads, may_end = LiveWorkers(threads_max=1).foreign_threads(1), threading.Event()
    await threads.run(threading.current_thread)
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1_000)  # The idle thread doesn't run until this one waits.
    try:
        call = threads.run(may_end.wait).__await__()
        next(call)
        ended = threads.close()
    finally:
        sys.setswitchinterval(interval_s)
    for thread in ended:
        await asyncio.to_thread(thread.join, 20)
    still_alive = [thread for thread in ended if thread.is_alive()]
    may_end.set()
    call.close()
    assert not still_alive, "`close` returned a thread that took the function"


class Hanging:
    """Functions that hang in threads until `release`."""

    def __init__(self, threads: ForeignThreads) -> None:
        self.threads = threads
        self.running = 0
        self.release = threading.Event()
        self._begun = asyncio.Semaphore(0)
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Future[threading.Thread]] = []

    def start(self, count: int) -> None:
        self._tasks += [asyncio.ensure_future(self.threads.run(self._hang)) for _ in range(count)]

    def _hang(self) -> threading.Thread:
        self._loop.call_soon_threadsafe(self._begun.release)
        self.release.wait()
        return threading.current_thread()

    async def begun(self, count: int) -> None:
        """Return when this many have begun since the last time, and none more."""
        async with asyncio.timeout(20):
            for _ in range(count):
                await self._begun.acquire()
        for _ in range(10):
            await asyncio.sleep(0)
        assert self._begun.locked()

    async def end(self) -> list[threading.Thread]:
        self.release.set()
        return await asyncio.gather(*self._tasks)


async def test_parts_with_their_own_threads_dont_wait_for_each_other() -> None:
    workers = LiveWorkers(threads_max=1)
    one, other = Hanging(workers.foreign_threads(40)), Hanging(workers.foreign_threads(2))
    one.start(41)
    await one.begun(40)
    other.start(1)
    await other.begun(1)
    assert await workers.run_foreign(divmod, 17, 5) == (3, 2)
    await workers.close()
    for hanging in (one, other):
        assert all(thread.daemon for thread in await hanging.end())


async def test_the_number_of_threads_can_be_changed() -> None:
    threads = LiveWorkers().foreign_threads(1)
    hanging = Hanging(threads)
    hanging.start(3)
    await hanging.begun(1)
    threads.resize(2)
    await hanging.begun(1)
    threads.resize(3)
    await hanging.begun(1)
    threads.resize(1)
    ended = set(await hanging.end())
    [kept] = {await threads.run(threading.current_thread) for _ in range(3)}
    assert kept in ended
    for thread in ended - {kept}:
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
    threads.resize(2)
    again = Hanging(threads)
    again.start(2)
    await again.begun(2)
    threads.close()
    for thread in await again.end():
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()


async def test_idle_threads_above_a_smaller_number_end() -> None:
    threads = LiveWorkers().foreign_threads(3)
    hanging = Hanging(threads)
    hanging.start(3)
    await hanging.begun(3)
    used = set(await hanging.end())
    threads.resize(1)
    [kept] = {await threads.run(threading.current_thread) for _ in range(3)}
    for thread in used - {kept}:
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive()
    threads.close()


class FewThreads:
    """An operating system that lets a process start only so many more threads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, threads_left: int) -> None:
        self._start = threading.Thread.start
        self.left = threads_left
        monkeypatch.setattr(threading.Thread, "start", lambda thread: self.start(thread))

    def start(self, thread: threading.Thread) -> None:
        if not self.left:
            raise RuntimeError("can't start new thread")
        self.left -= 1
        self._start(thread)


async def test_the_threads_that_could_be_started_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = LiveWorkers()
    threads = workers.foreign_threads(20)
    system = FewThreads(monkeypatch, threads_left=1)
    quotients = await asyncio.gather(*(threads.run(divmod, number, 1) for number in range(3)))
    assert quotients == [(0, 0), (1, 0), (2, 0)]
    threads.resize(30)
    system.left = 1  # The one that closes the workers.
    await asyncio.wait_for(workers.close(), 20)


async def test_without_any_thread_a_call_fails_and_the_workers_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = LiveWorkers()
    threads = workers.foreign_threads(1)
    system = FewThreads(monkeypatch, threads_left=0)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await threads.run(divmod, 17, 5)
    system.left = 2
    assert await threads.run(divmod, 17, 5) == (3, 2)
    await asyncio.wait_for(workers.close(), 20)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, ValueError, StopIteration])
async def test_whatever_a_foreign_function_raises_its_caller_gets(kind: type[BaseException]) -> None:
    workers = LiveWorkers(threads_max=1)

    def fail() -> None:
        raise kind

    outcome = (await asyncio.gather(catch(workers.run_foreign(fail))))[0]
    assert isinstance(outcome, RuntimeError if kind is StopIteration else kind)
    assert await workers.run_foreign(divmod, 17, 5) == (3, 2)
    await workers.close()


async def catch(outcome: Awaitable[object]) -> BaseException | None:
    try:
        await outcome
    except BaseException as error:  # noqa: BLE001 (whatever it is)
        return error
    return None
