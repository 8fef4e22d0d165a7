"""The lite pull consumer: the program polls, without counting offsets. RocketMQ: DefaultLitePullConsumer.

    async with LitePullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders", "paid || refunded")      # a share of the queues, with the other members
        while True:
            for message in await consumer.poll(timeout_ms=500): ...

    await consumer.assign(await consumer.queues("orders"))    # or these queues, whichever other member has them
    await consumer.seek(queue, 4711)

It prefetches messages; `poll` returns those of one pull. The next `poll` means that the earlier messages are done: they
are committed every few seconds, or with auto_commit=False when the program calls `commit`.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from staticfire.client.cluster.blocking import BlockingFace, blocking, on_loop
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import subscribe_queues
from staticfire.client.cluster.subscriptions import TAG, Subscription, Subscriptions, subscribe
from staticfire.client.consume.membership.membership import checked_group
from staticfire.client.consume.membership.rebalancer import QueuesChanged, with_plain_names
from staticfire.client.consume.results.hooks import ConsumerHook, ConsumerHooks
from staticfire.client.lite_pull.lite_pull_admin import LitePullAdmin
from staticfire.client.lite_pull.pulling import LitePulling
from staticfire.client.lite_pull.topic_watch import TopicQueuesChanged, TopicWatch, for_plain_names
from staticfire.client.settings.lite_pull_settings import LitePullSettings
from staticfire.protocol.errors import ClientError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.connections import TopicConsumption
from staticfire.protocol.tags import ALL_TAGS
from staticfire.runtime.machine import Machine

Q = TypeVar("Q", bound=QueuesChanged)

CONSUME_TYPE = "CONSUME_ACTIVELY"
# RocketMQ's lite pull consumer sends this in its heartbeats, whatever its settings are.
CONSUME_FROM_WHERE = "CONSUME_FROM_LAST_OFFSET"
# After this many polls that didn't suspend, other tasks of the event loop get a turn.
POLLS_IN_A_ROW_MAX = 8


class LitePullConsumer(ClientService):
    """One member of a consumer group, which polls."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: LitePullSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
    ) -> None:
        """`client`: a shared client, instead of `namesrv`. Raises: UsageError, ClientError."""
        self.settings = settings or LitePullSettings()
        super().__init__(namesrv, self.settings.client, machine, client)
        self.group = group = self.client.namespace.wrap(checked_group(group))
        """The full name of the group, as brokers know it."""
        self._whole = self.client.namespace.wrapped
        self._subscriptions = Subscriptions(self.client.namespace)
        self._chosen: list[MessageQueue] | None = None
        self._queue_listeners: list[QueuesChanged] = []
        self._hooks = ConsumerHooks(group)
        self._watch = TopicWatch(group)
        self._working: LitePulling | None = None
        self._polls = 0
        self._is_failing = False

    def __enter__(self) -> "BlockingLitePullConsumer":
        return BlockingLitePullConsumer.enter(self)

    # -- which queues --------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str = ALL_TAGS, expression_type: str = TAG) -> None:
        """Subscribe to a topic, and share its queues with the other members.

        Without an `expression` it receives all messages, otherwise those with some tags (`paid || refunded`), or, with
        `expression_type="SQL92"`, those that match a condition over properties (`price > 100 AND region = 'eu'`).

        Raises: ClientError (invalid topic or expression; or queues have been assigned with `assign`).
        """
        if self._chosen is not None:
            raise ClientError(f"{self.group}: subscribe and assign are mutually exclusive; queues have been assigned")
        self._want(subscribe(self.client.namespace.wrap(topic), expression, expression_type, self.client.version_ms()))
        self._subscriptions_changed()

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic; its queues are given back."""
        topic = self.client.namespace.wrap(topic)
        if self._chosen is None and self._subscriptions.by_topic.pop(topic, None) is not None:
            self._subscriptions_changed()

    async def assign(self, queues: Iterable[MessageQueue], expressions: Mapping[str, str] | None = None) -> None:
        """Own exactly these queues, whichever other member has them. Unlisted queues of an earlier call are dropped.

        `expressions`: tags by topic; topics without an entry get all messages. Queues that can't be taken now are taken
        later; the log contains the reason. Raises: ClientError (a topic was subscribed, or an invalid expression).
        """
        if self._chosen is None and self._subscriptions.by_topic:
            raise ClientError(f"{self.group}: subscribe and assign are mutually exclusive; topics have been subscribed")
        chosen = list(dict.fromkeys(map(self._whole, queues)))
        wanted = {self.client.namespace.wrap(topic): expression for topic, expression in (expressions or {}).items()}
        topics, version_ms = dict.fromkeys(queue.topic for queue in chosen), self.client.version_ms()
        for one in [subscribe(topic, wanted.get(topic, ALL_TAGS), TAG, version_ms) for topic in topics]:
            self._want(one)
        self._chosen = chosen
        if self._working is not None:
            await self._working.choose(chosen)

    def _want(self, wanted: Subscription) -> None:
        known = self._subscriptions.by_topic.get(wanted.data.topic)
        if known is None or _filter_of(known) != _filter_of(wanted):
            self._subscriptions.put(wanted)
            if self._working is not None:
                self._working.filter_anew(wanted.data.topic)

    def _subscriptions_changed(self) -> None:
        if self._working is not None:
            self._working.membership.subscriptions_changed()

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that were assigned with `assign`, or this member's current share; sorted."""
        queues = sorted(self._chosen or ()) if self._working is None else self._working.assigned.queues
        return [self.client.namespace.unwrapped(queue) for queue in queues]

    def on_queues_changed(self, listener: Q) -> Q:
        """Call `listener(topic, all_queues, own_queues)` after each change of this member's share.

        Raises: ClientError if the consumer has started.
        """
        if self._working is not None:
            raise ClientError(f"lite pull consumer {self.group} has started: register listeners before the start")
        self._queue_listeners.append(with_plain_names(listener, self.client.namespace))
        return listener

    def add_hook(self, hook: ConsumerHook) -> None:
        """Call a hook's methods around pulls, rebalances and polls. Raises: ClientError if the consumer has started."""
        if self._working is not None:
            raise ClientError(f"lite pull consumer {self.group} has started: add hooks before the start")
        self._hooks.add(hook)

    @property
    def statistics(self) -> dict[str, TopicConsumption]:
        """How fast each topic was pulled in the last minute."""
        found = None if self._working is None else self._working.state.statistics
        plain = self.client.namespace.unwrap
        return {} if found is None else {plain(one): found.consumption(one) for one in self._subscriptions.by_topic}

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic that can be read. Raises: TopicNotFound, NetworkError."""
        return subscribe_queues(topic, await self.client.routes.fetch(self.client.namespace.wrap(topic)))

    async def on_topic_queues_changed(self, topic: str, listener: TopicQueuesChanged) -> None:
        """Call `listener(topic, queues)` after the queues of a topic have changed, for example to assign them.

        Raises: NetworkError.
        """
        topic = self.client.namespace.wrap(topic)
        self._watch.add(topic, for_plain_names(listener, self.client.namespace))
        if self._working is not None:
            await self._watch.learn(topic, self.client.routes)

    # -- messages ------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int | None = None) -> list[ReceivedMessage]:
        """Return the messages of one pull, all from one queue; an empty list if there are none before the timeout.

        A poll means that the messages of earlier polls are done. If several tasks or threads poll at once that isn't
        true, so they need auto_commit=False. `timeout_ms`: None means the value of the settings.

        Raises: ClientError (not running, nothing subscribed or assigned), and what its event loop has crashed with.
        """
        working = self._at_work()
        timeout_ms = self.settings.poll_timeout_ms if timeout_ms is None else timeout_ms
        if timeout_ms < 0:
            raise ClientError(f"{self.group}: poll(timeout_ms={timeout_ms}): the timeout must not be negative")
        if self._chosen is None and not self._subscriptions.by_topic:
            raise ClientError(f"{self.group} has nothing to poll: subscribe to a topic, or assign queues, first")
        self._polls += 1
        if self._polls % POLLS_IN_A_ROW_MAX == 0:
            await asyncio.sleep(0)
        messages = await working.poll(timeout_ms)
        if not messages and self.crash is not None:
            raise self.crash
        return messages

    async def seek(self, queue: MessageQueue, queue_offset: int) -> None:
        """Continue at an offset in one of its queues; prefetched messages of that queue are discarded.

        Raises: ClientError (not its queue, or an offset outside the queue), BrokerAnswer, NetworkError.
        """
        queue = self._whole(queue)
        low, high = await self._at_work().limits(queue)
        if not low <= queue_offset <= high:
            raise ClientError(f"seek to {queue_offset} in {queue}: it has the offsets {low} to {high}")
        self._at_work().go_to(queue, queue_offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the oldest stored message of a queue. Raises: as `seek`."""
        queue = self._whole(queue)
        low, _ = await self._at_work().limits(queue)
        self._at_work().go_to(queue, low)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the end of a queue, with messages that are still to come. Raises: as `seek`."""
        queue = self._whole(queue)
        _, high = await self._at_work().limits(queue)
        self._at_work().go_to(queue, high)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop pulling some queues until `resume`. Prefetched messages can still be polled.

        Raises: ClientError (not its queue).
        """
        self._at_work().pause(map(self._whole, queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Pull these queues again. Raises: ClientError (not its queue)."""
        self._at_work().resume(map(self._whole, queues))

    def is_paused(self, queue: MessageQueue) -> bool:
        """Whether a queue is paused."""
        return self._working is not None and self._whole(queue) in self._working.state.paused

    # -- offsets -------------------------------------------------------------------------------------------------

    async def commit(
        self, offsets: Mapping[MessageQueue, int] | Iterable[MessageQueue] | None = None, persist: bool = True
    ) -> None:
        """Commit what has been polled: of all queues, of some, or these `offsets`; messages below an offset are done.

        Returns when brokers have stored it. `persist`: False, to store it within a few seconds instead.

        Raises: ClientError (not its queue, an offset below 0), BrokerAnswer, NetworkError.
        """
        if isinstance(offsets, Mapping):
            await self._at_work().commit({self._whole(queue): offset for queue, offset in offsets.items()}, persist)
        else:
            await self._at_work().commit(None if offsets is None else map(self._whole, offsets), persist)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset in a queue; None if there is none. Raises: BrokerAnswer, NetworkError."""
        return await self._at_work().offsets.committed(self._whole(queue))

    async def offset_for_timestamp(self, queue: MessageQueue, stored_ms: int) -> int:
        """Return the first offset stored at this time or later. Raises: BrokerAnswer, NetworkError."""
        return await self._at_work().questions.search_offset(self._whole(queue), stored_ms)

    # -- start and stop ------------------------------------------------------------------------------------------

    def describe(self) -> ConsumerData:
        """Return the content of this consumer's heartbeats. Queues that are assigned by hand aren't included."""
        wanted = [] if self._chosen is not None else list(self._subscriptions.by_topic.values())
        model = self.settings.message_model.value
        data = [subscription.data for subscription in wanted]
        return ConsumerData(self.group, CONSUME_TYPE, model, CONSUME_FROM_WHERE, data)

    async def __aexit__(self, kind: type[BaseException] | None = None, *others: object) -> None:
        """Stop the consumer. If the program leaves with an exception, the messages of the last poll aren't committed.

        Raises: what the consumer crashed with, if nothing else is raised.
        """
        self._is_failing = self._is_failing or kind is not None
        await super().__aexit__(kind, *others)
        if kind is None and self.crash is not None:
            raise self.crash

    def __exit__(self, *outcome: object) -> None:
        self._is_failing = any(each is not None for each in outcome)
        super().__exit__(*outcome)

    async def _join(self) -> None:
        self._is_failing = False
        working = self._working = LitePulling(
            self, self.client, self.group, self.settings, self._subscriptions, self._queue_listeners, self._hooks
        )
        if self._chosen is not None:
            working.assigned.choose(self._chosen)
        await self._watch.begin(self.client.routes)
        await working.membership.join(self.describe, LitePullAdmin(self.client, self.describe, working))

    async def _part(self) -> None:
        working, self._working = self._working, None
        self._watch.end(self.client.routes)
        if working is not None:
            await working.leave(self._is_failing)

    def _at_work(self) -> LitePulling:
        if self._working is None:
            raise ClientError(f"lite pull consumer {self.group} isn't running: open it first, `async with consumer`")
        return self._working


def _filter_of(wanted: Subscription) -> tuple[str, str]:
    return wanted.data.expression_type, wanted.data.sub_string


class BlockingLitePullConsumer(BlockingFace[LitePullConsumer]):
    """One member of a consumer group, which polls. Any number of threads may use it; see `LitePullConsumer.poll`.

        with LitePullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")
            while messages := consumer.poll(timeout_ms=500): ...

    Each poll waits for another thread: with a larger `pull_batch_size` there are fewer polls.
    """

    subscribe = on_loop(LitePullConsumer.subscribe)
    unsubscribe = on_loop(LitePullConsumer.unsubscribe)
    assign = blocking(LitePullConsumer.assign)
    queues = blocking(LitePullConsumer.queues)
    on_topic_queues_changed = blocking(LitePullConsumer.on_topic_queues_changed)
    poll = blocking(LitePullConsumer.poll)
    seek = blocking(LitePullConsumer.seek)
    seek_to_begin = blocking(LitePullConsumer.seek_to_begin)
    seek_to_end = blocking(LitePullConsumer.seek_to_end)
    pause = on_loop(LitePullConsumer.pause)
    resume = on_loop(LitePullConsumer.resume)
    is_paused = on_loop(LitePullConsumer.is_paused)
    commit = blocking(LitePullConsumer.commit)
    committed = blocking(LitePullConsumer.committed)
    offset_for_timestamp = blocking(LitePullConsumer.offset_for_timestamp)

    @property
    def statistics(self) -> dict[str, TopicConsumption]:
        """How fast each topic was pulled in the last minute."""
        return self._on_loop(lambda: self.service.statistics)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that were assigned with `assign`, or this member's current share; sorted."""
        return self._on_loop(lambda: self.service.assignment)
