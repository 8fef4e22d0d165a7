"""While a slave takes over from a master that doesn't answer, no slave may confirm anything to that master.

It may be alive, and would acknowledge what the new master will not have.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from staticfire.protocol.command import Answer
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.times import UptimeMs

FENCE_MS_MAX = 30_000
"""Masters and slaves continue after this time, if the failover that has stopped them died meanwhile."""
OTHER_FAILOVER = "another failover of this broker is running: try again"


class MasterLost(NetworkError):
    """There is no master to copy from, for now."""


class OtherTakesOver(MasterLost):
    """Another broker takes over, so this slave waits no longer for its master."""


class CopyFence:
    """Lets a slave neither store nor confirm anything for a time, nor follow a master of an older epoch afterwards."""

    def __init__(self, uptime_ms: Callable[[], UptimeMs], least_epoch: int = 0) -> None:
        self._uptime_ms = uptime_ms
        self._until_ms = 0
        self._owner = ""
        self._changed = asyncio.Event()
        self._asking: asyncio.Timeout | None = None
        self.least_epoch = least_epoch
        """No master of an older epoch is followed, whatever the nameserver says."""

    def begin(self, fence_ms: int, least_epoch: int, owner: str) -> None:
        """Begin, also while the master is being queried. 0: end, and look for the master again.

        `least_epoch`: -1: as before. `owner`: a random name of the failover; no other one ends the fence.
        """
        self.least_epoch = max(self.least_epoch, least_epoch)
        if not self.is_others(owner):
            self._owner = owner
            self._until_ms = self._uptime_ms() + fence_ms
        if self._asking is not None:
            self._asking.reschedule(0)  # It is over now.
        self._changed.set()

    @property
    def is_up(self) -> bool:
        """Whether nothing may be stored or confirmed now."""
        return self._until_ms > self._uptime_ms()

    def is_others(self, owner: str) -> bool:
        """Whether another failover has begun the fence."""
        return self.is_up and owner != self._owner

    async def wait(self) -> None:
        """Wait until it has ended."""
        while (rest_ms := self._until_ms - self._uptime_ms()) > 0:
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(rest_ms / 1000):
                    await self._changed.wait()

    async def ask(self, master: Callable[[], Awaitable[Answer]]) -> Answer:
        """Return the answer of the master. Raises: OtherTakesOver, and what asking raises."""
        try:
            async with asyncio.timeout(None) as self._asking:
                if self.is_up:
                    raise TimeoutError
                return await master()
        except TimeoutError:
            raise OtherTakesOver("another broker takes over") from None
        finally:
            self._asking = None
