"""Queries of a queue's offsets, and of a group's progress in it. RocketMQ: MQAdminImpl, RemoteBrokerOffsetStore."""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import broker_answer
from staticfire.protocol.requests.offsets import (
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    TimestampAnswer,
    UpdateConsumerOffset,
)


class QueueOffsets:
    """Queries brokers. All methods raise BrokerAnswer (refused), TopicNotFound and NetworkError."""

    def __init__(self, client: ClusterClient, timeout_ms: int) -> None:
        self._client = client
        self._timeout_ms = timeout_ms

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the queue's next message."""
        return await self._offset(queue, GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id))

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the oldest offset that is still stored."""
        return await self._offset(queue, GetMinOffset(topic=queue.topic, queue_id=queue.queue_id))

    async def search_offset(self, queue: MessageQueue, stored_ms: int, upper: bool = False) -> int:
        """Return the first offset stored at this time or later; with `upper`, the last one until this time."""
        boundary = "UPPER" if upper else "LOWER"
        request = SearchOffset(topic=queue.topic, queue_id=queue.queue_id, timestamp=stored_ms, boundary_type=boundary)
        return await self._offset(queue, request)

    async def earliest_stored_ms(self, queue: MessageQueue) -> int | None:
        """Return when the queue's oldest message was stored; None if it has none."""
        request = GetEarliestStoreTime(topic=queue.topic, queue_id=queue.queue_id, bname=queue.broker_name)
        answer = await self._client.ask_broker(queue, request, self._timeout_ms)
        if answer.code != SUCCESS or not isinstance(answer, TimestampAnswer):
            raise broker_answer(answer.code, answer.remark, f"earliest store time of {queue}")
        return answer.timestamp if answer.timestamp >= 0 else None

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in the queue; None if there is none."""
        request = QueryConsumerOffset(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
        request.bname = queue.broker_name
        answer = await self._client.ask_broker(queue, request, self._timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return None
        if answer.code != SUCCESS or not isinstance(answer, OffsetAnswer):
            raise broker_answer(answer.code, answer.remark, f"offset of {group} in {queue}")
        return answer.offset

    async def commit(self, group: str, queue: MessageQueue, queue_offset: int) -> None:
        """Store the group's offset in the queue."""
        request = UpdateConsumerOffset(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=queue_offset,
            bname=queue.broker_name,
        )
        answer = await self._client.ask_broker(queue, request, self._timeout_ms)
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"commit {queue_offset} of {group} in {queue}")

    async def _offset(self, queue: MessageQueue, request: GetMaxOffset | GetMinOffset | SearchOffset) -> int:
        request.bname = queue.broker_name
        answer = await self._client.ask_broker(queue, request, self._timeout_ms)
        if answer.code != SUCCESS or not isinstance(answer, OffsetAnswer):
            raise broker_answer(answer.code, answer.remark, f"{type(request).__name__} of {queue}")
        return answer.offset
