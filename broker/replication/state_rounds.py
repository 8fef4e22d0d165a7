"""The rounds in which a slave copies topics, groups and offsets of its master: each period, and at once by command."""

import asyncio
from collections.abc import Callable

from staticfire.broker.replication.state_copy import StateCopy
from staticfire.broker.state import BrokerState
from staticfire.protocol.errors import BrokerAnswer, NetworkError, ProtocolError, StorageError
from staticfire.protocol.requests.replication import CopiedState, CopyStateAnswer
from staticfire.runtime.log import logger
from staticfire.runtime.pool import ConnectionPool

log = logger("replication")

# How soon it looks again for a master whose log is copied.
RETRY_MS = 500


class StateRounds:
    """The rounds of one slave."""

    def __init__(
        self, state: BrokerState, pool: ConnectionPool, state_copy: StateCopy, copied_master: Callable[[], str]
    ) -> None:
        """`copied_master` returns the address of the master whose log is copied now; "" if there is none."""
        self._state = state
        self._pool = pool
        self._state_copy = state_copy
        self._copied_master = copied_master
        self._wanted = asyncio.Event()
        self.copied_ms = -1
        """The uptime at the end of the last round."""
        self._is_wanted = False
        """Whether a round was requested, and none that began later has ended."""

    @property
    def is_wanted(self) -> bool:
        """Whether something is missing of a round that was requested, or of a later one."""
        return self._is_wanted or not self._state_copy.is_complete

    def begin_now(self) -> None:
        """Begin a round at once."""
        self._is_wanted = True
        self._wanted.set()

    async def loop(self) -> None:
        """Copy again and again."""
        while True:
            self._wanted.clear()
            if master := self._copied_master():
                try:
                    while await self._copy(master):
                        pass  # The next request shows the master that its changes are here.
                    self._is_wanted = self._wanted.is_set()
                except (NetworkError, BrokerAnswer, ProtocolError, StorageError) as error:
                    log.info("state_not_copied", master=master, reason=str(error))
                period_ms = RETRY_MS if self._is_wanted else self._state.settings.slave_sync_period
            else:
                period_ms = min(RETRY_MS, self._state.settings.slave_sync_period)
            try:
                async with asyncio.timeout(period_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _copy(self, address: str) -> bool:
        """Copy once; return whether topics, groups or users have changed."""
        answer = await self._pool.ask(address, self._state_copy.wanted())
        if not isinstance(answer, CopyStateAnswer) or answer.code or answer.body is None:
            raise BrokerAnswer(answer.code, answer.remark or "the master sends no state")
        state: CopiedState = answer.body
        await self._state_copy.take(state)
        self.copied_ms = self._state.machine.clock.uptime_ms()
        return state.has_changes
