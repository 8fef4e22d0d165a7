"""What a service is told from outside of its event loop."""

import asyncio
import threading

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
