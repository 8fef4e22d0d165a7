"""Wakes a loop that waits for an event or for a timeout, whichever comes first."""

import asyncio


class Wakeup:
    """The wake-up of a loop that works once per period. An event is remembered until `wait`; several count as one."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Let `wait` return, now or at its next call."""
        self._event.set()

    async def wait(self, timeout_ms: int) -> bool:
        """Return True after `wake`, False after `timeout_ms` without one."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
