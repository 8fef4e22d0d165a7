"""The simple consumer: a program receives messages, and acknowledges each or extends its time.

    async with SimpleConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders", "paid || refunded")
        while True:
            for message in await consumer.receive(max_messages=16, invisible_ms=30_000):
                await bill(message)
                await consumer.ack(message)

A received message is invisible to the other members for its invisible time. After that it is redelivered to any member
that receives, with `reconsume_times` increased by one. `change_invisible` extends the time, or with 0 causes redelivery
now. Members don't share the queues among them: there may be more members than queues, and a slow member doesn't block
others. RocketMQ 5: SimpleConsumer.
"""

import asyncio
from collections.abc import Iterable, Sequence

from staticfire.client.cluster.blocking import BlockingFace, blocking, on_loop
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.condition_check import check_conditions
from staticfire.client.cluster.subscriptions import TAG, Subscriptions, subscribe
from staticfire.client.consume.membership.admin_requests import AdminRequests
from staticfire.client.consume.membership.membership import checked_group
from staticfire.client.pop.popped import PoppedMessage
from staticfire.client.pop.receiving import Receiving
from staticfire.client.settings.simple_settings import SimpleSettings
from staticfire.client.simple.simple_admin import SimpleAdmin
from staticfire.protocol.errors import BrokerAnswer, ClientError
from staticfire.protocol.limits import INT32_MAX
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.pop import POP_MESSAGES_MAX
from staticfire.protocol.tags import ALL_TAGS
from staticfire.runtime.machine import Machine

CONSUME_TYPE, MESSAGE_MODEL = "CONSUME_ACTIVELY", "CLUSTERING"


