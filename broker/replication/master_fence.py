"""A master that hands over to a slave accepts no messages and no changes until that is done or given up.

Only the failover that has begun this ends it, or the time. A second failover is refused meanwhile: if it failed, the
master would accept messages that the new master doesn't have.
"""

import asyncio
from collections.abc import Callable

from staticfire.broker.changes import Changes
from staticfire.broker.replication.copy_fence import FENCE_MS_MAX, OTHER_FAILOVER
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, StorageError
from staticfire.protocol.requests.replication import ControlReplication

HANDING_OVER = "handing over"


class MasterFence:
    """Refuses what a slave that is about to take over wouldn't have."""

    def __init__(self, store: MessageStore, changes: Changes, answer_waiting: Callable[[], None]) -> None:
        """`answer_waiting`: answers the slaves that wait for more of the log."""
        self._store = store
        self._changes = changes
        self._answer_waiting = answer_waiting
        self._unfence: asyncio.TimerHandle | None = None
        self._owner = ""
        """The failover that has begun the fence."""

    def begin_fence(self, request: ControlReplication) -> None:
        """Refuse messages and changes for a time. 0: accept them again, if no other failover has begun the fence.

        Raises: BrokerAnswer (another failover is running).
        """
        fence_ms, owner = request.fence_ms, request.fence
        if self._unfence is not None and owner != self._owner:
            if fence_ms:
                raise BrokerAnswer(ResponseCode.SYSTEM_BUSY, OTHER_FAILOVER)
            return
        self._lift()
        if fence_ms:
            words = "this master hands over to a slave: send again"
            self._store.refuse(StorageError(words), HANDING_OVER)
            # The slave wouldn't learn of another change. Those from before are copied, like the log.
            words = "this master hands over to a slave: try again"
            self._refuse_changes(BrokerAnswer(ResponseCode.SYSTEM_BUSY, words))
            self._answer_waiting()
            self._owner = owner
            self._lift_after(min(fence_ms, FENCE_MS_MAX))

    def keep_for(self, owner: str, end_position: int) -> None:
        """Keep the fence while this master becomes a slave.

        `end_position`: where the log ended when the failover began; -1: unknown. Raises: BrokerAnswer (another failover
        is running, or messages may have been accepted meanwhile, which the new master doesn't have).
        """
        if owner != self._owner:
            words = OTHER_FAILOVER if self._owner else "this master accepts messages again: it waited for too long"
            raise BrokerAnswer(ResponseCode.SYSTEM_BUSY, words)
        if end_position not in (-1, end := self._store.max_position):
            words = f"the log of this master ended at {end_position}, and now ends at {end}: try again"
            raise BrokerAnswer(ResponseCode.SYSTEM_BUSY, words)
        if self._unfence is not None:
            self._unfence.cancel()
            self._lift_after(FENCE_MS_MAX)

    def _lift_after(self, fence_ms: int) -> None:
        self._unfence = asyncio.get_running_loop().call_later(fence_ms / 1000, self._lift)

    def _lift(self) -> None:
        if self._unfence is not None:
            self._unfence.cancel()
            self._unfence = None
        self._owner = ""
        self._store.refuse(None, HANDING_OVER)
        self._refuse_changes(None)

    def _refuse_changes(self, reason: BrokerAnswer | None) -> None:
        self._store.keep_queues(reason)
        self._changes.refuse(reason)
