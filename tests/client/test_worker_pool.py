"""Tasks that share work."""

import asyncio
from collections import deque

from staticfire.client.consume.listeners.worker_pool import WorkerPool
from staticfire.simulation.world import SimulatedWorld


class Works:
    """Pieces of work: each takes its time, and who did it is noted."""

    def __init__(self, size: int) -> None:
        self.waiting: deque[float] = deque()
        self.done: list[int] = []
        self.running = 0
        self.running_max = 0
        self.tasks: list[asyncio.Task[None]] = []
        self.pool = WorkerPool(size, self.work, self.spawn, "worker")

    def spawn(self, coroutine: object, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine, name=name)  # type: ignore[arg-type]
        self.tasks.append(task)
        return task

    def add(self, *seconds: float) -> None:
        self.waiting.extend(seconds)
        self.pool.call()

    async def work(self) -> None:
        while self.waiting and not self.pool.is_shrinking:
            seconds = self.waiting.popleft()
            self.pool.call()
            self.running += 1
            self.running_max = max(self.running_max, self.running)
            if seconds:
                await asyncio.sleep(seconds)  # house: virtual time
            self.running -= 1
            task = asyncio.current_task()
            assert task is not None
            self.done.append(self.tasks.index(task))


async def test_work_that_never_waits_is_done_by_one(world: SimulatedWorld) -> None:
    works = Works(20)
    works.add(*[0] * 100)
    await world.run_for(ms=1)
    assert set(works.done) == {0}
    assert len(works.done) == 100
    assert await works.pool.leave(1000) == 0


async def test_work_that_waits_is_shared_up_to_the_limit(world: SimulatedWorld) -> None:
    works = Works(4)
    works.add(*[1] * 20)
    await world.run_for(seconds=5.5)
    assert (len(works.done), works.running_max, len(works.tasks)) == (20, 4, 4)
    works.add(1, 1)
    await world.run_for(seconds=1.5)
    assert (len(works.done), len(works.tasks)) == (22, 4)
    await works.pool.leave(1000)


async def test_the_limit_moves(world: SimulatedWorld) -> None:
    works = Works(2)
    works.add(*[1] * 100)
    await world.run_for(seconds=1.5)
    assert works.running == 2
    works.pool.resize(5)
    works.pool.call()
    await world.run_for(seconds=1)
    assert works.running == 5
    works.pool.resize(1)
    await world.run_for(seconds=2)
    assert works.running == works.pool.busy == 1
    works.pool.resize(3)
    works.pool.call()
    await world.run_for(seconds=1)
    assert works.running == 3
    works.waiting.clear()
    await works.pool.leave(5000)


async def test_idle_members_leave_when_the_limit_sinks(world: SimulatedWorld) -> None:
    works = Works(5)
    works.add(*[1] * 5)
    await world.run_for(seconds=2)
    works.pool.resize(2)
    await world.run_for(ms=1)
    assert sum(not task.done() for task in works.tasks) == 2
    works.add(*[1] * 5)
    await world.run_for(seconds=3.5)
    assert (len(works.done), len(works.tasks)) == (10, 5)
    await works.pool.leave(1000)


async def test_leaving_waits_for_what_is_under_way_and_then_cancels(world: SimulatedWorld) -> None:
    works = Works(3)
    works.add(1, 5, 60)
    await world.run_for(seconds=0.5)
    began_ms = world.uptime_ms
    assert await works.pool.leave(10_000) == 1
    assert world.uptime_ms - began_ms == 10_000
    assert sum(task.cancelled() for task in works.tasks) == 1
    works.add(1)
    assert all(task.done() for task in works.tasks)


async def test_a_member_that_was_cancelled_is_replaced(world: SimulatedWorld) -> None:
    works = Works(1)
    works.add(0)
    await world.run_for(ms=1)
    works.tasks[0].cancel()
    await world.run_for(ms=1)
    works.add(0)
    await world.run_for(ms=1)
    assert works.done == [0, 1]
    await works.pool.leave(1000)


async def test_leaving_while_an_idle_member_is_being_cancelled(world: SimulatedWorld) -> None:
    """After Ctrl-C, asyncio.run cancels all tasks, and one of them closes the consumer in its next step."""
    works = Works(2)
    works.add(1, 1)
    await world.run_for(seconds=2)
    for task in works.tasks:
        task.cancel()
    works.pool.call()
    assert await works.pool.leave(1000) == 0
    assert all(task.done() for task in works.tasks)
