"""The simple consumer: a program receives messages, and says of each that it is done, or needs more time.

    async with SimpleConsumer("billing", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders", "paid || refunded")
        while True:
            for message in await consumer.receive(max_messages=16, invisible_ms=30_000):
                await bill(message)
                await consumer.ack(message)

Nobody else gets a received message for its invisible time. After that it comes again, to whichever member asks, with
one more in `reconsume_times`; `change_invisible` puts that off, or with 0 lets it come again now. Members need no share
of the queues: there may be more of them than queues, and one that is slow holds nobody up. RocketMQ 5: SimpleConsumer.
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
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.pop import POP_MESSAGES_MAX
from staticfire.protocol.tags import ALL_TAGS
from staticfire.runtime.machine import Machine
from staticfire.runtime.ranges import INT32_MAX

CONSUME_TYPE, MESSAGE_MODEL = "CONSUME_ACTIVELY", "CLUSTERING"


class SimpleConsumer(ClientService):
    """One member of a consumer group that receives messages one by one. Tasks may use it at once."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: SimpleSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
    ) -> None:
        """`client`: one that is shared, instead of `namesrv`. Raises: UsageError, ClientError."""
        self.settings = settings or SimpleSettings()
        super().__init__(namesrv, self.settings.client, machine, client)
        self.group = self.client.namespace.wrap(checked_group(group))
        """Its whole name, as brokers know it."""
        self._subscriptions = Subscriptions(self.client.namespace)
        self._working: Receiving | None = None

    def __enter__(self) -> "BlockingSimpleConsumer":
        return BlockingSimpleConsumer.enter(self)

    def subscribe(self, topic: str, expression: str = ALL_TAGS, expression_type: str = TAG) -> None:
        """Receive a topic: all of it, some tags (`paid || refunded`), or with `expression_type="SQL92"` what fulfils a
        condition over properties (`price > 100 AND region = 'eu'`). Of several topics, each has its turn.

        What doesn't match is passed over for the whole group, so all members should want the same.
        Raises: ClientError (no such topic or expression).
        """
        topic = self.client.namespace.wrap(topic)
        self._subscriptions.put(subscribe(topic, expression, expression_type, self.client.version_ms()))
        self._subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Receive a topic no more."""
        self._subscriptions.by_topic.pop(self.client.namespace.wrap(topic), None)
        self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        if self._working is not None:
            self.client.send_heartbeats()

    # -- messages ------------------------------------------------------------------------------------------------

    async def receive(
        self, max_messages: int | None = None, invisible_ms: int | None = None, await_ms: int | None = None
    ) -> list[PoppedMessage]:
        """Return up to so many messages of one topic, as soon as there are some; an empty list when none come in time.

        What isn't said is as in the settings: 16 messages, invisible for 30 s, waited for for 15 s. A call that is
        cancelled leaves no message hidden: the next call that wants the same gets what it was about to get; without
        one it is handed back, and is redelivered at once, with one more in `reconsume_times`.

        Raises: ClientError (not running, nothing subscribed, a number out of range), TopicNotFound (no topic is there),
        BrokerAnswer, NetworkError, and what its event loop has crashed with.
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
        """Say that a message is done: it comes to nobody of this group again.

        Brokers take the handle of a message whose invisible time was over, too; that it has come again they don't say.
        Raises: ClientError (not running, or not received by pops), BrokerAnswer, NetworkError.
        """
        await self._at_work().acknowledging.ack(_popped(message))

    async def ack_all(self, messages: Iterable[PoppedMessage]) -> None:
        """Say of many messages that they are done, with one request per broker. Raises: as `ack`."""
        await self._at_work().acknowledging.ack_all([_popped(message) for message in messages])

    async def change_invisible(self, message: PoppedMessage, invisible_ms: int) -> None:
        """Let nobody else have a message for so long, from now on; 0: it comes again at once.

        The message has another handle then, and the one before is spent. Raises: as `ack`.
        """
        wanted_ms = _within("invisible_ms", invisible_ms, invisible_ms, 0, INT32_MAX)
        await self._at_work().acknowledging.change(_popped(message), wanted_ms)

    # -- start and stop ------------------------------------------------------------------------------------------

    def describe(self) -> ConsumerData:
        """Return what heartbeats say of this consumer."""
        self._subscriptions.stamp(self.client.version_ms())
        data = [subscription.data for subscription in self._subscriptions.by_topic.values()]
        from_where = self.settings.consume_from_where.value
        return ConsumerData(self.group, CONSUME_TYPE, MESSAGE_MODEL, from_where, data, consume_orderly=False)

    async def _join(self) -> None:
        """Make this member known to every broker of its topics."""
        client, topics = self.client, list(self._subscriptions.by_topic)
        client.join_consumers(self.group, self.describe)
        outcomes = await asyncio.gather(*map(client.routes.fetch, topics), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, BrokerAnswer):
                raise outcome  # An answer that says no is told by `receive`: the topic may come to be.
        await check_conditions(client, self.group, self._subscriptions.by_topic.values())
        await client.announce()
        self._working = working = Receiving(
            self.group, client, self.settings, self._subscriptions, self.spawn, self.pause_for
        )  # fmt: skip
        AdminRequests.of(client).consumers[self.group] = SimpleAdmin(client, self.describe, working.popped_ms)

    async def _part(self) -> None:
        """Wait for nothing more, and say goodbye. What was received and isn't done comes again in its time."""
        working, self._working = self._working, None
        AdminRequests.of(self.client).consumers.pop(self.group, None)
        if working is not None:
            await working.leave()
        await self.client.leave_consumers(self.group)

    def _at_work(self) -> Receiving:
        if self._working is None:
            raise ClientError(f"simple consumer {self.group} isn't running: enter it first, `async with consumer`")
        return self._working


def _within(name: str, value: int | None, default: int, least: int, most: int) -> int:
    """Return a number that was asked for. Raises: ClientError when it is out of range."""
    chosen = default if value is None else value
    if not least <= chosen <= most:
        raise ClientError(f"{name}={chosen!r}: a whole number from {least} to {most}")
    return chosen


def _popped(message: PoppedMessage) -> PoppedMessage:
    """Return a message that can be acknowledged. Raises: ClientError."""
    if not isinstance(message, PoppedMessage):
        raise ClientError(
            f"{message!r:.200} wasn't received by a simple consumer: there is nothing to acknowledge it by"
        )
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
