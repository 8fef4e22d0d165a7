"""What clock, workers and identity promise, kept by the real machine and by a simulated one."""

import asyncio

import pytest

from tests.faults.conftest import Stand


async def test_deadlines_of_the_loop_are_on_the_clock_of_uptime(stand: Stand) -> None:
    loop, clock = asyncio.get_running_loop(), stand.machine.clock
    deadline_ms = clock.uptime_ms() + 30
    reached = loop.create_future()
    loop.call_at(deadline_ms / 1000, lambda: reached.set_result(clock.uptime_ms()))
    assert deadline_ms <= await reached < deadline_ms + 20_000


async def test_the_wall_clock_is_in_this_century_and_in_whole_milliseconds(stand: Stand) -> None:
    wall_ms = stand.machine.clock.wall_ms()
    assert type(wall_ms) is int
    assert 1_700_000_000_000 < wall_ms < 4_000_000_000_000


async def test_workers_return_what_the_function_returns(stand: Stand) -> None:
    assert await stand.machine.workers.run(divmod, 17, 5) == (3, 2)


async def test_workers_raise_what_the_function_raises(stand: Stand) -> None:
    with pytest.raises(ZeroDivisionError):
        await stand.machine.workers.run(divmod, 17, 0)


async def test_the_loop_continues_while_a_worker_works(stand: Stand) -> None:
    order: list[str] = []
    working = asyncio.ensure_future(stand.machine.workers.run(stand.machine.clock.uptime_ms))
    asyncio.get_running_loop().call_soon(order.append, "loop")
    await working
    order.append("worker")
    assert order == ["loop", "worker"]


async def test_closed_workers_work_no_more(stand: Stand) -> None:
    await stand.machine.workers.run(len, "x")
    await stand.machine.workers.close()
    await stand.machine.workers.close()
    with pytest.raises(RuntimeError):
        await stand.machine.workers.run(len, "x")


async def test_an_identity_has_all_it_needs(stand: Stand) -> None:
    identity = stand.machine.identity
    assert identity.pid > 1
    assert identity.host_name
    assert identity.host_ip.count(".") == 3
    assert 0 <= identity.random.random() < 1
