"""How far a consumer has come in its queues: in memory at once, at the brokers soon. RocketMQ: RemoteBrokerOffsetStore.

A group's offset in a queue goes to the broker one-way: as soon as the queue drains (everything that was pulled is
done), every 5 s while it doesn't, when the queue is given away, and at the end. One that the broker has been told over
the connection that is open now isn't told again.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from staticfire.client.cluster_client import ClusterClient
from staticfire.client.consume_from import NO_OFFSET
from staticfire.client.push_settings import PushSettings
from staticfire.client.queues import MessageQueue
from staticfire.client.routes import address_to_read
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import BrokerAnswer, NetworkError, broker_answer
from staticfire.protocol.requests.offsets import OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("client")


class OffsetStore(Protocol):
    """Where a consumer keeps its progress. Offsets are those of the next message to consume; -1 is none."""

    async def load(self) -> None:
        """Make ready. Raises: ClientError."""

    def memory(self, queue: MessageQueue) -> int:
        """Return what this consumer knows by itself."""

    async def stored(self, queue: MessageQueue) -> int:
        """Return what is stored, and know it from then on. Raises: BrokerAnswer, NetworkError."""

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        """Note progress; `increase_only`: an offset below the known one changes nothing."""

    def drained(self, queue: MessageQueue) -> None:
        """Note that all that was pulled of a queue is done."""

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        """Store what is known of these. Failures are logged: the next time tries again."""

    def forget(self, queue: MessageQueue) -> None:
        """Know nothing of a queue any more."""


class RemoteOffsets:
    """Offsets at the brokers: CLUSTERING."""

    def __init__(self, group: str, client: ClusterClient, settings: PushSettings) -> None:
        self._group = group
        self._client = client
        self._timeout_ms = settings.offset_timeout_ms
        self._zero_when_young = False if settings.skip_young_history else None
        self._offsets: dict[MessageQueue, int] = {}
        self._told: dict[MessageQueue, tuple[Connection, int]] = {}
        self._drained: dict[MessageQueue, None] = {}

    async def load(self) -> None:
        """Do nothing: each queue is asked for when it is taken."""

    def memory(self, queue: MessageQueue) -> int:
        return self._offsets.get(queue, NO_OFFSET)

    async def stored(self, queue: MessageQueue) -> int:
        request = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=self._zero_when_young,
            bname=queue.broker_name,
        )
        answer = await self._client.ask_broker(queue, request, self._timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return NO_OFFSET
        if answer.code != SUCCESS or not isinstance(answer, OffsetAnswer):
            raise broker_answer(answer.code, answer.remark, f"offset of {self._group} in {queue}")
        self._offsets[queue] = answer.offset
        return answer.offset

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        if not increase_only or offset > self._offsets.get(queue, NO_OFFSET):
            self._offsets[queue] = offset

    def drained(self, queue: MessageQueue) -> None:
        # What drains in one tick of the event loop leaves with one write, each queue once.
        if not self._drained:
            asyncio.get_running_loop().call_soon(self._tell_drained)
        self._drained[queue] = None

    def _tell_drained(self) -> None:
        drained, self._drained = self._drained, {}
        for queue in drained:
            address = address_to_read(self._client.routes.addresses, queue.broker_name)
            connection = self._client.pool.open_connection(address) if address is not None else None
            if connection is not None:  # Else `persist` has its turn, which connects.
                self._tell(queue, connection)

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        for queue in queues:
            if queue not in self._offsets:
                continue
            try:
                address = await self._client.address_to_read(queue)
                self._tell(queue, await self._client.pool.connection(address))
            except (NetworkError, BrokerAnswer) as error:
                log.warning("offset_not_persisted", group=self._group, queue=str(queue), reason=str(error))

    def _tell(self, queue: MessageQueue, connection: Connection) -> None:
        """Commit, unless that broker has been told already."""
        offset = self._offsets.get(queue, NO_OFFSET)
        told = self._told.get(queue)
        if offset < 0 or (told is not None and told[0] is connection and told[1] == offset):
            return
        self._told[queue] = (connection, offset)
        connection.tell(
            UpdateConsumerOffset(
                consumer_group=self._group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                commit_offset=offset,
                bname=queue.broker_name,
            )
        )

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._told.pop(queue, None)
        self._drained.pop(queue, None)
