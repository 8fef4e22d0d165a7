"""How far a consumer has come in its queues: in memory at once, at the brokers soon. RocketMQ: RemoteBrokerOffsetStore.

A group's offset in a queue goes to the broker with each pull. Beside that it goes one-way: when the queue has drained
(everything that was pulled is done) and no pull took it along within a millisecond, and every 5 s while it doesn't
drain. One that the broker has been told over the connection that is open now isn't told again. When the queue is given
away, and at the end, it goes once more, and the broker's answer is awaited: RocketMQ's brokers do pulls, commits and
goodbyes in different threads, so whoever takes the queue next could ask for its offset before what was only told is
done.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import address_to_read
from staticfire.client.consume.push_settings import PushSettings
from staticfire.client.offsets.consume_from import NO_OFFSET
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import BrokerAnswer, NetworkError, broker_answer
from staticfire.protocol.requests.offsets import OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("client")

DRAINED_MS = 1
# How long a drained queue's offset waits for a pull to take it along. A busy queue has one by then.


class OffsetStore(Protocol):
    """Where a consumer keeps its progress. Offsets are those of the next message to consume; -1 is none."""

    async def load(self) -> None:
        """Make ready. Raises: ClientError."""

    def memory(self, queue: MessageQueue) -> int:
        """Return what this consumer knows by itself."""

    async def stored(self, queue: MessageQueue) -> int:
        """Return what is stored, and know it from then on. Raises: BrokerAnswer, NetworkError."""

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        """Note progress; `increase_only`: an offset below the known one changes nothing. -1 is stored, too, as none."""

    def drained(self, queue: MessageQueue) -> None:
        """Note that all that was pulled of a queue is done."""

    def ride_along(self, queue: MessageQueue, connection: Connection) -> int:
        """Return the offset to commit with a pull that leaves now; 0 for none."""

    def pull_failed(self, queue: MessageQueue) -> None:
        """Note that what rode along may not have arrived."""

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        """Store what is known of these. Failures are logged: the next time tries again."""

    async def hand_over(self, queues: Sequence[MessageQueue]) -> None:
        """Store what is known of these so that whoever reads it next sees it. Failures are logged."""

    async def store(self, queues: Sequence[MessageQueue]) -> None:
        """The same. Raises: BrokerAnswer, NetworkError, ClientError (a file can't be written)."""

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
        if answer.offset >= 0:
            self._offsets[queue] = answer.offset
        return answer.offset

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        if not increase_only or offset > self._offsets.get(queue, NO_OFFSET):
            self._offsets[queue] = offset

    def drained(self, queue: MessageQueue) -> None:
        if not self._drained:
            asyncio.get_running_loop().call_later(DRAINED_MS / 1000, self._tell_drained)
        self._drained[queue] = None

    def ride_along(self, queue: MessageQueue, connection: Connection) -> int:
        offset = self._offsets.get(queue, NO_OFFSET)
        if offset <= 0:
            return 0  # RocketMQ's clients don't commit a 0 this way: it is what brokers assume.
        self._told[queue] = (connection, offset)
        return offset

    def pull_failed(self, queue: MessageQueue) -> None:
        self._told.pop(queue, None)

    def _tell_drained(self) -> None:
        drained, self._drained = self._drained, {}
        for queue in drained:
            self._tell_now(queue)  # Where there is no connection `persist` has its turn, which connects.

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        untold = [queue for queue in queues if queue in self._offsets and not self._tell_now(queue)]
        await asyncio.gather(*map(self._connect_and_tell, untold))

    async def hand_over(self, queues: Sequence[MessageQueue]) -> None:
        known = [queue for queue in queues if queue in self._offsets]
        outcomes = await asyncio.gather(*map(self._commit, known), return_exceptions=True)
        for queue, outcome in zip(known, outcomes, strict=True):
            if isinstance(outcome, NetworkError | BrokerAnswer):
                self._not_persisted(queue, outcome)
            elif outcome is not None:
                raise outcome

    async def store(self, queues: Sequence[MessageQueue]) -> None:
        known = [queue for queue in queues if queue in self._offsets]
        for outcome in await asyncio.gather(*map(self._commit, known), return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _commit(self, queue: MessageQueue) -> None:
        """Commit, and wait until it is done. Raises: BrokerAnswer, NetworkError."""
        offset = self._offsets[queue]
        connection = await self._client.pool.connection(await self._client.address_to_read(queue))
        answer = await connection.ask(self._update_request(queue, offset), self._timeout_ms)
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"commit {offset} of {self._group} in {queue}")
        if self._offsets.get(queue) == offset:
            self._told[queue] = (connection, offset)

    def _tell_now(self, queue: MessageQueue) -> bool:
        """Commit if there is a connection."""
        address = address_to_read(self._client.routes.addresses, queue.broker_name)
        connection = self._client.pool.open_connection(address) if address is not None else None
        if connection is not None:
            self._tell(queue, connection)
        return connection is not None

    async def _connect_and_tell(self, queue: MessageQueue) -> None:
        try:
            address = await self._client.address_to_read(queue)
            self._tell(queue, await self._client.pool.connection(address))
        except (NetworkError, BrokerAnswer) as error:
            self._not_persisted(queue, error)

    def _not_persisted(self, queue: MessageQueue, error: Exception) -> None:
        log.warning("offset_not_persisted", group=self._group, queue=str(queue), reason=str(error))

    def _tell(self, queue: MessageQueue, connection: Connection) -> None:
        """Commit, unless that broker has been told already."""
        offset, told = self._offsets.get(queue), self._told.get(queue)
        if offset is None or (told is not None and told[0] is connection and told[1] == offset):
            return
        self._told[queue] = (connection, offset)
        connection.tell(self._update_request(queue, offset))

    def _update_request(self, queue: MessageQueue, offset: int) -> UpdateConsumerOffset:
        return UpdateConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._told.pop(queue, None)
        self._drained.pop(queue, None)
