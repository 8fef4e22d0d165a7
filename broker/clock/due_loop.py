"""Carry out what is due in message time: the loop of delays, timers and transactions.

It sleeps until the next item is due. It is woken when the clock is set, or when an item with an earlier due time is
added. If an item can't be carried out, it is retried a moment later, and the error is logged once.
"""

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger

log = logger("broker")

# The loop wakes at least this often, because the machine's clock may be changed.
SLEEP_MS_MAX = 1_000
_NEVER = 1 << 62


class DueLoop:
    """One kind of items that become due."""

    def __init__(
        self,
        clock: MessageClock,
        next_due_ms: Callable[[], MessageMs | None],
        carry_out_until: Callable[[MessageMs], Awaitable[object]],
        trouble_event: str,
        retry_ms: int,
        acts_while_frozen: bool = False,
    ) -> None:
        """`next_due_ms` returns when the next item is due, or None.

        `carry_out_until` handles the items that are due at a time, or some of them.

        Both may raise StorageError, which is logged as `trouble_event`. `acts_while_frozen`: also carry out an item
        that is already due when it is added while the clock is frozen. Items that become due because a frozen clock is
        moved are carried out, and counted, by the caller that moves it.
        """
        self._clock = clock
        self._next_due_ms = next_due_ms
        self._carry_out_until = carry_out_until
        self._trouble_event = trouble_event
        self._retry_ms = retry_ms
        self._acts_while_frozen = acts_while_frozen
        self._is_due_at_once = acts_while_frozen  # A killed process may have left due items.
        self._awake = asyncio.Event()
        self._sleeps_until_ms = 0
        self._trouble = ""
        clock.on_change(self.wake)
        clock.on_begin(self.wake)

    def wake(self) -> None:
        """Check the clock and the next item again."""
        self._awake.set()

    def expect(self, due_ms: int) -> None:
        """Wake the loop by then, because an item with that due time was added."""
        if self._acts_while_frozen and due_ms <= self._clock.message_ms() and self._clock.stands:
            self._is_due_at_once = True
            self._awake.set()
        elif due_ms < self._sleeps_until_ms:
            self._awake.set()

    async def run(self) -> None:
        """Carry out due items forever."""
        while True:
            self._awake.clear()
            try:
                pause_ms = self._pause_ms()
                if pause_ms == 0:
                    await self._carry_out_until(self._clock.message_ms())
                    self._trouble = ""
                    continue
            except (StorageError, OSError) as error:
                self._is_due_at_once = self._acts_while_frozen
                if self._trouble != str(error):
                    self._trouble = str(error)
                    log.error(self._trouble_event, error=self._trouble, retry_ms=self._retry_ms)
                pause_ms = self._retry_ms
            await wait_for(self._awake, pause_ms)

    def _pause_ms(self) -> int | None:
        """Return how long to sleep until an item is due; None to sleep until woken. Raises: StorageError."""
        if not self._clock.has_begun:
            return None  # `begin` wakes this loop.
        is_due_at_once, self._is_due_at_once = self._is_due_at_once, False
        due_ms = self._next_due_ms()
        if due_ms is None:
            self._sleeps_until_ms = _NEVER
            return None
        self._sleeps_until_ms = due_ms
        if is_due_at_once and due_ms <= self._clock.message_ms():
            return 0
        pause_ms = self._clock.uptime_until_ms(due_ms)
        return None if pause_ms is None else min(pause_ms, SLEEP_MS_MAX)


async def wait_for(event: asyncio.Event, pause_ms: int | None) -> None:
    """Wait until the event is set, or for the length of a pause."""
    try:
        async with asyncio.timeout(None if pause_ms is None else pause_ms / 1000):
            await event.wait()
    except TimeoutError:
        pass  # The pause is over.
