"""Finds where the queues of one consumer start: at the stored offset, otherwise as in the settings. Queries brokers."""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.offsets.consume_from import NO_OFFSET, IllegalStoredOffset, Start, find_start
from staticfire.client.offsets.message_time import message_ms_now
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.client.settings.push_settings import ConsumeFromWhere, PushSettings
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.times import MessageMs

# How long before its start ConsumeFromWhere.TIMESTAMP begins if no time is set.
HALF_AN_HOUR_MS = 30 * 60 * 1000


class QueueStarts:
    """Finds the start offsets. Call `begin` first."""

    def __init__(self, client: ClusterClient, settings: PushSettings, offsets: OffsetStore) -> None:
        self._client = client
        self._settings = settings
        self._offsets = offsets
        self._questions = QueueOffsets(client, settings.offset_timeout_ms)
        self._began_ms = client.machine.clock.wall_ms()

    async def begin(self) -> None:
        """Store the current message time as this consumer's start, if the settings need it."""
        settings = self._settings
        if settings.consume_from_where is ConsumeFromWhere.TIMESTAMP and settings.consume_timestamp_ms is None:
            self._began_ms = await message_ms_now(self._client)

    async def find(self, queue: MessageQueue) -> int:
        """Return the offset to start at. What was known of the queue's offset is forgotten. Raises: StaticfireError."""
        self._offsets.forget(queue)
        settings = self._settings
        stored = await self._offsets.stored(queue)
        try:
            start = find_start(settings.consume_from_where, stored, is_retry_topic(queue.topic))
        except IllegalStoredOffset:
            self._offsets.move(queue, NO_OFFSET)
            await self._offsets.hand_over([queue])
            raise
        if start is Start.QUEUE_END:
            return await self._questions.max_offset(queue)
        if start is Start.TIMESTAMP:
            since_ms = settings.consume_timestamp_ms
            if since_ms is None:
                since_ms = MessageMs(self._began_ms - HALF_AN_HOUR_MS)
            return await self.at_time(queue, since_ms)
        assert isinstance(start, int)
        return start

    async def at_time(self, queue: MessageQueue, stored_ms: int) -> int:
        """Return the first offset stored at this time or later. Raises: BrokerAnswer, NetworkError."""
        return await self._questions.search_offset(queue, stored_ms)
