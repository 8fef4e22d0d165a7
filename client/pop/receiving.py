"""Which broker a simple consumer pops from next, and how it waits for messages of several.

A pop that one broker holds doesn't notice messages at other brokers, and pops held at all brokers would take more
messages than requested. So with several topics or brokers only *notifications* are held: they report where a message
is, without taking any. There is one per topic and broker, which is kept from one `receive` to the next. RocketMQ 5's
clients request from one broker after another instead.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.condition_check import refuse_too_old
from staticfire.client.cluster.pull_answers import packed_address
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.subscriptions import Subscription, Subscriptions
from staticfire.client.pop.acknowledging import Acknowledging, change_request
from staticfire.client.pop.popped import (
    PoppedMessage,
    PopResult,
    PopSource,
    PopStatus,
    give_plain_topic,
    read_pop,
    split_wanted,
)
from staticfire.client.pop.pops_under_way import PopsUnderWay, PopUnderWay
from staticfire.client.settings.push_settings import ConsumeFromWhere
from staticfire.client.settings.simple_settings import SimpleSettings
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import ClientError, NetworkError, StaticfireError, TopicNotFound
from staticfire.protocol.permissions import readable
from staticfire.protocol.requests.pop import (
    ALL_QUEUES,
    FROM_MAX,
    FROM_MIN,
    Notification,
    NotificationAnswer,
    PopMessage,
)
from staticfire.protocol.requests.routes import TopicRouteData
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.pending_answers import Reply
from staticfire.runtime.service import Pause, Spawn

log = logger("client")

# The maximum hold time of a pop or notification: RocketMQ's brokers don't wake them for a redelivered message, so they
# must be sent again.
HOLD_MS_MAX = 5_000
# The pause after a broker reported a message but returned none: another pop is using it, or the filter excludes it.
PAUSE_MS, PAUSE_MS_MAX = 20, 1_000


class PopTarget(NamedTuple):
    """The queues of a topic on one broker."""

    topic: str
    broker_name: str


class Wish(NamedTuple):
    """The parameters of one `receive`."""

    max_messages: int
    invisible_ms: int
    until_ms: UptimeMs


def pop_targets(topic: str, route: TopicRouteData) -> list[PopTarget]:
    """Return the brokers that a topic can be read from, sorted."""
    reachable = {broker.broker_name for broker in route.broker_datas if broker.broker_addrs}
    names = {queues.broker_name for queues in route.queue_datas if readable(queues.perm)}
    return [PopTarget(topic, name) for name in sorted(names & reachable)]


def pop_request(
    group: str, target: PopTarget, queue_id: int, wanted: Subscription, from_where: ConsumeFromWhere
) -> PopMessage:
    """Return a pop that takes no message yet and isn't held. The broker sets its start time, because clocks differ."""
    init_mode = FROM_MIN if from_where is ConsumeFromWhere.FIRST_OFFSET else FROM_MAX
    data = wanted.data
    return PopMessage(
        consumer_group=group, topic=target.topic, queue_id=queue_id, max_msg_nums=0, invisible_time=0, poll_time=0,
        born_time=0, init_mode=init_mode, exp_type=data.expression_type, exp=data.sub_string, order=False,
        bname=target.broker_name,
    )  # fmt: skip


