"""What a service is told from outside of its event loop."""

import asyncio
import threading
from contextlib import suppress

import pytest

from staticfire.runtime.service import Service


async def test_a_thread_stops_it_at_once() -> None:
    """The loop sleeps meanwhile: nothing else would wake it."""
    service = Service()
    async with service:
        threading.Timer(0.01, service.stop).start()
        async with asyncio.timeout(60):
            await service.wait()


async def test_what_a_thread_asks_for_is_done_in_the_loop() -> None:
    service, done = Service(), asyncio.Event()
    where: list[int] = []

    def act() -> None:
        where.append(threading.get_ident())
        done.set()

    async with service:
        threading.Thread(target=service.in_loop, args=(act,)).start()
        async with asyncio.timeout(60):
            await done.wait()
        service.in_loop(act)
    assert where == [threading.get_ident()] * 2


def test_before_it_has_a_loop_it_is_done_at_once() -> None:
    done: list[int] = []
    Service().in_loop(lambda: done.append(1))
    assert done == [1]


class Loopy(Service):
    """A service whose start waits for what its loop would do, which crashes instead."""

    def __init__(self, crashes: bool = True) -> None:
        super().__init__()
        self._crashes = crashes
        self.is_waiting = asyncio.Event()
        self.steps: list[str] = []

    async def _start(self) -> None:
        if self._crashes:
            self.spawn(self._loop(), "a loop")
        self.is_waiting.set()
        await asyncio.Future()

    async def _loop(self) -> None:
        await self.is_waiting.wait()
        raise ValueError("the loop")

    async def _stop(self) -> None:
        await asyncio.sleep(0)
        self.steps.append("stopped")


async def test_a_loop_that_crashes_during_the_start_ends_it() -> None:
    service = Loopy()
    async with asyncio.timeout(60) as deadline:
        with pytest.raises(ValueError, match="the loop"):
            await service.__aenter__()
        assert service.steps == ["stopped"]
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        await asyncio.sleep(0)
    assert not deadline.expired()


@pytest.mark.parametrize("crashes", [True, False])
async def test_a_start_that_is_cancelled_stays_cancelled(crashes: bool) -> None:
    service = Loopy(crashes)
    start = asyncio.get_running_loop().create_task(service.__aenter__())
    await service.is_waiting.wait()
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    assert service.steps == ["stopped"]


class Explained(Loopy):
    """A service whose loop crashes for a reason."""

    async def _loop(self) -> None:
        await self.is_waiting.wait()
        raise RuntimeError("explained") from ValueError("the loop")


async def test_a_crash_during_the_start_keeps_its_cause() -> None:
    with pytest.raises(RuntimeError, match="explained") as raised:
        await Explained().__aenter__()
    assert str(raised.value.__cause__) == "the loop"


class Tolerant(Loopy):
    """A service that waits during its start for something whose cancellation it ignores."""

    async def _start(self) -> None:
        self.spawn(self._loop(), "a loop")
        self.is_waiting.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Future()


async def test_a_start_that_ignores_the_end_of_its_wait_fails_with_the_crash_all_the_same() -> None:
    service, task = Tolerant(), asyncio.current_task()
    assert task is not None
    with pytest.raises(ValueError, match="the loop"):
        await service.__aenter__()
    assert (service.steps, task.cancelling()) == (["stopped"], 0)
