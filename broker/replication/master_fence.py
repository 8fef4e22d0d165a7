"""A master that hands over to a slave accepts no messages and no changes of topics until that is done or given up."""

import asyncio
from collections.abc import Callable

from staticfire.broker.store.store import MessageStore
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, StorageError

HANDING_OVER = "handing over"
# A master that refuses messages accepts them again after this time, if what requested it died meanwhile.
FENCE_MS_MAX = 30_000


class MasterFence:
    """Refuses what a slave that is about to take over wouldn't have."""

    def __init__(self, store: MessageStore, topics: TopicTable, answer_waiting: Callable[[], None]) -> None:
        """`answer_waiting`: answers the slaves that wait for more of the log."""
        self._store = store
        self._topics = topics
        self._answer_waiting = answer_waiting
        self._unfence: asyncio.TimerHandle | None = None

    def begin(self, fence_ms: int) -> None:
        """Refuse messages and changes of topics for a time. 0: accept them again."""
        if self._unfence is not None:
            self._unfence.cancel()
            self._unfence = None
        self._store.refuse(None, HANDING_OVER)
        self._keep_topics(None)
        if fence_ms:
            words = "this master hands over to a slave: send again"
            self._store.refuse(StorageError(words), HANDING_OVER)
            # The slave wouldn't learn of another topic or deletion. Those from before are copied, like the log.
            words = "this master hands over to a slave: try again"
            self._keep_topics(BrokerAnswer(ResponseCode.SYSTEM_BUSY, words))
            self._answer_waiting()
            loop = asyncio.get_running_loop()
            self._unfence = loop.call_later(min(fence_ms, FENCE_MS_MAX) / 1000, self.begin, 0)

    def _keep_topics(self, reason: BrokerAnswer | None) -> None:
        self._store.keep_queues(reason)
        self._topics.refuse_changes(reason)
