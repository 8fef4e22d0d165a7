"""The push consumer: calls a listener with the messages of its share of the group's queues.
RocketMQ: DefaultMQPushConsumer.

    consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
    consumer.subscribe("orders", "paid || refunded")

    @consumer.listener
    async def bill(messages, context):
        return ConsumeStatus.CONSUME_SUCCESS

    async with consumer: ...

Inside the `async with`, it has its share of the queues and pulls. Each message is delivered at least once: it is done
when the listener reports success. After the `async with`, listeners have ended, offsets are stored, and the brokers
have removed this member and notified the others. With `@consumer.ordered_listener` each queue is consumed in order, by
one member at a time.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from staticfire.client.cluster.blocking import BlockingFace, blocking, on_loop
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.subscriptions import TAG, Subscription, Subscriptions, subscribe
from staticfire.client.consume.membership.membership import checked_group
from staticfire.client.consume.membership.rebalance_loop import RebalanceLoop
from staticfire.client.consume.membership.rebalancer import QueuesChanged, with_plain_names
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.results.consume_results import Listener
from staticfire.client.consume.results.hooks import ConsumerHook
from staticfire.client.consume.results.ordered_results import OrderedListener
from staticfire.client.push.push_admin import ConsumerAdmin
from staticfire.client.push.push_parts import PushParts
from staticfire.client.settings.push_settings import CONSUME_THREADS_MAX, MessageModel, PushSettings
from staticfire.protocol.errors import ClientError
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.clients import ConsumerData, SubscriptionData
from staticfire.protocol.requests.connections import TopicConsumption
from staticfire.protocol.tags import ALL_TAGS, EVERY_TAG
from staticfire.runtime.machine import Machine

if TYPE_CHECKING:
    from staticfire.client.consume.listeners.consumer_tracing import ConsumerTracing

L = TypeVar("L", bound=Listener)
OL = TypeVar("OL", bound=OrderedListener)
Q = TypeVar("Q", bound=QueuesChanged)

CONSUME_TYPE = "CONSUME_PASSIVELY"


class PushConsumer(ClientService):
    """One member of a consumer group, with a listener."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: PushSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
    ) -> None:
        """`client`: a shared client, instead of `namesrv`. Raises: UsageError, ClientError."""
        self.settings = settings or PushSettings()
        super().__init__(namesrv, self.settings.client, machine, client)
        self.group = group = self.client.namespace.wrap(checked_group(group))
        """The full name of the group, as brokers know it."""
        self._subscriptions = Subscriptions(self.client.namespace)
        self._listener: Listener | OrderedListener | None = None
        self._is_ordered = False
        self._queue_listeners: list[QueuesChanged] = []
        retry_ms = self.client.settings.rebalance_retry_ms
        self._state = ConsumerState(group, self.settings, self._subscriptions, retry_ms)
        self._working: PushParts | None = None
        self._threads = self.settings.consume_threads
        self._tracing: ConsumerTracing | None = None

    def __enter__(self) -> "BlockingPushConsumer":
        return BlockingPushConsumer.enter(self)

    # -- before the start, and after -----------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = ALL_TAGS, expression_type: str = TAG) -> None:
        """Subscribe to a topic.

        Without an `expression` it consumes all messages, otherwise those with some tags (`paid || refunded`), or, with
        `expression_type="SQL92"`, those that match a condition over properties (`price > 100 AND region IN ('eu',
        'us')`).

        Raises: ClientError (invalid topic or expression).
        """
        topic = self.client.namespace.wrap(topic)
        self._subscriptions.put(subscribe(topic, expression, expression_type, self.client.version_ms()))
        self._subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic; its queues are given back."""
        self._subscriptions.by_topic.pop(self.client.namespace.wrap(topic), None)
        self._subscriptions_changed()

    def _subscriptions_changed(self) -> None:
        self.in_loop(lambda: None if self._working is None else self._working.subscriptions_changed())

    def listener(self, listener: L) -> L:
        """Set the listener: `listener(messages, context)` returns a ConsumeStatus. Can be used as a decorator.

        A coroutine function is awaited in the event loop; a plain function is called in threads. An exception, or a
        result that isn't a status, means RECONSUME_LATER; but KeyboardInterrupt ends the consumer. Raises: ClientError
        if the consumer has started.
        """
        self._set_listener(listener, is_ordered=False)
        return listener

    def ordered_listener(self, listener: OL) -> OL:
        """Set the listener that consumes each queue in order: `listener(messages, context)` returns an OrderedStatus.

        For each queue there is one call at a time, at one member of the group, and the next call follows when its
        messages are done. An exception, or a result that isn't a status, means SUSPEND_CURRENT_QUEUE_A_MOMENT: the
        messages are redelivered.
        Raises: ClientError if the consumer has started.
        """
        self._set_listener(listener, is_ordered=True)
        return listener

    def _set_listener(self, listener: Listener | OrderedListener, is_ordered: bool) -> None:
        if self._working is not None:
            raise ClientError(f"consumer {self.group} has started: set its listener before the start")
        if not callable(listener):
            raise ClientError(f"the listener of {self.group} is not a function: {listener!r:.100}")
        self._listener, self._is_ordered = listener, is_ordered

    @property
    def is_ordered(self) -> bool:
        """Whether its listener is ordered."""
        return self._is_ordered

    def add_hook(self, hook: ConsumerHook) -> None:
        """Call a hook's methods around pulls, rebalances and consumption. Raises: ClientError (it has started)."""
        if self._working is not None:
            raise ClientError(f"consumer {self.group} has started: add hooks before the start")
        self._state.hooks.add(hook)

    def on_queues_changed(self, listener: Q) -> Q:
        """Call `listener(topic, all_queues, own_queues)` after each change of the queues that this consumer owns."""
        self._queue_listeners.append(with_plain_names(listener, self.client.namespace))
        return listener

    # -- while it runs -------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer owns now, sorted."""
        queues = [] if self._working is None else self._working.queues
        return [self.client.namespace.unwrapped(queue) for queue in queues]

    @property
    def cached(self) -> dict[MessageQueue, int]:
        """The number of messages of each queue that are cached and not done."""
        cached, plain = {} if self._working is None else self._working.cached, self.client.namespace.unwrapped
        return {plain(queue): count for queue, count in cached.items()}

    @property
    def statistics(self) -> dict[str, TopicConsumption]:
        """How fast each topic, with its retries, was pulled and consumed in the last minute."""
        plain, statistics = self.client.namespace.unwrap, self._state.statistics
        return {plain(topic): statistics.consumption(topic) for topic in self._subscriptions.by_topic}

    @property
    def consume_threads(self) -> int:
        """How many listener calls may run at once."""
        return self._threads

    def update_consume_threads(self, threads: int) -> None:
        """Allow this many concurrent listener calls from now on. For plain functions, this is the number of threads.

        Raises: ClientError below 1 and above CONSUME_THREADS_MAX.
        """
        if not 1 <= threads <= CONSUME_THREADS_MAX:
            raise ClientError(f"{threads} consume threads: the number must be 1 to {CONSUME_THREADS_MAX}")
        self._threads = threads
        if self._working is not None:
            self._working.resize(threads)

    def inc_consume_threads(self, by: int = 1) -> None:
        """Allow more concurrent listener calls. RocketMQ: incCorePoolSize. Raises: as `update_consume_threads`."""
        self.update_consume_threads(self._threads + by)

    def dec_consume_threads(self, by: int = 1) -> None:
        """Allow fewer concurrent listener calls; running calls aren't stopped. Raises: as `update_consume_threads`."""
        self.update_consume_threads(self._threads - by)

    def update_consume_timeout(self, timeout_ms: int) -> None:
        """Set the consume timeout. Messages whose listener takes longer are sent back, including running ones.

        Raises: ClientError below 1.
        """
        if timeout_ms < 1:
            raise ClientError(f"a consume timeout of {timeout_ms} ms: it must be at least 1 ms")
        self._state.limits.consume_timeout_ms = timeout_ms
        if self._working is not None:
            self._working.held.limits_changed()

    async def reset_offset_by_time(self, stored_ms: int) -> None:
        """Continue, in this member's queues, with messages stored at this time or later, backwards or forwards.

        `stored_ms`: message time. Results of running listener calls are ignored. RocketMQ: resetOffsetByTimeStamp.

        Raises: ClientError (not running), BrokerAnswer, NetworkError.
        """
        if self._working is None:
            raise ClientError(f"consumer {self.group} isn't running: open it first")
        await self._working.move_to_time(stored_ms)

    def suspend(self) -> None:
        """Stop pulling until `resume`. Cached messages are still consumed, and this consumer keeps its queues."""
        self._state.is_suspended = True

    def resume(self) -> None:
        """Pull again."""
        self._state.is_suspended = False
        self.in_loop(self._resumed)

    def _resumed(self) -> None:
        if self._working is not None:
            self._working.resume()
            RebalanceLoop.of(self.client).wake()

    def describe(self) -> ConsumerData:
        """Return the content of this consumer's heartbeats."""
        return ConsumerData(
            self.group,
            CONSUME_TYPE,
            self.settings.message_model.value,
            self.settings.consume_from_where.value,
            [subscription.data for subscription in self._subscriptions.by_topic.values()],
            consume_orderly=self._is_ordered,
        )

    # -- start and stop ------------------------------------------------------------------------------------------

    async def __aexit__(self, kind: type[BaseException] | None = None, *others: object) -> None:
        """Stop the consumer. Raises: what the consumer crashed with, if nothing else is raised."""
        await super().__aexit__(kind, *others)
        if kind is None and self.crash is not None:
            raise self.crash

    async def _join(self) -> None:
        """Load offsets, register with every broker, take this member's share of the queues, and pull."""
        listener = self._listener
        if listener is None:
            raise ClientError(f"consumer {self.group} has no listener: decorate one with @consumer.listener first")
        if self.settings.message_model is MessageModel.CLUSTERING:
            self._subscriptions.put(_retries_of(self.group))
        self._state.is_over = False
        if self.settings.enable_trace:
            self._trace()
        working = self._working = PushParts(
            self, self.client, self._state, listener, self._is_ordered, self._queue_listeners
        )
        admin = ConsumerAdmin(self.client, self.settings, self.describe, working, listener, self._is_ordered)
        working.resize(self._threads)
        await working.membership.join(self.describe, admin)

    def _trace(self) -> None:
        """Start to trace what is consumed. The module is imported only if it is used."""
        from staticfire.client.consume.listeners.consumer_tracing import ConsumerTracing
        from staticfire.client.produce.trace_writer import TraceWriter

        if self._tracing is None:
            machine = self.client.machine
            writer = TraceWriter(self.client, f"{self.group}-CONSUME-1", self.settings.trace_topic)
            self._tracing = ConsumerTracing(
                writer, asyncio.get_running_loop(), machine.clock, machine.identity, self.client.namespace
            )
            self._state.hooks.add(self._tracing)
        self._tracing.writer.start(self.spawn)

    async def _part(self) -> None:
        """Stop pulling, let listeners end, store offsets, unregister."""
        working, self._working = self._working, None
        if working is None:
            return
        try:
            await working.leave()
            if self._tracing is not None:
                await self._tracing.writer.close()
        finally:
            if self._tracing is not None:
                self._tracing.writer.detach()
            unregistered = working.membership.leave()
        await unregistered


