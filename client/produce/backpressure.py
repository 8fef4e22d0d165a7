"""Limits how much a producer has in flight. Pure, except for the futures of senders that wait for room."""

import asyncio
from collections import deque


class Backpressure:
    """Counts messages and bytes from `post` to their results, with the limits at which `send` waits."""

    __slots__ = ("_idle", "_waiting", "bytes", "bytes_max", "messages", "messages_max")

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.messages = 0
        self.bytes = 0
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the next message must wait."""
        return self.messages >= self.messages_max or self.bytes >= self.bytes_max

    def remove(self, messages: int, size: int) -> None:
        """Remove settled messages, and wake as many waiting senders."""
        self.messages -= messages
        self.bytes -= size
        if self._waiting and not self.is_full:
            self._wake(self.messages_max - self.messages)
        if self._idle is not None and self.messages == 0 and not self._idle.done():
            self._idle.set_result(None)

    def _wake(self, count: int) -> None:
        while self._waiting and count > 0:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    async def room(self) -> None:
        """Return when the next message may be added."""
        while self.is_full:
            loop = asyncio.get_running_loop()
            waiter = loop.create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            finally:
                # A send that was woken may be cancelled, or refused, and then its room is for the next one.
                if self._waiting and not waiter.cancelled():
                    loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        """Wake more senders if those that were woken have left room."""
        if self._waiting and not self.is_full:
            self._wake(self.messages_max - self.messages)

    async def idle(self) -> None:
        """Return when everything is settled."""
        while self.messages:
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
