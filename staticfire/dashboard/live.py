"""Parts of pages that are sent again when they have changed: server-sent events.

Each watched address is rendered once per LIVE_S, however many browsers watch it, and sent only if it has changed. So a
page that nobody looks at costs nothing, and one that doesn't change costs no traffic.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from staticfire.dashboard.watch import pause
from staticfire.runtime.machine import Machine

LIVE_S = 1.0
TIMES_ITS_DURATION = 8
# Only sending shows that a browser is gone. Until then its page is still rendered.
BEAT_S = 5.0
WATCHED_MAX = 200
# More addresses than this are rendered less often each, so that all together don't take the process.
WATCHED_AT_FULL_RATE = 25

Render = Callable[[str], Awaitable[str]]


class _Watched:
    """One address that browsers watch."""

    def __init__(self) -> None:
        self.text = ""
        self.changed = asyncio.Condition()
        self.watchers = 0
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        """Whether it isn't rendered any more: those who follow it connect again."""


class LivePages:
    """All watched addresses."""

    def __init__(self, render: Render, machine: Machine) -> None:
        """`render`: returns the live part of an address."""
        self._render = render
        self._machine = machine
        self._watched: dict[str, _Watched] = {}
        self._ended = asyncio.Event()

    def is_full_for(self, address: str) -> bool:
        """Return whether an address can't be watched, because many others are. One that is watched costs no more."""
        return address not in self._watched and len(self._watched) >= WATCHED_MAX

    async def follow(self, address: str) -> AsyncGenerator[str, None]:
        """Yield the live part of an address, now and when it has changed; "" from time to time without a change."""
        watched = self._watched.setdefault(address, _Watched())
        watched.watchers += 1
        if watched.task is None:
            loop = self._render_loop(address, watched)
            watched.task = asyncio.get_running_loop().create_task(loop, name="dashboard page")
        sent = ""
        try:
            while not watched.is_over:
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
                await watched.changed.wait_for(lambda: watched.text != sent or watched.is_over)
        except TimeoutError:
            return False
        return True

    async def _render_loop(self, address: str, watched: _Watched) -> None:
        try:
            while not self._ended.is_set():
                began_ms = self._machine.clock.uptime_ms()
                text = await self._render(address)
                async with watched.changed:
                    watched.text = text
                    watched.changed.notify_all()
                took_s = (self._machine.clock.uptime_ms() - began_ms) / 1_000
                shared_s = LIVE_S * len(self._watched) / WATCHED_AT_FULL_RATE
                await pause(self._ended, max(LIVE_S, shared_s, took_s * TIMES_ITS_DURATION))
        finally:
            watched.is_over = True
            async with watched.changed:
                watched.changed.notify_all()

    async def close(self) -> None:
        """End all: browsers connect again when they can."""
        self._ended.set()
        tasks = [watched.task for watched in self._watched.values() if watched.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
