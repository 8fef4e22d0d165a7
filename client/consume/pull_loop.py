"""The pulls of one queue: one under way at a time, the next as soon as its answer is in. RocketMQ: PullMessageService,
DefaultMQPushConsumerImpl.pullMessage.

No task per queue: an answer's callback sends the next pull. Before each: a dropped queue ends it; a consumer that is
suspended, or caches more of the queue than it should, pulls later. A pull that finds nothing is held by the broker, so
a new message is here as soon as it is stored. Where RocketMQ waits (500 ms before the first pull of a queue, 50 ms
when its cache is full) this loop starts at once, and goes on as soon as half of the cache is consumed.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import MASTER_ID, address_to_read
from staticfire.client.cluster.subscriptions import Subscription, Subscriptions
from staticfire.client.consume.flow_control import FlowControl
from staticfire.client.consume.process_queue import ProcessQueue
from staticfire.client.consume.pull_answers import PullResult, PullStatus, packed_address, read_pull
from staticfire.client.consume.push_settings import PushSettings
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import (
    AnswerTimeout,
    BrokerAnswer,
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    ProtocolError,
    StaticfireError,
)
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import RETRY_TOPIC
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET, FLAG_SUBSCRIPTION, FLAG_SUSPEND, PullMessage
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("client")

BUSY_PAUSE_MS = 20
# After a broker's FLOW_CONTROL.
FORGOTTEN_CODES = (
    ResponseCode.SUBSCRIPTION_NOT_EXIST,
    ResponseCode.SUBSCRIPTION_NOT_LATEST,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    ResponseCode.TOPIC_NOT_EXIST,
)
# A broker that says so has forgotten what this consumer told it; heartbeats tell it again.


class PullContext:
    """What the pull loops of one consumer share."""

    def __init__(
        self,
        group: str,
        client: ClusterClient,
        settings: PushSettings,
        subscriptions: Subscriptions,
        offsets: OffsetStore,
        consume: Callable[[ProcessQueue, list[ReceivedMessage]], None],
        settle: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None], str], object],
    ) -> None:
        """`consume` takes pulled messages; `settle` counts what is done of them."""
        self.group = group
        self.client = client
        self.settings = settings
        self.subscriptions = subscriptions
        self.offsets = offsets
        self.consume = consume
        self.correct: Callable[[PullLoop, int], None] = lambda pulls, offset: None
        """Told the offset to go on with in a queue whose own one is illegal."""
        self.lost: Callable[[PullLoop], None] = lambda pulls: None
        """Told of a queue whose topic its broker doesn't have (any more)."""
        self.settle = settle
        self.spawn = spawn
        self.flow = FlowControl(settings)
        self.new_queue: Callable[[MessageQueue, UptimeMs], ProcessQueue] = ProcessQueue
        self.clock = client.machine.clock
        self.is_suspended = False
        self.is_over = False


