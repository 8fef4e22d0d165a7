"""Parts of pages that are sent again when they have changed: server-sent events.

One reader renders the parts of all watched addresses, each part once for all browsers that watch it. It works in
rounds: the pages of a round share connections and responses. An address is due LIVE_S after it has changed; while it
doesn't change, the pause doubles up to STILL_S. If rendering all addresses takes long, the pause is TIMES_ITS_DURATION
that time, so that many or slow pages don't overload the process or the brokers. Without a watched address nothing is
read.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext

from staticfire.dashboard.watch import pause
from staticfire.runtime.machine import Machine

LIVE_S = 1.0
STILL_S = 4.0
LATER = 2
TIMES_ITS_DURATION = 25
# The longest pause, if a page takes seconds because a server doesn't answer: it must show soon that it is back.
PAUSE_S_MAX = 10.0
# How often something is sent without a change. Only a failed send shows that a browser is gone.
BEAT_S = 5.0
WATCHED_MAX = 200

Render = Callable[[str], Awaitable[str]]
Round = Callable[[], AbstractAsyncContextManager[None]]


class _Watched:
    """One address that browsers watch."""

    def __init__(self) -> None:
        self.text = ""
        self.changed = asyncio.Condition()
        self.watchers = 0
        self.due_ms = 0
        self.made = 0
        """The number of the round that rendered `text`."""
        self.wanted = 0
        """The number of the first round that is new enough for its newest watcher."""
        self.pause_s = LIVE_S
        """The time between two renderings."""
        self.took_ms = 0
        self.is_over = False
        """Whether it isn't rendered any more: its watchers connect again."""

    async def set(self, text: str, number: int) -> None:
        """Take a new part from a round, and wake its watchers."""
        self.pause_s = LIVE_S if text != self.text else min(STILL_S, self.pause_s * LATER)
        async with self.changed:
            self.text = text
            self.made = number
            self.changed.notify_all()

    async def end(self) -> None:
        """Wake the watchers, so that they end."""
        self.is_over = True
        async with self.changed:
            self.changed.notify_all()


class LivePages:
    """All watched addresses."""

    def __init__(self, render: Render, machine: Machine, in_round: Round = nullcontext) -> None:
        """`render`: returns the live part of an address. `in_round`: the context of one round."""
        self._render = render
        self._machine = machine
        self._in_round = in_round
        self._rounds = 0
        """How many rounds have begun."""
        self._watched: dict[str, _Watched] = {}
        self._reader: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._ended = asyncio.Event()

    def is_full_for(self, address: str) -> bool:
        """Return whether an address can't be watched, because many others are. One that is watched costs no more."""
        return address not in self._watched and len(self._watched) >= WATCHED_MAX

    async def follow(self, address: str) -> AsyncGenerator[str, None]:
        """Yield the live part of an address, now and when it has changed; "" from time to time without a change."""
        watched = self._watched.setdefault(address, _Watched())
        watched.watchers += 1
        # The last part, and what is known in the current round, may be older than the page that the new watcher has. So
        # it is rendered again, in another round.
        watched.due_ms, made = 0, self._rounds
        watched.wanted = made + 1
        self._read()
        sent = ""
        try:
            while not watched.is_over:
                if watched.made > made and watched.text != sent:
                    sent = watched.text
                    yield sent
                elif not await self._changed(watched, sent, made):
                    yield ""
        finally:
            watched.watchers -= 1
            if watched.watchers == 0 and self._watched.get(address) is watched:
                del self._watched[address]
                self._wake.set()

    async def _changed(self, watched: _Watched, sent: str, made: int) -> bool:
        """Wait for a part of a later round than `made` that differs from `sent`; return False after BEAT_S."""
        try:
            async with asyncio.timeout(BEAT_S), watched.changed:
                await watched.changed.wait_for(
                    lambda: watched.is_over or (watched.made > made and watched.text != sent)
                )
        except TimeoutError:
            return False
        return True

    # -- the reader ------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Wake the reader; start it if it isn't running."""
        self._wake.set()
        if self._reader is None or self._reader.done():
            self._reader = asyncio.get_running_loop().create_task(self._read_loop(), name="dashboard pages")

    async def _read_loop(self) -> None:
        try:
            while self._watched and not self._ended.is_set():
                self._wake.clear()
                now_ms = self._machine.clock.uptime_ms()
                due = [address for address, watched in self._watched.items() if watched.due_ms <= now_ms]
                if due:
                    self._rounds += 1
                    async with self._in_round():
                        for address in due:
                            await self._render_part(address)
                await self._rest()
        finally:
            # After a failure, too: the browsers connect again, which starts another reader.
            gone, self._watched = self._watched, {}
            for watched in gone.values():
                await watched.end()

    async def _render_part(self, address: str) -> None:
        """Render the part of an address, if it is still watched."""
        watched = self._watched.get(address)
        if watched is None or self._ended.is_set():
            return
        began_ms = self._machine.clock.uptime_ms()
        await watched.set(await self._render(address), self._rounds)
        now_ms = self._machine.clock.uptime_ms()
        watched.took_ms = now_ms - began_ms
        all_took_s = sum(one.took_ms for one in self._watched.values()) / 1_000
        shared_s = min(PAUSE_S_MAX, all_took_s * TIMES_ITS_DURATION)
        pause_ms = 1_000 * max(watched.pause_s, shared_s)
        if watched.wanted > self._rounds:
            return  # A watcher came during this round. It stays due for the next one.
        # Due times are multiples of the pause, so that many addresses are rendered in the same round: fewer requests.
        watched.due_ms = round(pause_ms * round(now_ms / pause_ms + 1))

    async def _rest(self) -> None:
        """Wait until an address is due, or another one is watched."""
        if not self._watched:
            return
        next_ms = min(watched.due_ms for watched in self._watched.values()) - self._machine.clock.uptime_ms()
        if next_ms > 0:
            await pause(self._wake, next_ms / 1_000)

    async def close(self) -> None:
        """End all watchers: browsers connect again when they can."""
        self._ended.set()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
