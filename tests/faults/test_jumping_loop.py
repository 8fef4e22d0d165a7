"""The event loop on virtual time."""

import asyncio
import contextlib
import socket
import threading
from time import process_time

import pytest

from staticfire.simulation.world import (
    Deadlock,
    JumpingLoop,
    Livelock,
    SimulatedWorld,
    TimeIsUp,
    loop as jumping_loop,
    simulate,
)


async def test_two_hours_with_a_timer_each_second_take_milliseconds(world: SimulatedWorld) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await world.run_for(seconds=1)
            beats += 1

    began_s = process_time()
    heart = asyncio.create_task(beat())
    await world.run_for(ms=500, hours=2)
    heart.cancel()
    assert beats == 7200
    assert world.uptime_ms == 7_200_500
    assert process_time() - began_s < 2  # 60 ms on a quiet machine


async def test_timers_of_one_moment_run_in_the_order_in_which_they_were_set(world: SimulatedWorld) -> None:
    order: list[int] = []
    for number in range(50):
        world.loop.call_at(1.0, order.append, number)
        world.loop.call_later(2.0, order.append, 50 + number)
    await world.run_for(seconds=3)
    assert order == list(range(100))


async def test_uptime_is_whole_at_each_deadline(world: SimulatedWorld) -> None:
    clock = world.machine("one").clock
    wrong = []
    for deadline_ms in range(1, 200_000, 7):
        reached = world.loop.create_future()
        world.loop.call_at(deadline_ms / 1000, reached.set_result, None)
        await reached
        if clock.uptime_ms() != deadline_ms:
            wrong.append(deadline_ms)
    assert wrong == []


async def test_a_cancelled_timer_is_no_reason_to_jump(world: SimulatedWorld) -> None:
    for _ in range(1000):
        world.loop.call_later(3600, print).cancel()
    await world.run_for(seconds=1)
    assert world.uptime_ms == 1000


async def test_time_stops_while_any_callback_is_ready(world: SimulatedWorld) -> None:
    async def busy() -> int:
        for _ in range(1000):
            await asyncio.sleep(0)
        return world.uptime_ms

    timer = asyncio.create_task(world.run_for(1))
    assert await busy() == 0
    await timer


def test_a_deadlock_says_who_waits_where() -> None:
    async def wait_for_nobody() -> None:
        await asyncio.Event().wait()

    async def scenario(world: SimulatedWorld) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(wait_for_nobody(), name="consumer loop")
            await world.run_for(seconds=5)

    with pytest.raises(Deadlock, match=r"(?s)at 5\.000000 s.*waiting: consumer loop \(in Event\.wait.*locks\.py:\d+\)"):
        simulate(scenario)


def test_rounds_without_end_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jumping_loop, "ROUNDS_MAX", 10_000)  # A million rounds take a second.

    async def scenario(world: SimulatedWorld) -> None:
        while True:  # noqa: ASYNC110
            await asyncio.sleep(0)

    with pytest.raises(Livelock, match=r"(?s)10000 rounds.*the next callback is: Task-1 \(in __sleep0, "):
        simulate(scenario)


def test_a_run_may_not_take_more_than_so_many_virtual_hours() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        while True:
            await world.run_for(minutes=10)

    with pytest.raises(TimeIsUp, match=r"the next timer is due at 2\.17 h of 2 h"):
        simulate(scenario, hours_max=2)


def test_a_stuck_world_can_be_used_to_tidy_up() -> None:
    tidied = []

    async def scenario(world: SimulatedWorld) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await world.run_for(seconds=1)
            tidied.append(world.uptime_ms)

    with pytest.raises(Deadlock):
        simulate(scenario)
    assert tidied == [1000]


async def test_nothing_real_happens_on_it(world: SimulatedWorld) -> None:
    with pytest.raises(RuntimeError, match="use machine"):
        await world.loop.run_in_executor(None, print)
    with pytest.raises(RuntimeError, match="use machine"):
        await asyncio.to_thread(print)
    with pytest.raises(RuntimeError, match="use machine"):
        await world.loop.create_connection(asyncio.Protocol, "127.0.0.1", 1)
    with pytest.raises(RuntimeError, match="use machine"):
        await world.loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    with pytest.raises(RuntimeError, match="use machine"):
        await world.loop.getaddrinfo("localhost", 1)
    with pytest.raises(ValueError, match="no sockets"), socket.socket() as sock:
        await world.machine("one").network.listen(asyncio.Protocol, "127.0.0.1", 0, sock)


async def test_a_thread_cannot_wake_it(world: SimulatedWorld) -> None:
    errors: list[RuntimeError] = []

    def wake() -> None:
        try:
            world.loop.call_soon_threadsafe(print)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=wake)
    thread.start()
    thread.join()
    assert "a thread can't wake a simulated world" in str(errors[0])


async def test_until_returns_at_the_moment_at_which_the_condition_is_true(world: SimulatedWorld) -> None:
    done: list[int] = []
    world.loop.call_later(12.5, done.append, 1)
    await world.until(lambda: done)
    assert world.uptime_ms == 12_500
    await world.until(lambda: done)
    assert world.uptime_ms == 12_500


async def test_until_says_what_did_not_come_true_and_what_happened(world: SimulatedWorld) -> None:
    world.machine("one").files.replace("state", b"x")
    with pytest.raises(AssertionError, match=r"(?s)a miracle wasn't met within 5000 ms.*one replaces state"):
        await world.until(lambda: False, within_ms=5_000, what="a miracle")
    with pytest.raises(ZeroDivisionError):
        await world.until(lambda: 1 / 0)


async def test_tasks_and_futures_in_sets_are_walked_in_the_order_of_their_creation(world: SimulatedWorld) -> None:
    order: list[int] = []

    async def wait(number: int) -> None:
        try:
            await world.run_for(hours=1)
        finally:
            order.append(number)

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(wait(number))
            await asyncio.sleep(0)
            raise ValueError("all are cancelled")
    assert order == list(range(100))
    futures = [world.loop.create_future() for _ in range(100)]
    assert list(set(futures)) == futures
    assert all(futures[0] != other for other in futures[1:])


def test_a_world_needs_a_jumping_loop() -> None:
    async def on_the_real_loop() -> None:
        SimulatedWorld()

    with pytest.raises(TypeError, match="needs a JumpingLoop"):
        asyncio.run(on_the_real_loop())
    JumpingLoop().close()
