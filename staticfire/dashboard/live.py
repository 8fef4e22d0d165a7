"""Parts of pages that are sent again when they have changed: server-sent events.

Each watched address is rendered once per LIVE_S, however many browsers watch it, and sent only if it has changed. So a
page that nobody looks at costs nothing, and one that doesn't change costs no traffic.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from staticfire.dashboard.watch import pause
from staticfire.runtime.machine import Machine

LIVE_S = 1.0
TIMES_ITS_DURATION = 8
# A silent connection doesn't show that its browser is gone.
BEAT_S = 15.0
WATCHED_MAX = 200

Render = Callable[[str], Awaitable[str]]


class _Watched:
    """One address that browsers watch."""

    def __init__(self) -> None:
        self.text = ""
        self.changed = asyncio.Condition()
        self.watchers = 0
        self.task: asyncio.Task[None] | None = None


class LivePages:
    """All watched addresses."""

    def __init__(self, render: Render, machine: Machine) -> None:
        """`render`: returns the live part of an address."""
        self._render = render
        self._machine = machine
        self._watched: dict[str, _Watched] = {}
        self._ended = asyncio.Event()

    @property
    def is_full(self) -> bool:
        """Whether no further address can be watched."""
        return len(self._watched) >= WATCHED_MAX

    async def follow(self, address: str) -> AsyncIterator[str]:
        """Yield the live part of an address, now and when it has changed; "" from time to time without a change."""
        watched = self._watched.setdefault(address, _Watched())
        watched.watchers += 1
        if watched.task is None:
            loop = self._render_loop(address, watched)
            watched.task = asyncio.get_running_loop().create_task(loop, name="dashboard page")
        sent = ""
        try:
            while not self._ended.is_set():
                if watched.text != sent:
                    sent = watched.text
                    yield sent
                elif not await self._changed(watched, sent):
                    yield ""
        finally:
            watched.watchers -= 1
            if watched.watchers == 0:
                watched.task.cancel()
                self._watched.pop(address, None)

    async def _changed(self, watched: _Watched, sent: str) -> bool:
        """Wait for a change; return False if there was none for a time."""
        try:
            async with asyncio.timeout(BEAT_S), watched.changed:
                await watched.changed.wait_for(lambda: watched.text != sent or self._ended.is_set())
        except TimeoutError:
            return False
        return True

    async def _render_loop(self, address: str, watched: _Watched) -> None:
        while not self._ended.is_set():
            began_ms = self._machine.clock.uptime_ms()
            text = await self._render(address)
            async with watched.changed:
                watched.text = text
                watched.changed.notify_all()
            took_s = (self._machine.clock.uptime_ms() - began_ms) / 1_000
            await pause(self._ended, max(LIVE_S, took_s * TIMES_ITS_DURATION))

    async def close(self) -> None:
        """End all: browsers connect again when they can."""
        self._ended.set()
        for watched in list(self._watched.values()):
            async with watched.changed:
                watched.changed.notify_all()
            if watched.task is not None:
                watched.task.cancel()
                await asyncio.gather(watched.task, return_exceptions=True)
