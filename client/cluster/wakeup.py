"""Something that rings now and then, and what waits for the next ring or for some time to pass, whichever is first."""

import asyncio


class Wakeup:
    """The wake-up of a loop that works once per period. A ring that nobody waits for is kept: one, not several."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Let `wait` return, now or at its next call."""
        self._event.set()

    async def wait(self, timeout_ms: int) -> bool:
        """Return True after a ring, False after `timeout_ms` without one."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True
