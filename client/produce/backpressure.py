"""Limits how much a producer has in flight. Pure, except for the futures of senders that wait for room.

A sender that waits gets its room in its turn: the room is reserved for it when it is woken, so neither a later sender
nor one that comes in between can take it. Otherwise a sender that finds no room would have to wait again, after later
ones.
"""

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
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._idle: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether the next message must wait."""
        return self.messages >= self.messages_max or self.bytes >= self.bytes_max

    def remove(self, messages: int, size: int) -> None:
        """Remove settled messages, and wake the waiting senders that have room now."""
        self.messages -= messages
        self.bytes -= size
        while self._waiting and not self.is_full:
            waiter, reserved = self._waiting.popleft()
            if not waiter.done():
                self.messages += 1
                self.bytes += reserved
                waiter.set_result(None)
        if self._idle is not None and self.messages == 0 and not self._idle.done():
            self._idle.set_result(None)

    async def room(self, size: int) -> None:
        """Return when a message of about this size may be added. The caller adds it before it awaits anything."""
        if not self.is_full:
            return
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiting.append((waiter, size))
        try:
            await waiter
        finally:
            if waiter.done() and not waiter.cancelled():
                self.messages -= 1
                self.bytes -= size
                # A send that was woken may be cancelled, or refused, and then its room is for the next one.
                loop.call_soon(self.remove, 0, 0)

    async def idle(self) -> None:
        """Return when everything is settled."""
        while self.messages:
            if self._idle is None or self._idle.done():
                self._idle = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._idle)
