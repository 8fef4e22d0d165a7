"""How far a consumer has come in its queues: in memory at once, at the brokers soon. RocketMQ: RemoteBrokerOffsetStore.

A group's offset in a queue goes to the broker with each pull. Beside that it goes one-way: when the queue has drained
(everything that was pulled is done) and no pull took it along within a millisecond, and every 5 s while it doesn't
drain. One that the broker has been told over the connection that is open now isn't told again. When the queue is given
away, and at the end, it goes once more, and the broker's answer is awaited: RocketMQ's brokers do pulls, commits and
goodbyes in different threads, so whoever takes the queue next could ask for its offset before what was only told is
done.

Over a connection that is new a broker is asked before it is told. It may have forgotten what it was told; or this
member was away for so long that another one has gone on, and then it commits nothing below what that one has.
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
from staticfire.protocol.errors import BrokerAnswer, NetworkError, broker_answer
from staticfire.protocol.requests.offsets import OffsetAnswer, QueryConsumerOffset, UpdateConsumerOffset
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("client")

BELOW_ALL = -1 << 63
Connections = dict[str, Connection | None]
"""By broker: the one that is open now."""

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

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Note that the group goes on elsewhere, wherever it is: a queue was reset, or had no such offset."""

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
        self._known: dict[MessageQueue, tuple[Connection, int]] = {}
        """Over which connection it was learnt what the broker has, and below what nothing is committed."""
        self._drained: dict[MessageQueue, None] = {}

    async def load(self) -> None:
        """Do nothing: each queue is asked for when it is taken."""

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
        """Return what the broker has, -1 for nothing."""
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
        """Whether the broker is told what is known here."""
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
            return 0  # RocketMQ's clients don't commit a 0 this way: it is what brokers assume.
        self._told[queue] = (connection, offset)
        return offset

    def pull_failed(self, queue: MessageQueue) -> None:
        self._told.pop(queue, None)

    def _tell_drained(self) -> None:
        drained, self._drained = self._drained, {}
        connections: Connections = {}
        for queue in drained:
            self._tell_now(queue, connections)  # Where there is no connection, or a new one, `persist` has its turn.

    async def persist(self, queues: Sequence[MessageQueue]) -> None:
        connections: Connections = {}
        untold = [queue for queue in queues if queue in self._offsets and not self._tell_now(queue, connections)]
        if untold:
            await asyncio.gather(*map(self._connect_and_tell, untold))

    async def hand_over(self, queues: Sequence[MessageQueue]) -> None:
        known = [queue for queue in queues if queue in self._offsets]
        outcomes = await asyncio.gather(*map(self._hand_over, known), return_exceptions=True)
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

    async def _hand_over(self, queue: MessageQueue) -> None:
        connection = await self._connection(queue)
        await self._compare(queue, connection)
        if self._may_tell(queue, connection):
            await self._commit(queue)

    async def _compare(self, queue: MessageQueue, connection: Connection) -> None:
        """Learn what the broker has, over a connection that is new. Raises: BrokerAnswer, NetworkError."""
        known = self._known.get(queue)
        if known is None or known[0] is not connection:
            stored = await self._ask(queue, connection)
            if queue in self._offsets:
                is_ahead = stored > self._offsets[queue]
                self._known[queue] = connection, stored if is_ahead else BELOW_ALL

    async def _commit(self, queue: MessageQueue) -> None:
        """Commit, and wait until it is done. Raises: BrokerAnswer, NetworkError."""
        offset = self._offsets[queue]
        connection = await self._connection(queue)
        answer = await connection.ask(self._update_request(queue, offset), self._timeout_ms)
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"commit {offset} of {self._group} in {queue}")
        if self._offsets.get(queue) == offset:
            self._told[queue] = connection, offset
            self._known[queue] = connection, BELOW_ALL

    def _tell_now(self, queue: MessageQueue, connections: Connections) -> bool:
        """Commit if there is a connection, and it is known what the broker has. `connections`: looked up before."""
        name = queue.broker_name
        if name in connections:
            connection = connections[name]
        else:
            address = address_to_read(self._client.routes.addresses, name)
            connection = self._client.pool.open_connection(address) if address is not None else None
            connections[name] = connection
        known = self._known.get(queue)
        if connection is None or known is None or known[0] is not connection:
            return False
        self._tell(queue, connection)
        return True

    async def _connect_and_tell(self, queue: MessageQueue) -> None:
        try:
            connection = await self._connection(queue)
            await self._compare(queue, connection)
            self._tell(queue, connection)
        except (NetworkError, BrokerAnswer) as error:
            self._not_persisted(queue, error)

    def _not_persisted(self, queue: MessageQueue, error: Exception) -> None:
        log.warning("offset_not_persisted", group=self._group, queue=str(queue), reason=str(error))

    def _tell(self, queue: MessageQueue, connection: Connection) -> None:
        """Commit, unless that broker has been told already."""
        offset, told = self._offsets.get(queue), self._told.get(queue)
        if offset is None or (told is not None and told[0] is connection and told[1] == offset):
            return
        if not self._may_tell(queue, connection):
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
        self._known.pop(queue, None)
        self._drained.pop(queue, None)