class SimpleConsumer(ClientService):
    """One member of a consumer group that receives messages one by one. Several tasks may use it at once."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: SimpleSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
    ) -> None:
        """`client`: a shared client, instead of `namesrv`. Raises: UsageError, ClientError."""
        self.settings = settings or SimpleSettings()
        super().__init__(namesrv, self.settings.client, machine, client)
        self.group = self.client.namespace.wrap(checked_group(group))
        """The full name of the group, as brokers know it."""
        self._subscriptions = Subscriptions(self.client.namespace)
        self._working: Receiving | None = None
        self._is_joined = False

    def __enter__(self) -> "BlockingSimpleConsumer":
        return BlockingSimpleConsumer.enter(self)

    def subscribe(self, topic: str, expression: str = ALL_TAGS, expression_type: str = TAG) -> None:
        """Subscribe to a topic. Several topics take turns.

        Without an `expression` it receives all messages, otherwise those with some tags (`paid || refunded`), or, with
        `expression_type="SQL92"`, those that match a condition over properties (`price > 100 AND region = 'eu'`).

        Messages that don't match are skipped for the whole group, so all members should have the same subscription.
        Raises: ClientError (invalid topic or expression).
        """
        topic = self.client.namespace.wrap(topic)
        self._subscriptions.put(subscribe(topic, expression, expression_type, self.client.version_ms()))
        self._subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        self._subscriptions.by_topic.pop(self.client.namespace.wrap(topic), None)
        self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        if self._working is not None:
            self.client.send_heartbeats()

    # -- messages ------------------------------------------------------------------------------------------------

    async def receive(
        self, max_messages: int | None = None, invisible_ms: int | None = None, await_ms: int | None = None
    ) -> list[PoppedMessage]:
        """Return up to `max_messages` messages of one topic, as soon as there are some; an empty list after `await_ms`.

        Defaults are in the settings: 16 messages, invisible for 30 s, a wait of 15 s. If a call is cancelled, no
        message is left hidden: the next call with the same parameters gets the messages that arrive for it. Without
        such a call they are put back and redelivered at once, with `reconsume_times` increased by one.

        Raises: ClientError (not running, nothing subscribed, a number out of range), TopicNotFound (none of the topics
        exists), BrokerAnswer, NetworkError, and what its event loop has crashed with.
        """
        settings = self.settings
        count = _within("max_messages", max_messages, settings.max_messages, 1, POP_MESSAGES_MAX)
        invisible_ms = _within("invisible_ms", invisible_ms, settings.invisible_ms, 0, INT32_MAX)
        await_ms = _within("await_ms", await_ms, settings.await_ms, 0, INT32_MAX)
        working = self._at_work()
        if not self._subscriptions.by_topic:
            raise ClientError(f"{self.group} has nothing to receive: subscribe to a topic first")
        if self.crash is not None:
            raise self.crash
        return await working.receive(count, invisible_ms, await_ms)

    async def ack(self, message: PoppedMessage) -> None:
        """Acknowledge a message: it is done, and isn't delivered to this group again.

        Brokers also accept the handle of a message whose invisible time has ended, and don't report that it was
        redelivered.
        Raises: ClientError (not running, or not a popped message), BrokerAnswer, NetworkError.
        """
        await self._at_work().acknowledging.ack(_popped(message))

    async def ack_all(self, messages: Iterable[PoppedMessage]) -> None:
        """Acknowledge many messages, with one request per broker. Raises: as `ack`."""
        await self._at_work().acknowledging.ack_all([_popped(message) for message in messages])

    async def change_invisible(self, message: PoppedMessage, invisible_ms: int) -> None:
        """Set how long a message remains invisible to other members, from now on; 0: it is redelivered at once.

        The message gets a new handle; the old one is no longer valid. Raises: as `ack`.
        """
        wanted_ms = _within("invisible_ms", invisible_ms, invisible_ms, 0, INT32_MAX)
        await self._at_work().acknowledging.change(_popped(message), wanted_ms)

    # -- start and stop ------------------------------------------------------------------------------------------

    def describe(self) -> ConsumerData:
        """Return the content of this consumer's heartbeats."""
        self._subscriptions.stamp(self.client.version_ms())
        data = [subscription.data for subscription in self._subscriptions.by_topic.values()]
        from_where = self.settings.consume_from_where.value
        return ConsumerData(self.group, CONSUME_TYPE, MESSAGE_MODEL, from_where, data, consume_orderly=False)

    async def _join(self) -> None:
        """Register with every broker of its topics."""
        client, topics = self.client, list(self._subscriptions.by_topic)
        client.join_consumers(self.group, self.describe)
        self._is_joined = True
        outcomes = await asyncio.gather(*map(client.routes.fetch, topics), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, BrokerAnswer):
                raise outcome  # `receive` reports a missing topic: it may be created later.
        await check_conditions(client, self.group, self._subscriptions.by_topic.values())
        await client.announce()
        self._working = working = Receiving(
            self.group, client, self.settings, self._subscriptions, self.spawn, self.pause_for
        )  # fmt: skip
        AdminRequests.of(client).consumers[self.group] = SimpleAdmin(client, self.describe, working.popped_ms)

    async def _part(self) -> None:
        """Stop waiting for messages, and unregister. Unfinished messages are redelivered after their time."""
        if not self._is_joined:
            # What is registered for the group belongs to another consumer of a shared client.
            return
        self._is_joined = False
        working, self._working = self._working, None
        AdminRequests.of(self.client).consumers.pop(self.group, None)
        try:
            if working is not None:
                await working.leave()
        finally:
            unregistered = self.client.unregister_consumers(self.group)
        await unregistered

    def _at_work(self) -> Receiving:
        if self._working is None:
            raise ClientError(f"simple consumer {self.group} isn't running: open it first, `async with consumer`")
        return self._working


def _within(name: str, value: object, default: int, least: int, most: int) -> int:
    """Return a parameter, or its default. Raises: ClientError if it is out of range, or not a whole number."""
    chosen = default if value is None else value
    if not isinstance(chosen, int) or not least <= chosen <= most:
        raise ClientError(f"{name}={chosen!r}: it must be a whole number from {least} to {most}")
    return chosen


def _popped(message: PoppedMessage) -> PoppedMessage:
    """Check that a message can be acknowledged. Raises: ClientError."""
    if not isinstance(message, PoppedMessage):
        raise ClientError(f"{message!r:.200} wasn't received by a simple consumer, so it can't be acknowledged")
    return message


class BlockingSimpleConsumer(BlockingFace[SimpleConsumer]):
    """One member of a consumer group that receives messages one by one. Any number of threads may use it.

    with SimpleConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders")
        for message in consumer.receive(max_messages=16, invisible_ms=30_000, await_ms=5_000):
            bill(message)
            consumer.ack(message)
    """

    subscribe = on_loop(SimpleConsumer.subscribe)
    unsubscribe = on_loop(SimpleConsumer.unsubscribe)
    receive = blocking(SimpleConsumer.receive)
    ack = blocking(SimpleConsumer.ack)
    ack_all = blocking(SimpleConsumer.ack_all)
    change_invisible = blocking(SimpleConsumer.change_invisible)
