"""Tasks that do the same work: as many as needed, up to a limit. RocketMQ: a consumer's thread pool.

A member works until nothing is left, then waits to be called. If the work never suspends, one member does all of it,
without a task per piece. When it suspends, the next member, which has been called meanwhile, continues.
"""

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.protocol.errors import ClientError
from staticfire.runtime.service import Spawn


class WorkerPool:
    """The members of one pool. It uses the running event loop."""

    def __init__(self, size: int, work: Callable[[], Awaitable[None]], spawn: Spawn, name: str) -> None:
        """`work`: works until nothing is left; it returns early if the pool `is_shrinking`."""
        self.size = size
        self.is_leaving = False
        self.is_called = False
        """Whether a member has been called and hasn't begun yet."""
        self.is_shrinking = False
        """Whether there are too many members: the next one to finish a piece leaves."""
        self._work = work
        self._spawn = spawn
        self._name = name
        self._members = 0
        self._idle: list[asyncio.Future[bool]] = []
        """The members that wait: True means work, False means leave."""
        self._tasks: dict[asyncio.Task[None], None] = {}

    @property
    def busy(self) -> int:
        """The number of members that work."""
        return self._members - len(self._idle)

    def call(self) -> None:
        """Let one more member work, unless one has been called already, or all of them work."""
        if self.is_called or self.is_leaving:
            return
        if (idle := self._next_idle()) is not None:
            self.is_called = True
            idle.set_result(True)
        elif self._members < self.size:
            self.is_called = True
            self._members += 1
            task = self._spawn(self._member(), self._name)
            self._tasks[task] = None
            task.add_done_callback(self._tasks.pop)

    def resize(self, size: int) -> None:
        """Change the limit. Members above it leave: at once if they are idle, otherwise after their current piece."""
        self.size = size
        while self._members > size and (idle := self._next_idle()) is not None:
            self._members -= 1
            idle.set_result(False)
        self.is_shrinking = self._members > size

    def _next_idle(self) -> asyncio.Future[bool] | None:
        """Return a member that waits; None if all work, or leave because their task has been cancelled."""
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():  # A cancelled task notices it only in its next step.
                return idle
        return None

    async def _member(self) -> None:
        try:
            while True:
                self.is_called = False
                await self._at_work()
                if self.is_shrinking:
                    self._members -= 1
                    self.is_shrinking = self._members > self.size
                    return
                if not await self._called():
                    return
        except BaseException:
            self._members -= 1
            raise

    async def _at_work(self) -> None:
        """Work. Raises: ClientError if something else cancels the task: the current piece of work would never end."""
        try:
            await self._work()
        except asyncio.CancelledError as error:
            if self.is_leaving:
                raise
            raise ClientError(f"{self._name}: its task was cancelled while it was running") from error

    async def _called(self) -> bool:
        """Wait for a call. Return False if the member must leave."""
        idle: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        try:
            return await idle
        except asyncio.CancelledError:
            self.is_called = self.is_called and not idle.done()
            if idle in self._idle:
                self._idle.remove(idle)
            raise

    async def leave(self, timeout_ms: int) -> int:
        """Let the members finish their work. Return how many had to be cancelled after `timeout_ms`."""
        self.is_leaving = True
        self.resize(0)
        if not self._tasks:
            return 0
        await asyncio.wait(list(self._tasks), timeout=timeout_ms / 1000)
        stuck = [task for task in self._tasks if not task.done()]
        for task in stuck:
            task.cancel()
        if stuck:
            await asyncio.wait(stuck)
        return len(stuck)
