"""Changes of topics, groups, users and policies that wait until the slaves in sync have them. staticfire's own.

In RocketMQ, a topic or group that was created just before its master dies may be missing afterwards: slaves copy them
each slaveSyncPeriod. Here, a master whose sends wait for slaves notifies them of each change, and answers the
administrator when as many slaves have it as a send waits for, or all that are in sync. After slaveTimeout it answers in
any case: an administrator can't do more than wait for the slave.
"""

import asyncio
from collections.abc import Callable

from staticfire.broker.replication.lineage import waits_for_copies
from staticfire.broker.replication.source import ReplicationSource
from staticfire.broker.state import BrokerState
from staticfire.protocol.limits import INT32_MAX
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("replication")


class AwaitedChanges:
    """Which slaves have the changes of their master."""

    def __init__(self, state: BrokerState, count: Callable[[], int]) -> None:
        """`count` returns the number of changes until now."""
        self._state = state
        self._count = count
        self._known: dict[int, int] = {}
        """For each slave, the number of the last change that it has."""
        self._waiting: set[asyncio.Event] = set()
        self._is_open = True

    def number(self) -> int:
        """Return another number after each change; 0: no slave must know them at once."""
        return self._count() & INT32_MAX if waits_for_copies(self._state.settings) else 0

    def noted(self, source: ReplicationSource, connection: Connection, is_current: bool) -> None:
        """Note that a slave requests the state, and whether it has the current state already."""
        broker_id = source.id_at(connection)
        if is_current and broker_id >= 0:
            self._known[broker_id] = self._count()
            self.look()

    def look(self) -> None:
        """Let the changes that wait look again."""
        for one in self._waiting:
            one.set()

    def give_up(self) -> None:
        """Let no change wait any more: the broker stops or becomes a slave."""
        self._is_open = False
        self.look()

    async def wait(self, source: ReplicationSource) -> None:
        """Wait until enough slaves have all changes until now, but not longer than slaveTimeout."""
        settings, change = self._state.settings, self._count()
        if not waits_for_copies(settings) or self._has_enough(source, change):
            return
        source.answer_waiting()
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(settings.slave_timeout / 1000):
                while self._is_open and not self._has_enough(source, change):
                    event.clear()
                    await event.wait()
        except TimeoutError:
            log.info("changes_not_copied", reason=f"no slave has confirmed them within {settings.slave_timeout} ms")
        finally:
            self._waiting.discard(event)

    def _has_enough(self, source: ReplicationSource, change: int) -> bool:
        settings, in_sync = self._state.settings, [one for one in source.states() if one.in_sync]
        wanted = len(in_sync) if settings.all_ack_in_sync_state_set else settings.in_sync_replicas - 1
        have = [one for one in in_sync if self._known.get(one.broker_id, -1) >= change and not one.lacks_deletions]
        return len(have) >= min(wanted, len(in_sync))
