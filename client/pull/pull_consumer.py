"""The pull consumer: the program chooses each queue and offset to read. RocketMQ: DefaultMQPullConsumer.

It sends no heartbeats, so it isn't a member of its group: the group's push consumers don't share queues with it, and
any program may read any queue at any time.

    async with PullConsumer("report", namesrv="127.0.0.1:9876") as consumer:
        for queue in await consumer.queues("orders"):
            result = await consumer.pull(queue, await consumer.min_offset(queue))
"""

from collections.abc import Sequence

from staticfire.client.cluster.blocking import BlockingFace, blocking
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.condition_check import refuse_too_old
from staticfire.client.cluster.pull_answers import PullResult, packed_address, read_pull
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import subscribe_queues
from staticfire.client.cluster.settings import PullSettings
from staticfire.client.cluster.subscriptions import TAG, expected_tags
from staticfire.client.consume.listeners.send_back import SendBacks
from staticfire.client.consume.queues.queue_decisions import give_plain_names
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.protocol.errors import ClientError, NetworkError
from staticfire.protocol.limits import PULL_MESSAGES_MAX
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import group_fault
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.runtime.machine import Machine

# The maximum number of queues whose suggested replica is remembered.
SUGGESTIONS_MAX = 100_000


class PullConsumer(ClientService):
    """Reads queues. Any number of pulls may be in flight, also from the same queue."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: PullSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
    ) -> None:
        """`client`: a shared client, instead of `namesrv`. Raises: UsageError, ClientError."""
        self.settings = settings or PullSettings()
        super().__init__(namesrv, self.settings.client, machine, client)
        fault = group_fault(group)
        if fault is not None:
            raise ClientError(fault)
        self.group = group = self.client.namespace.wrap(group)
        """The full name of the group, as brokers know it."""
        self._whole = self.client.namespace.wrapped
        self._offsets = QueueOffsets(self.client, self.settings.offset_timeout_ms)
        self._send_backs = SendBacks(group, self.client, self.settings.max_reconsume_times)
        self._suggested: dict[MessageQueue, int] = {}

    def __enter__(self) -> "BlockingPullConsumer":
        return BlockingPullConsumer.enter(self)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be read. Raises: TopicNotFound, NetworkError."""
        return subscribe_queues(topic, await self.client.routes.fetch(self.client.namespace.wrap(topic)))

    async def pull(
        self,
        queue: MessageQueue,
        queue_offset: int,
        expression: str = "*",
        max_messages: int = PULL_MESSAGES_MAX,
        wait_ms: int = 0,
        expression_type: str = TAG,
    ) -> PullResult:
        """Return up to `max_messages` messages from `queue_offset` on.

        `expression`: tags, `paid || refunded`; or with `expression_type="SQL92"` a condition over properties,
        `price > 100 AND region IN ('eu', 'us')`.
        `wait_ms`: how long the broker may hold the request while there is no new message.

        Raises: BrokerAnswer (refused), TopicNotFound, NetworkError, ClientError (invalid expression).
        """
        queue = self._whole(queue)
        wanted = expected_tags(expression, expression_type, queue.topic)
        request = PullMessage(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=queue_offset,
            max_msg_nums=max_messages,
            sys_flag=FLAG_SUBSCRIPTION | (FLAG_SUSPEND if wait_ms > 0 else 0),
            suspend_timeout_millis=max(wait_ms, 0),
            subscription=expression,
            expression_type=expression_type,
            max_msg_bytes=self.settings.max_msg_bytes,
            bname=queue.broker_name,
        )
        timeout_ms = wait_ms + self.settings.hold_margin_ms if wait_ms > 0 else self.settings.consumer_pull_timeout_ms
        try:
            address = await self.client.address_to_read(queue, self._suggested.get(queue, MASTER_ID))
            connection = await self.client.pool.connection(address)
            refuse_too_old(connection, expression_type)
            answer = await connection.ask(request, timeout_ms)
        except NetworkError:
            self._suggested.pop(queue, None)
            self.client.refresh_routes()  # The next pull goes to another replica, if there is one.
            raise
        result = read_pull(answer, queue, wanted, packed_address(connection.peer.address))
        self._remember(queue, result.suggested_broker_id)
        if self.client.namespace.name:
            give_plain_names(result.messages, self.client.namespace)
        return result

    def _remember(self, queue: MessageQueue, broker_id: int) -> None:
        if broker_id:
            if len(self._suggested) >= SUGGESTIONS_MAX:
                self._suggested.clear()
            self._suggested[queue] = broker_id
        elif self._suggested:
            self._suggested.pop(queue, None)

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the oldest offset that is still stored. Raises: BrokerAnswer, NetworkError."""
        return await self._offsets.min_offset(self._whole(queue))

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset of the queue's next message. Raises: BrokerAnswer, NetworkError."""
        return await self._offsets.max_offset(self._whole(queue))

    async def search_offset(self, queue: MessageQueue, stored_ms: int, upper: bool = False) -> int:
        """Return the first offset stored at this time or later; with `upper`, the last one until this time.

        Raises: BrokerAnswer, NetworkError.
        """
        return await self._offsets.search_offset(self._whole(queue), stored_ms, upper)

    async def earliest_stored_ms(self, queue: MessageQueue) -> int | None:
        """Return when a queue's oldest message was stored; None if it has none. Raises: BrokerAnswer, NetworkError."""
        return await self._offsets.earliest_stored_ms(self._whole(queue))

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Send a failed message to this group's retry topic, where its push consumers get it.

        `delay_level`: 0 the broker decides, 1 to 18 that level, -1 the dead letters. Raises: StaticfireError if no
        broker accepts it.
        """
        await self._send_backs.send_back(message, delay_level)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return this group's committed offset; None if there is none. Raises: BrokerAnswer, NetworkError."""
        return await self._offsets.committed(self.group, self._whole(queue))

    async def commit(self, queue: MessageQueue, queue_offset: int) -> None:
        """Store this group's offset. Raises: BrokerAnswer (an unknown group or topic), NetworkError."""
        await self._offsets.commit(self.group, self._whole(queue), queue_offset)

    async def _part(self) -> None:
        await self._send_backs.close()


class BlockingPullConsumer(BlockingFace[PullConsumer]):
    """Reads queues. Any number of threads may use it.

    with PullConsumer("report", namesrv="127.0.0.1:9876") as consumer:
        for queue in consumer.queues("orders"):
            result = consumer.pull(queue, consumer.min_offset(queue))
    """

    queues = blocking(PullConsumer.queues)
    pull = blocking(PullConsumer.pull)
    min_offset = blocking(PullConsumer.min_offset)
    max_offset = blocking(PullConsumer.max_offset)
    search_offset = blocking(PullConsumer.search_offset)
    earliest_stored_ms = blocking(PullConsumer.earliest_stored_ms)
    send_back = blocking(PullConsumer.send_back)
    committed = blocking(PullConsumer.committed)
    commit = blocking(PullConsumer.commit)
