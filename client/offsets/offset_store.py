"""A consumer's progress in its queues: in memory at once, at the brokers soon. RocketMQ: RemoteBrokerOffsetStore.

A group's offset in a queue is sent to the broker with each pull. In addition it is sent one-way: when the queue is
drained (every pulled message is done) and no pull has taken the offset along within a millisecond, and every 5 s while
it isn't drained. An offset that was sent over the current connection isn't sent again. When the queue is given away,
and at the end, it is sent once more, and the response is awaited: RocketMQ's brokers process pulls, commits and
unregistering in different threads. Otherwise the next owner could query the offset before a one-way commit is
processed.

On a new connection the broker's offset is queried before any is sent. The broker may have lost offsets; or this member
was disconnected so long that another one has continued. In that case it commits nothing below the other's offset.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import address_to_read
from staticfire.client.offsets.consume_from import NO_OFFSET
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import StaticfireError, broker_answer
from staticfire.protocol.requests.offsets import OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("client")

BELOW_ALL = -1 << 63
Connections = dict[str, Connection | None]
"""The current connection by broker name; None if there is none."""

# How long a drained queue's offset waits for a pull to take it along. A busy queue has a pull by then.
DRAINED_MS = 1


class OffsetStore(Protocol):
    """Stores a consumer's progress. An offset is that of the next message to consume; -1 means none."""

    async def load(self) -> None:
        """Prepare the store. Raises: ClientError."""

    def memory(self, queue: MessageQueue) -> int:
        """Return the offset in memory."""

    async def stored(self, queue: MessageQueue) -> int:
        """Return the stored offset, and keep it in memory. Raises: BrokerAnswer, NetworkError."""

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        """Note progress. `increase_only`: ignore an offset below the known one. -1 (none) is stored, too."""

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Set the offset, also backwards: a queue was reset, or its offset was illegal."""

    def drained(self, queue: MessageQueue) -> None:
        """Note that every pulled message of a queue is done."""

    def ride_along(self, queue: MessageQueue, connection: Connection) -> int:
        """Return the offset to commit with a pull that is sent now; 0 for none."""

    def pull_failed(self, queue: MessageQueue) -> None:
        """Note that the offset sent with a pull may not have arrived."""

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        """Store the offsets of these queues. Failures are logged, and the next call tries again."""

    async def hand_over(self, queues: Sequence[MessageQueue]) -> None:
        """Store the offsets of these queues, so that the next reader gets them. Failures are logged."""

    async def store(self, queues: Sequence[MessageQueue]) -> None:
        """Store the offsets like `hand_over`. Raises: BrokerAnswer, NetworkError, ClientError (an unwritable file)."""

    def forget(self, queue: MessageQueue) -> None:
        """Forget a queue's offset. The stored one is kept."""

    def topic_is_gone(self, queue: MessageQueue, answered_by: str) -> None:
        """Note that a queue's topic is gone: if it is created again, all its messages are new.

        `answered_by`: the address of the broker that doesn't have it.
        """


