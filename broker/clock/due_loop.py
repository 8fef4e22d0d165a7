"""What falls due in message time is carried out then: the loop of delays, timers and transactions.

It sleeps until the next thing is due, and is woken when the clock is set, or when something comes that is due earlier.
What can't be carried out now is tried again a moment later; the log says so once.
"""

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.broker.clock.message_clock import MessageClock
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs
from staticfire.runtime.log import logger

log = logger("broker")

SLEEP_MS_MAX = 1_000
# Somebody may set the machine's clock.
_NEVER = 1 << 62


class DueLoop:
    """One kind of thing that falls due."""

    def __init__(
        self,
        clock: MessageClock,
        next_due_ms: Callable[[], MessageMs | None],
        carry_out: Callable[[], Awaitable[object]],
        trouble_event: str,
        retry_ms: int,
        acts_while_frozen: bool = False,
    ) -> None:
        """`next_due_ms`: when the next one is due, None without any. `carry_out`: what is due by now, or some of it.

        Both may raise StorageError, which is logged as `trouble_event`. `acts_while_frozen`: also carry out what is due
        at once when it comes while the clock is frozen. What falls due because a frozen clock is moved is carried out
        by who moves it, who reports how much that was.
        """
        self._clock = clock
        self._next_due_ms = next_due_ms
        self._carry_out = carry_out
        self._trouble_event = trouble_event
        self._retry_ms = retry_ms
        self._acts_while_frozen = acts_while_frozen
        self._is_due_at_once = acts_while_frozen  # A process that was killed may have left something.
        self._awake = asyncio.Event()
        self._sleeps_until_ms = 0
        self._trouble = ""
        clock.on_change(self.wake)

    def wake(self) -> None:
        """Look at the clock, and at what is next, again."""
        self._awake.set()

    def expect(self, due_ms: int) -> None:
        """Be awake by then: something came that is due at that time."""
        if self._acts_while_frozen and self._clock.stands and due_ms <= self._clock.message_ms():
            self._is_due_at_once = True
            self._awake.set()
        elif due_ms < self._sleeps_until_ms:
            self._awake.set()

    async def run(self) -> None:
        """Loop."""
        while True:
            self._awake.clear()
            try:
                pause_ms = self._pause_ms()
                if pause_ms == 0:
                    await self._carry_out()
                    self._trouble = ""
                    continue
            except StorageError as error:
                self._is_due_at_once = self._acts_while_frozen
                if self._trouble != str(error):
                    self._trouble = str(error)
                    log.error(self._trouble_event, error=self._trouble, retry_ms=self._retry_ms)
                pause_ms = self._retry_ms
            await wait_for(self._awake, pause_ms)

    def _pause_ms(self) -> int | None:
        """Return how long nothing is due; None for until something happens. Raises: StorageError."""
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
    """Return when the event is set, or after a pause."""
    try:
        async with asyncio.timeout(None if pause_ms is None else pause_ms / 1000):
            await event.wait()
    except TimeoutError:
        pass  # The time has come.
