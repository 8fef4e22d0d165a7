"""A client that says whatever it likes: raw frames, and what comes back."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import cast

from staticfire.proxy.transport import frames
from staticfire.proxy.transport.frames import H2Code
from staticfire.runtime.machine import Machine


class RawClient(asyncio.Protocol):
    """One connection. `seen`: how many frames of each type have come; `resets`: with which codes."""

    def __init__(self) -> None:
        self.seen: Counter[int] = Counter()
        self.resets: Counter[H2Code] = Counter()
        self.goodbye: tuple[H2Code, str] | None = None
        self.closed = asyncio.Event()
        self._unread = b""

    @classmethod
    async def connect(cls, machine: Machine, host: str, port: int) -> "RawClient":
        client = cls()
        await machine.network.connect(lambda: client, host, port, 5_000)
        return client

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def say(self, data: bytes) -> None:
        if not self.closed.is_set():
            self.transport.write(data)

    async def say_all(self, chunks: Iterable[bytes]) -> int:
        """Say one chunk after the other until the connection is closed; return how many bytes that were."""
        said = 0
        for chunk in chunks:
            if self.closed.is_set():
                break
            self.say(chunk)
            said += len(chunk)
            await asyncio.sleep(0.01)  # house: virtual time; the endpoint reads meanwhile
        return said

    def data_received(self, data: bytes) -> None:
        data = self._unread + data
        position = 0
        while len(data) - position >= 9:
            end = position + 9 + int.from_bytes(data[position : position + 3], "big")
            if end > len(data):
                break
            self._frame(data[position + 3], data[position + 9 : end])
            position = end
        self._unread = data[position:]

    def _frame(self, kind: int, payload: bytes) -> None:
        self.seen[kind] += 1
        if kind == frames.GOAWAY:
            self.goodbye = H2Code(int.from_bytes(payload[4:8], "big")), payload[8:].decode()
        elif kind == frames.RST_STREAM:
            self.resets[H2Code(int.from_bytes(payload, "big"))] += 1