class PullLoop:
    """The loop of one queue, from `pull` until its process queue is dropped or the consumer leaves."""

    def __init__(self, context: PullContext, process_queue: ProcessQueue, next_offset: int, is_retry: bool) -> None:
        """`is_retry`: the queue is of the group's retry topic, whose messages get their own topic back."""
        self.process_queue = process_queue
        self.queue = process_queue.queue
        self.next_offset = next_offset
        self._context = context
        self._is_retry = is_retry
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._broker_id = MASTER_ID
        self._full_times = 0
        settings = context.settings
        self._request = PullMessage(
            consumer_group=context.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=next_offset,
            max_msg_nums=settings.pull_batch_size,
            sys_flag=FLAG_SUSPEND,
            suspend_timeout_millis=settings.broker_suspend_max_ms,
            max_msg_bytes=settings.pull_batch_size_in_bytes,
            bname=self.queue.broker_name,
        )

    @property
    def commit_under_way(self) -> int:
        """The offset that the last pull carried, 0 for none."""
        return self._request.commit_offset or 0

    async def overtake(self) -> None:
        """Wait until the broker has worked on the last pull, which it may be holding.

        Pulls wait in one line there. So one that isn't held is answered when those before it have been looked at.
        """
        request = PullMessage(
            consumer_group=self._context.group,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=self.next_offset,
            max_msg_nums=1,
            sys_flag=0,
            sub_version=self._request.sub_version,
            bname=self.queue.broker_name,
        )
        with suppress(NetworkError, BrokerAnswer):
            await self._context.client.ask_broker(self.queue, request, self._context.settings.offset_timeout_ms)

    # -- before a pull -------------------------------------------------------------------------------------------

    def pull(self) -> None:
        """Send the next pull, or find out why not and when."""
        context, process_queue = self._context, self.process_queue
        if process_queue.dropped or context.is_over:
            return
        uptime_ms = process_queue.last_pull_ms = context.clock.uptime_ms()
        if context.is_suspended:
            self._pull_later(context.settings.suspended_pause_ms)
            return
        if not process_queue.may_pull(uptime_ms):
            self._pull_later(context.settings.pull_error_pause_ms)
            return
        reason = context.flow.fullness(process_queue)
        if reason is not None:
            self._wait_for_room(reason)
            return
        subscription = context.subscriptions.by_topic.get(self.queue.topic)
        if subscription is None:
            self._pull_later(context.settings.pull_error_pause_ms)
            return
        address = address_to_read(context.client.routes.addresses, self.queue.broker_name, self._broker_id)
        connection = context.client.pool.open_connection(address) if address is not None else None
        if connection is None:
            context.spawn(self._connect(), f"connect for {self.queue}")
            return
        self._send(connection, subscription)

    def _send(self, connection: Connection, subscription: Subscription) -> None:
        settings = self._context.settings
        request = self._request
        request.queue_offset = self.next_offset
        request.sys_flag = FLAG_SUSPEND
        request.sub_version = subscription.data.sub_version
        request.expression_type = subscription.data.expression_type
        if self._broker_id == MASTER_ID:
            request.commit_offset = self._context.offsets.ride_along(self.queue, connection)
            if request.commit_offset:
                request.sys_flag |= FLAG_COMMIT_OFFSET
        else:
            request.commit_offset = 0
        if settings.post_subscription_when_pull:
            request.sys_flag |= FLAG_SUBSCRIPTION
            request.subscription = subscription.data.sub_string
        try:
            answer = connection.ask(request, settings.pull_timeout_ms)
        except (NetworkError, ProtocolError) as error:
            self._failed(error)
            return
        answer.add_done_callback(lambda answer: self._answered(answer, connection, subscription))

    async def _connect(self) -> None:
        """Find the broker and connect, then pull."""
        client = self._context.client
        try:
            await client.pool.connection(await client.address_to_read(self.queue, self._broker_id))
        except (NetworkError, BrokerAnswer, ProtocolError) as error:
            self._failed(error)
        else:
            self.pull()

    def _wait_for_room(self, reason: str) -> None:
        self._full_times += 1
        if self._full_times % 1_000 == 1:
            log.warning("pull_waits_for_room", queue=str(self.queue), reason=reason, times=self._full_times)
        self.process_queue.room = self._look_for_room
        self._pull_later(self._context.settings.flow_control_pause_ms)

    def _look_for_room(self) -> None:
        if self._context.flow.has_room(self.process_queue):
            self.pull_now()

    def _pull_later(self, pause_ms: int) -> None:
        self._timer = self._loop.call_later(pause_ms / 1000, self.pull_now)

    def pull_now(self) -> None:
        """End a pause, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.process_queue.room = None
            self.pull()

    def stop(self) -> None:
        """Pull no more. What is under way is ignored when it comes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.process_queue.room = None

    # -- after a pull --------------------------------------------------------------------------------------------

    def _answered(self, answer: asyncio.Future[Answer], connection: Connection, subscription: Subscription) -> None:
        error = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or self.process_queue.dropped or self._context.is_over:
            return
        try:
            if error is not None:
                raise error
            if self._is_stale(subscription):
                self.pull()
                return
            host = packed_address(connection.peer.address)
            result = read_pull(answer.result(), self.queue, subscription.tags, host)
        except StaticfireError as refusal:
            self._failed(refusal)
            return
        self._broker_id = result.suggested_broker_id
        if result.status is PullStatus.OFFSET_ILLEGAL:
            log.warning("offset_illegal", queue=str(self.queue), asked=self.next_offset, next=result.next_offset)
            self.next_offset = result.next_offset
            self._context.correct(self, result.next_offset)
            return
        if result.status is PullStatus.FOUND and result.messages:
            self._found(result)
        else:
            self._passed(result.next_offset)
        if self._context.settings.pull_interval_ms and result.status is PullStatus.FOUND:
            self._pull_later(self._context.settings.pull_interval_ms)
        else:
            self.pull()

    def _is_stale(self, subscription: Subscription) -> bool:
        """Whether an answer isn't for now, so that the same is pulled again: the consumer is suspended, or wants
        something else since the pull left. The broker may have filtered by either subscription, and an answer doesn't
        say by which: what it goes past is not known to be unwanted.
        """
        context = self._context
        return context.is_suspended or context.subscriptions.by_topic.get(self.queue.topic) is not subscription

    def _found(self, result: PullResult) -> None:
        messages = result.messages
        if messages[0].queue_offset < self.next_offset:
            log.warning(
                "offsets_run_backwards", queue=str(self.queue), asked=self.next_offset, got=messages[0].queue_offset
            )
        self.next_offset = result.next_offset
        if self._is_retry:
            for message in messages:
                message.topic = message.get(RETRY_TOPIC) or message.topic
        new = self.process_queue.put(messages, result.next_offset)
        if new:
            self._context.consume(self.process_queue, new)

    def _passed(self, next_offset: int) -> None:
        """Go past messages that aren't wanted; with nothing in hand, the group has come that far."""
        self.next_offset = next_offset
        self.process_queue.advance(next_offset)
        if not self.process_queue:
            self._context.offsets.update(self.queue, next_offset)
            self._context.offsets.drained(self.queue)

    def _failed(self, error: StaticfireError) -> None:
        """Tell what went wrong and try again later."""
        if self.process_queue.dropped or self._context.is_over:
            return
        client = self._context.client
        self._context.offsets.pull_failed(self.queue)
        code = error.code if isinstance(error, BrokerAnswer) else None
        if code == ResponseCode.FLOW_CONTROL:
            self._pull_later(BUSY_PAUSE_MS)
            return
        if code in FORGOTTEN_CODES:
            client.send_heartbeats()
            if code == ResponseCode.TOPIC_NOT_EXIST:
                self._context.lost(self)
                return
        log.warning(
            "pull_failed", group=self._context.group, queue=str(self.queue), kind=kind_of(error), reason=str(error)
        )
        if isinstance(error, NetworkError):
            client.refresh_routes()
            self._broker_id = MASTER_ID
        self._pull_later(self._context.settings.pull_error_pause_ms)


def kind_of(error: StaticfireError) -> str:
    """Return how far a pull came that failed."""
    if isinstance(error, ConnectFailed):
        return "not sent"
    if isinstance(error, AnswerTimeout):
        return "no answer in time"
    if isinstance(error, ConnectionLost):
        return "connection lost"
    return "refused" if isinstance(error, BrokerAnswer) else "other"