class Receiving:
    """Receives messages for one running consumer."""

    def __init__(
        self,
        group: str,
        client: ClusterClient,
        settings: SimpleSettings,
        subscriptions: Subscriptions,
        spawn: Spawn,
        pause: Pause,
    ) -> None:
        self.acknowledging = Acknowledging(group, client, settings.ack_timeout_ms)
        self._pops = PopsUnderWay(self._hand_back)
        self._group = group
        self._client = client
        self._settings = settings
        self._wanted = subscriptions.by_topic
        self._spawn = spawn
        self._pause = pause
        self._uptime_ms = client.machine.clock.uptime_ms
        self._turn = 0
        self._watches: dict[PopTarget, asyncio.Task[bool]] = {}
        self.popped_ms: dict[str, UptimeMs] = {}
        """The time of the last pop of each topic."""
        self._failing: set[PopTarget] = set()  # Failures that were logged. Never iterated.

    async def receive(self, max_messages: int, invisible_ms: int, await_ms: int) -> list[PoppedMessage]:
        """Return messages of one topic and broker, as soon as there are some; none after the timeout.

        Raises: TopicNotFound (no topic has a route), BrokerAnswer, NetworkError (no broker can be reached).
        """
        wish = Wish(max_messages, invisible_ms, UptimeMs(self._uptime_ms() + await_ms))
        pause_ms = 0
        while True:
            began_ms = self._uptime_ms()
            targets = await self._targets()
            if len(targets) == 1:
                messages = await self._pop(targets[0], wish, min(self._left_ms(wish), HOLD_MS_MAX))
            else:
                messages = await self._pop_first(targets, wish)
                if not messages and self._left_ms(wish) > 0:
                    await self._news(targets, min(self._left_ms(wish), HOLD_MS_MAX))
                    # Brokers send no notifications for redelivered messages.
                    if self._left_ms(wish) <= 0:
                        messages = await self._pop_first(targets, wish)
            left_ms = self._left_ms(wish)
            if messages or left_ms <= 0:
                return messages
            if self._uptime_ms() - began_ms >= PAUSE_MS:
                pause_ms = 0
            else:
                await self._pause(min(pause_ms, left_ms))
                pause_ms = min(pause_ms * 2, PAUSE_MS_MAX) or PAUSE_MS

    def _left_ms(self, wish: Wish) -> int:
        return max(0, wish.until_ms - self._uptime_ms())

    async def _targets(self) -> list[PopTarget]:
        """Return the brokers to request from, starting with another one each time. Raises: TopicNotFound (no route)."""
        targets: list[PopTarget] = []
        missing = None
        for topic in list(self._wanted):
            try:
                targets += pop_targets(topic, await self._route(topic))
            except TopicNotFound as error:
                missing = error
                self._report(PopTarget(topic, ""), error)
        if not targets and missing is not None:
            raise missing
        if not targets:
            raise ClientError(f"{self._group}: {', '.join(self._wanted)} can't be read on any broker")
        self._turn = (self._turn + 1) % len(targets)
        return targets[self._turn :] + targets[: self._turn]

    async def _route(self, topic: str) -> TopicRouteData:
        routes = self._client.routes
        return await (routes.fetch(topic) if topic in routes.guessed else routes.route(topic))

    # -- messages ------------------------------------------------------------------------------------------------

    async def _pop_first(self, targets: Sequence[PopTarget], wish: Wish) -> list[PoppedMessage]:
        """Return the messages of the first broker that has any; no pop is held.

        Raises: BrokerAnswer, NetworkError, if none of them responds.
        """
        errors: list[StaticfireError] = []
        for target in targets:
            try:
                messages = await self._pop(target, wish, 0)
            except StaticfireError as error:
                self._report(target, error)
                errors.append(error)
            else:
                self._failing.discard(target)
                if messages:
                    return messages
        if len(errors) == len(targets):
            raise errors[0]
        return []

    async def _pop(self, target: PopTarget, wish: Wish, hold_ms: int) -> list[PoppedMessage]:
        """Pop from one broker, and return the wanted messages.

        Raises: BrokerAnswer, NetworkError, ClientError (the broker is too old for a condition).
        """
        wanted = self._wanted.get(target.topic)
        if wanted is None:
            return []
        terms = (target, wish.max_messages, wish.invisible_ms, wanted.data.expression_type, wanted.data.sub_string)
        pop = self._pops.find(terms)
        if pop is not None:
            answer = await self._pops.answer(pop, hold_ms)
            return [] if answer is None else self._read(target, pop.connection, answer, wanted)
        request = pop_request(self._group, target, ALL_QUEUES, wanted, self._settings.consume_from_where)
        request.max_msg_nums, request.invisible_time, request.poll_time = wish.max_messages, wish.invisible_ms, hold_ms
        connection = await self._connection(target)
        refuse_too_old(connection, wanted.data.expression_type)
        self.popped_ms[target.topic] = self._uptime_ms()
        pop = self._pops.send(connection, request, hold_ms + self._settings.hold_margin_ms, terms)
        answer = await self._pops.answer(pop)
        return [] if answer is None else self._read(target, connection, answer, wanted)

    def _read(
        self, target: PopTarget, connection: Connection, answer: Answer, wanted: Subscription
    ) -> list[PoppedMessage]:
        """Return the wanted messages of a response. Raises: BrokerAnswer."""
        result = self._result(target, connection, answer)
        if result.lost:
            log.warning("popped_without_handle", group=self._group, messages=result.lost, reason=result.reason)
        if result.status is PopStatus.POLLING_FULL:
            log.info("polling_is_full", group=self._group, topic=target.topic, broker=target.broker_name)
        if self._client.namespace.name:
            give_plain_topic(result.messages, self._client.namespace.unwrap(target.topic))
        messages, unwanted = split_wanted(result.messages, wanted.tags)
        if unwanted:
            self._spawn(self._ack_unseen(unwanted), f"unwanted of {target.topic}")
        return messages

    def _result(self, target: PopTarget, connection: Connection, answer: Answer) -> PopResult:
        source = PopSource(self._group, *target, packed_address(connection.peer.address))
        return read_pop(answer, source, self._uptime_ms())

    def _hand_back(self, pop: PopUnderWay, answer: Answer) -> None:
        """Put messages back that no `receive` gets because all were cancelled; they are redelivered at once."""
        target, connection = pop.terms[0], pop.connection
        try:
            messages = self._result(target, connection, answer).messages
            for message in messages:
                change = change_request(self._group, target.topic, message, 0)
                connection.ask_for(change, self._settings.ack_timeout_ms, _ignore)
            connection.flush()
        except StaticfireError as error:
            log.warning("not_handed_back", group=self._group, topic=target.topic, reason=str(error))
            return
        if messages:
            log.info("handed_back", group=self._group, topic=target.topic, messages=len(messages))

    async def _ack_unseen(self, unwanted: list[PoppedMessage]) -> None:
        """Acknowledge messages whose tags only have the same hash as the wanted ones."""
        try:
            await self.acknowledging.ack_all(unwanted)
        except StaticfireError as error:
            log.info("unwanted_not_acknowledged", group=self._group, messages=len(unwanted), reason=str(error))

    async def _connection(self, target: PopTarget) -> Connection:
        """Return the connection to a broker. Raises: ConnectFailed, TopicNotFound."""
        client = self._client
        try:
            address = await client.address_to_write(MessageQueue(*target, ALL_QUEUES))
            return await client.pool.connection(address)
        except NetworkError:
            client.refresh_routes()
            raise

    # -- news of messages ----------------------------------------------------------------------------------------

    async def _news(self, targets: Sequence[PopTarget], wait_ms: int) -> None:
        """Return when one of the brokers has a message, or after the timeout."""
        waiting = []
        for target in targets:
            watch = self._watches.get(target)
            if watch is None:
                watch = self._watches[target] = asyncio.ensure_future(self._notified(target))
                watch.add_done_callback(partial(self._watched, target))
            waiting.append(watch)
        until_ms = self._uptime_ms() + wait_ms
        while waiting and until_ms > self._uptime_ms():
            left_s = (until_ms - self._uptime_ms()) / 1000
            done, _ = await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
            if any(not watch.cancelled() and watch.result() for watch in done):
                return
            waiting = [watch for watch in waiting if watch not in done]

    async def _notified(self, target: PopTarget) -> bool:
        """Return whether a broker has a message for this group; False, too, if it can't be reached."""
        try:
            connection = await self._connection(target)
            request = Notification(self._group, target.topic, ALL_QUEUES, HOLD_MS_MAX, 0, bname=target.broker_name)
            answer = await connection.ask(request, HOLD_MS_MAX + self._settings.hold_margin_ms)
        except StaticfireError as error:
            self._report(target, error)
            return False
        return isinstance(answer, NotificationAnswer) and answer.has_msg

    def _watched(self, target: PopTarget, watch: "asyncio.Task[bool]") -> None:
        self._watches.pop(target, None)
        if not watch.cancelled():
            watch.exception()

    async def leave(self) -> None:
        """Stop waiting for notifications."""
        watches = list(self._watches.values())
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    def _report(self, target: PopTarget, error: StaticfireError) -> None:
        """Log a failure, once until it works again."""
        if target not in self._failing:
            self._failing.add(target)
            where = {"topic": target.topic, "broker": target.broker_name}
            log.warning("not_received_from", group=self._group, **where, reason=str(error))


def _ignore(_: Reply) -> None:
    """Do nothing: a message that isn't made visible is redelivered after its invisible time."""