class RemoteOffsets:
    """Offsets at the brokers, for CLUSTERING."""

    def __init__(self, group: str, client: ClusterClient, settings: PushSettings) -> None:
        self._group = group
        self._client = client
        self._timeout_ms = settings.offset_timeout_ms
        self._zero_when_young = False if settings.skip_young_history else None
        self._offsets: dict[MessageQueue, int] = {}
        self._last_sent: dict[MessageQueue, tuple[Connection, int]] = {}
        self._known: dict[MessageQueue, tuple[Connection, int]] = {}
        """The connection over which the broker's offset was queried, and that offset: none below it is committed."""
        self._drained: dict[MessageQueue, None] = {}

    async def load(self) -> None:
        """Do nothing: each queue's offset is queried when it is taken."""

    def memory(self, queue: MessageQueue) -> int:
        return self._offsets.get(queue, NO_OFFSET)

    async def stored(self, queue: MessageQueue) -> int:
        connection = await self._connection(queue)
        offset = await self._ask(queue, connection)
        self._known[queue] = connection, BELOW_ALL
        if offset >= 0:
            self._offsets[queue] = offset
        return offset

    async def _connection(self, queue: MessageQueue) -> Connection:
        return await self._client.pool.connection(await self._client.address_to_read(queue))

    async def _ask(self, queue: MessageQueue, connection: Connection) -> int:
        """Return the broker's offset, -1 for none."""
        request = QueryConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=self._zero_when_young,
            bname=queue.broker_name,
        )
        answer = await connection.ask(request, self._timeout_ms)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return NO_OFFSET
        if answer.code != SUCCESS or not isinstance(answer, OffsetAnswer):
            raise broker_answer(answer.code, answer.remark, f"offset of {self._group} in {queue}")
        return answer.offset

    def _may_tell(self, queue: MessageQueue, connection: Connection) -> bool:
        """Whether the offset in memory may be sent to the broker."""
        known = self._known.get(queue)
        return known is not None and known[0] is connection and self._offsets.get(queue, NO_OFFSET) > known[1]

    def update(self, queue: MessageQueue, offset: int, increase_only: bool = True) -> None:
        if not increase_only or offset > self._offsets.get(queue, NO_OFFSET):
            self._offsets[queue] = offset

    def move(self, queue: MessageQueue, offset: int) -> None:
        self._offsets[queue] = offset
        if queue in self._known:
            self._known[queue] = self._known[queue][0], BELOW_ALL

    def drained(self, queue: MessageQueue) -> None:
        if not self._drained:
            asyncio.get_running_loop().call_later(DRAINED_MS / 1000, self._tell_drained)
        self._drained[queue] = None

    def ride_along(self, queue: MessageQueue, connection: Connection) -> int:
        offset = self._offsets.get(queue, NO_OFFSET)
        if offset <= 0 or not self._may_tell(queue, connection):
            return 0  # As in RocketMQ's clients a 0 isn't sent this way: brokers assume it.
        self._last_sent[queue] = (connection, offset)
        return offset

    def pull_failed(self, queue: MessageQueue) -> None:
        self._last_sent.pop(queue, None)

    def _tell_drained(self) -> None:
        drained, self._drained = self._drained, {}
        connections: Connections = {}
        for queue in drained:
            connection = self._connection_at_hand(queue, connections)
            if connection is not None:  # Otherwise `persist` sends it.
                self._tell(queue, connection)

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        connections: Connections = {}
        untold = []
        for queue in queues:
            connection = self._connection_at_hand(queue, connections)
            if connection is not None:
                self._tell(queue, connection)
            elif queue in self._offsets:
                untold.append(queue)
        if untold:
            await asyncio.gather(*map(self._connect_and_tell, untold))

    async def hand_over(self, queues: Sequence[MessageQueue]) -> None:
        known = [queue for queue in queues if queue in self._offsets]
        outcomes = await asyncio.gather(*map(self._hand_over, known), return_exceptions=True)
        for queue, outcome in zip(known, outcomes, strict=True):
            if isinstance(outcome, StaticfireError):
                self._not_persisted(queue, outcome)
            elif outcome is not None:
                raise outcome

    async def store(self, queues: Sequence[MessageQueue]) -> None:
        known = [queue for queue in queues if queue in self._offsets]
        for outcome in await asyncio.gather(*map(self._commit, known), return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def _hand_over(self, queue: MessageQueue) -> None:
        connection = await self._connection(queue)
        await self._compare(queue, connection)
        if self._may_tell(queue, connection):
            await self._commit(queue)

    async def _compare(self, queue: MessageQueue, connection: Connection) -> None:
        """Query the broker's offset if the connection is new. Raises: BrokerAnswer, NetworkError."""
        known = self._known.get(queue)
        if known is None or known[0] is not connection:
            stored = await self._ask(queue, connection)
            if queue in self._offsets:
                is_ahead = stored > self._offsets[queue]
                self._known[queue] = connection, stored if is_ahead else BELOW_ALL

    async def _commit(self, queue: MessageQueue) -> None:
        """Commit, and wait for the response. Raises: BrokerAnswer, NetworkError."""
        offset = self._offsets[queue]
        connection = await self._connection(queue)
        answer = await connection.ask(self._update_request(queue, offset), self._timeout_ms)
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"commit {offset} of {self._group} in {queue}")
        if self._offsets.get(queue) == offset:
            self._last_sent[queue] = connection, offset
            self._known[queue] = connection, BELOW_ALL

    def _connection_at_hand(self, queue: MessageQueue, connections: Connections) -> Connection | None:
        """Return the open connection over which the broker's offset was queried, if it is still the current one.

        `connections`: a cache of look-ups.
        """
        name = queue.broker_name
        if name in connections:
            connection = connections[name]
        else:
            address = address_to_read(self._client.routes.addresses, name)
            connection = self._client.pool.open_connection(address) if address is not None else None
            connections[name] = connection
        known = self._known.get(queue)
        return connection if known is not None and known[0] is connection else None

    async def _connect_and_tell(self, queue: MessageQueue) -> None:
        try:
            connection = await self._connection(queue)
            await self._compare(queue, connection)
            self._tell(queue, connection)
        except StaticfireError as error:
            self._not_persisted(queue, error)

    def _not_persisted(self, queue: MessageQueue, error: Exception) -> None:
        log.warning("offset_not_persisted", group=self._group, queue=str(queue), reason=str(error))

    def _tell(self, queue: MessageQueue, connection: Connection) -> None:
        """Commit, unless this offset was already sent to the broker."""
        offset, last_sent = self._offsets.get(queue), self._last_sent.get(queue)
        if offset is None or (last_sent is not None and last_sent[0] is connection and last_sent[1] == offset):
            return
        if not self._may_tell(queue, connection):
            return
        self._last_sent[queue] = (connection, offset)
        connection.tell(self._update_request(queue, offset))

    def _update_request(self, queue: MessageQueue, offset: int) -> UpdateConsumerOffset:
        return UpdateConsumerOffset(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
            bname=queue.broker_name,
        )

    def topic_is_gone(self, queue: MessageQueue, answered_by: str) -> None:
        self.forget(queue)  # The broker has deleted its offset together with the topic.

    def forget(self, queue: MessageQueue) -> None:
        self._offsets.pop(queue, None)
        self._last_sent.pop(queue, None)
        self._known.pop(queue, None)
        self._drained.pop(queue, None)
