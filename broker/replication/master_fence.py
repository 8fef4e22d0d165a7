"""A master that hands over to a slave accepts no messages and no changes until that is done or given up."""

import asyncio
from collections.abc import Callable

from staticfire.broker.changes import Changes
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, StorageError

HANDING_OVER = "handing over"
# A master that refuses messages accepts them again after this time, if what requested it died meanwhile.
FENCE_MS_MAX = 30_000


class MasterFence:
    """Refuses what a slave that is about to take over wouldn't have."""

    def __init__(self, store: MessageStore, changes: Changes, answer_waiting: Callable[[], None]) -> None:
        """`answer_waiting`: answers the slaves that wait for more of the log."""
        self._store = store
        self._changes = changes
        self._answer_waiting = answer_waiting
        self._unfence: asyncio.TimerHandle | None = None

    def begin(self, fence_ms: int) -> None:
        """Refuse messages and changes for a time. 0: accept them again."""
        if self._unfence is not None:
            self._unfence.cancel()
            self._unfence = None
        self._store.refuse(None, HANDING_OVER)
        self._refuse_changes(None)
        if fence_ms:
            words = "this master hands over to a slave: send again"
            self._store.refuse(StorageError(words), HANDING_OVER)
            # The slave wouldn't learn of another change. Those from before are copied, like the log.
            words = "this master hands over to a slave: try again"
            self._refuse_changes(BrokerAnswer(ResponseCode.SYSTEM_BUSY, words))
            self._answer_waiting()
            loop = asyncio.get_running_loop()
            self._unfence = loop.call_later(min(fence_ms, FENCE_MS_MAX) / 1000, self.begin, 0)

    def _refuse_changes(self, reason: BrokerAnswer | None) -> None:
        self._store.keep_queues(reason)
        self._changes.refuse(reason)
