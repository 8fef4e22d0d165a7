"""Changes by administrators: of topics, groups, users and policies.

They are refused while a master hands over to a slave, and answered when enough slaves have them, if sends wait for
slaves (replication/awaited_changes.py, replication/master_fence.py).
"""

from collections.abc import Awaitable, Callable

from staticfire.broker.config_files import ConfigFiles
from staticfire.protocol.errors import BrokerAnswer


class Changes:
    """Whether administrators can change something now, and what each change waits for."""

    def __init__(self, files: ConfigFiles) -> None:
        self.files = files
        self._copied: Callable[[], Awaitable[None]] | None = None
        self._refusal: BrokerAnswer | None = None

    def use_copies(self, copied: Callable[[], Awaitable[None]]) -> None:
        """Let changes wait for slaves: `copied` returns when enough of them have the current state."""
        self._copied = copied

    async def settled(self, *files: str) -> None:
        """Wait until a change is in these files, and at enough slaves. Raises: StorageError."""
        await self.files.saved(*files)
        await self.copied()

    async def copied(self) -> None:
        """Wait until enough slaves have the current state, if the broker waits for any."""
        if self._copied is not None:
            await self._copied()

    def refuse(self, reason: BrokerAnswer | None) -> None:
        """Refuse changes from now on. None: accept them again."""
        self._refusal = reason

    def require_allowed(self) -> None:
        """Raise BrokerAnswer if nothing can be changed now."""
        if self._refusal is not None:
            raise self._refusal
