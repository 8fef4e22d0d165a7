"""Protocols that remember what happened to them."""

import asyncio
from collections.abc import Callable

from staticfire.runtime.machine import Listener, Machine

LOOPBACK = "127.0.0.1"
WAIT_S = 60


class Recorder(asyncio.Protocol):
    """One side of a connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.events: list[str] = []
        self.pieces: list[bytes] = []
        self.error: Exception | None = None
        self.echoes = False
        self._changed = asyncio.Event()

    @property
    def received(self) -> bytes:
        return b"".join(self.pieces)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._note("made")

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        if self.echoes:
            self.transport.write(data)
        self._changed.set()

    def eof_received(self) -> None:
        self._note("eof")

    def connection_lost(self, exc: Exception | None) -> None:
        self.error = exc
        self._note("lost")

    def pause_writing(self) -> None:
        self._note("paused")

    def resume_writing(self) -> None:
        self._note("resumed")

    def _note(self, event: str) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, condition: Callable[["Recorder"], bool]) -> None:
        async with asyncio.timeout(WAIT_S):
            while not condition(self):
                self._changed.clear()
                await self._changed.wait()

    async def until_event(self, event: str) -> None:
        await self.until(lambda recorder: event in recorder.events)

    async def until_received(self, size: int) -> None:
        await self.until(lambda recorder: sum(map(len, recorder.pieces)) >= size)


class Doorman:
    """A listener and those it let in."""

    def __init__(self) -> None:
        self.guests: list[Recorder] = []
        self.listener: Listener
        self._came = asyncio.Event()

    def let_in(self) -> Recorder:
        self.guests.append(Recorder())
        self._came.set()
        return self.guests[-1]

    async def first_guest(self) -> Recorder:
        async with asyncio.timeout(WAIT_S):
            await self._came.wait()
        await self.guests[0].until_event("made")
        return self.guests[0]


async def listen(machine: Machine, host: str = LOOPBACK, port: int = 0) -> Doorman:
    doorman = Doorman()
    doorman.listener = await machine.network.listen(doorman.let_in, host, port)
    return doorman


async def connect(machine: Machine, host: str, port: int, timeout_ms: int = 3_000) -> Recorder:
    recorder = Recorder()
    await machine.network.connect(lambda: recorder, host, port, timeout_ms)
    return recorder


async def join(machine: Machine, other: Machine, host: str = LOOPBACK) -> tuple[Recorder, Recorder, Doorman]:
    """Connect `machine` to a new listener of `other`; return both ends and the listener."""
    doorman = await listen(other, host)
    near = await connect(machine, host, doorman.listener.port)
    return near, await doorman.first_guest(), doorman


async def part(near: Recorder, far: Recorder, doorman: Doorman) -> None:
    """Close a connection and its listener and wait until both sides know."""
    near.transport.close()
    await near.until_event("lost")
    await far.until_event("lost")
    await doorman.listener.close()