def _retries_of(group: str) -> Subscription:
    """Return the subscription to a group's own retries, which every consumer needs, but no program subscribes to."""
    return Subscription(SubscriptionData(retry_topic(group)), EVERY_TAG)


class BlockingPushConsumer(BlockingFace[PushConsumer]):
    """One member of a consumer group, with a listener.

        consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
        consumer.subscribe("orders")

        @consumer.listener
        def bill(messages, context):
            return ConsumeStatus.CONSUME_SUCCESS

        with consumer as running:
            running.wait()      # until `running.stop()`, Ctrl-C, or a crash

    A plain function as a listener is called in threads, an `async def` in the consumer's own event loop. Plain
    functions may use any blocking object, and must protect data that they share.
    """

    subscribe = on_loop(PushConsumer.subscribe)
    unsubscribe = on_loop(PushConsumer.unsubscribe)
    suspend = on_loop(PushConsumer.suspend)
    resume = on_loop(PushConsumer.resume)
    update_consume_threads = on_loop(PushConsumer.update_consume_threads)
    inc_consume_threads = on_loop(PushConsumer.inc_consume_threads)
    dec_consume_threads = on_loop(PushConsumer.dec_consume_threads)
    update_consume_timeout = on_loop(PushConsumer.update_consume_timeout)
    reset_offset_by_time = blocking(PushConsumer.reset_offset_by_time)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer owns now, sorted."""
        return self._on_loop(lambda: self.service.assignment)

    @property
    def cached(self) -> dict[MessageQueue, int]:
        """The number of messages of each queue that are cached and not done."""
        return self._on_loop(lambda: self.service.cached)

    @property
    def statistics(self) -> dict[str, TopicConsumption]:
        """How fast each topic, with its retries, was pulled and consumed in the last minute."""
        return self._on_loop(lambda: self.service.statistics)

    @property
    def consume_threads(self) -> int:
        """How many listener calls may run at once."""
        return self.service.consume_threads
