"""Deliver messages to clients. RocketMQ: ReceiveMessageActivity, PopMessageResultFilterImpl.

Behaviour
- A receive is one pop from any queue of one broker. The broker holds it until a message arrives or its time is over.
- Messages that the client's filter excludes are acknowledged at once (brokers filter tags by hash). A message that was
  delivered as often as the group permits is moved to the dead letters instead; the broker doesn't do it.
- Messages that were popped but didn't reach the client, because it cancelled the call or disconnected, are visible
  again after a second, whether the pop was still held or the response was half written. Until the whole response has
  left, this applies to all of its messages, because RocketMQ's clients drop an incomplete response.
- A receive that its client gives up is cancelled at its broker, which would otherwise deliver the next message to it.
  RocketMQ's brokers can't cancel one: there the message is returned as above.
- Messages that are popped for a client that has left meanwhile (it terminated, was silent for too long, or has settings
  of another group) are returned in the same way, if the endpoint would hold them. Its receive gets none of them.
- A group without configuration has RocketMQ's defaults.
- A receive that arrives before its client's settings waits for them for a moment; RocketMQ's proxy refuses it.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from itertools import count
from typing import NamedTuple

from staticfire.client.cluster.subscriptions import SQL92, TAG
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.permissions import readable
from staticfire.protocol.properties import TAGS, text_property
from staticfire.protocol.requests.pop import ALL_QUEUES, FROM_MAX, CancelPop, PopAnswer, PopMessage
from staticfire.protocol.tags import TagExpression, TagExpressionError
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    Code,
    FilterExpression,
    FilterType,
    ReceiveMessageRequest,
    ReceiveMessageResponse,
    Status,
)
from staticfire.proxy.services.background import Background
from staticfire.proxy.services.callers import Caller, caller_of, version_numbers
from staticfire.proxy.services.client_settings import POLL_MS_MAX, POLL_MS_MIN, RECEIVE_BATCH_MAX, attempts_max
from staticfire.proxy.services.client_table import ClientTable, KnownClient
from staticfire.proxy.services.held_messages import INVISIBLE_MS, HeldMessage
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.names import group_of, topic_of
from staticfire.proxy.services.pb_times import millis, timestamp
from staticfire.proxy.services.receipt_work import ReceiptWork
from staticfire.proxy.services.receipts import Popped, popped_messages
from staticfire.proxy.services.received_messages import packer_of
from staticfire.proxy.services.statuses import StatusError, ok, refused, status_of
from staticfire.proxy.settings import INVISIBLE_MS_MAX
from staticfire.proxy.transport.calls import GrpcAnswer, GrpcCall, as_it_travels

# RocketMQ: minInvisibleTimeMillsForRecv.
INVISIBLE_MS_MIN = 10_000
TELLS_POLLING_TIME_FROM = (5, 0, 3)
"""Older clients don't have the code ILLEGAL_POLLING_TIME."""


class WantedMessages(NamedTuple):
    """A checked receive."""

    client: KnownClient
    attempts_max: int
    request: PopMessage
    address: str
    """The broker's."""
    tags: TagExpression | None
    """None if the broker filters by a condition."""
    is_renewed: bool
    timeout_ms: int


class PopOutcome(NamedTuple):
    """The messages of a pop that are for the client; if there are none, `status` says why."""

    messages: Sequence[Popped] = ()
    status: Status | None = None


_FOUND = as_it_travels(ReceiveMessageResponse(status=ok()))


class ReceiveCalls:
    """ReceiveMessage."""

    def __init__(
        self,
        cluster: KnownCluster,
        clients: ClientTable,
        work: ReceiptWork,
        background: Background,
        invisible_ms_min: int = INVISIBLE_MS_MIN,
    ) -> None:
        """`invisible_ms_min`: the shortest invisible time of a receive."""
        self._invisible_ms_min = invisible_ms_min
        self._cluster = cluster
        self._clients = clients
        self._work = work
        self._background = background
        self._cancel_ids = count(1)

    async def receive(self, request: ReceiveMessageRequest, call: GrpcCall) -> AsyncIterator[GrpcAnswer]:
        """Respond with a status, the messages, and the time of delivery."""
        try:
            wanted = await self._checked(request, caller_of(call))
            outcome = await self._popped(wanted)
        except Exception as error:  # noqa: BLE001 (one call of a client: its failure is its answer)
            outcome = PopOutcome(status=status_of(error))
        delivered_ms = self._cluster.client.machine.clock.wall_ms()
        delivered = as_it_travels(ReceiveMessageResponse(delivery_timestamp=timestamp(delivered_ms)))
        if not outcome.messages:
            yield ReceiveMessageResponse(status=outcome.status)
            yield delivered
            return
        has_left = False
        try:
            packer = packer_of(wanted.request.topic, wanted.address)
            for answers in packer.shares(_FOUND, outcome.messages, delivered):
                yield answers
            await call.drained()
            has_left = True
        finally:
            if not has_left:
                self._return(wanted, outcome.messages)

    # -- checks --------------------------------------------------------------------------------------------------

    async def _checked(self, request: ReceiveMessageRequest, caller: Caller) -> WantedMessages:
        """Check a receive, in RocketMQ's order. Raises: StatusError."""
        client = await self._clients.expected(caller.client_id)
        if client is None:
            words = f"client {caller.client_id} has no settings here: it must send them over Telemetry first"
            raise StatusError(Code.INTERNAL_SERVER_ERROR, words)
        poll_ms = poll_ms_of(request, client, caller)
        topic, group = topic_of(request.message_queue.topic), group_of(request.group)
        if request.auto_renew and not self._clients.consumes(caller.client_id, group):
            # Its messages would be returned while it works on them.
            words = (
                f"client {caller.client_id} has no settings of group {group} here: it must send them over Telemetry "
                "first"
            )
            raise StatusError(Code.ILLEGAL_CONSUMER_GROUP, words)
        invisible_ms = invisible_ms_of(request, self._invisible_ms_min)
        tags = tags_of(request.filter_expression)
        broker_name, address = await self._broker(topic, request.message_queue.broker.name)
        config = await self._cluster.group(group)
        pop = PopMessage(
            consumer_group=group,
            topic=topic,
            queue_id=ALL_QUEUES,
            max_msg_nums=min(max(request.batch_size, 0), RECEIVE_BATCH_MAX),
            invisible_time=invisible_ms,
            poll_time=poll_ms,
            born_time=0,
            init_mode=FROM_MAX,
            exp_type=TAG if tags is not None else SQL92,
            exp=request.filter_expression.expression or "*",
            order=config.consume_message_orderly,
            attempt_id=request.attempt_id if request.HasField("attempt_id") else None,
            bname=broker_name,
            cancel_id=next(self._cancel_ids),
            for_push=request.auto_renew or None,
        )
        timeout_ms = max(caller.remaining_ms or 0, poll_ms)
        return WantedMessages(client, attempts_max(config), pop, address, tags, request.auto_renew, timeout_ms)

    async def _broker(self, topic: str, wanted: str) -> tuple[str, str]:
        """Return name and address of the broker to pop from: the requested one, else the next.

        Raises: TopicNotFound, StatusError.
        """
        route = await self._cluster.route(topic)
        readables = [one.broker_name for one in route.queue_datas if readable(one.perm) and one.read_queue_nums > 0]
        known = [(name, at) for name in sorted(readables) if (at := self._cluster.address(name)) is not None]
        if not known:
            raise StatusError(Code.FORBIDDEN, "no readable queue")
        for name, address in known:
            if name == wanted:
                return name, address
        return known[self._cluster.turn(topic, len(known))]

    # -- pops ----------------------------------------------------------------------------------------------------

    async def _popped(self, wanted: WantedMessages) -> PopOutcome:
        """Pop, and remove the messages that aren't for the client. Raises: StaticfireError."""
        pop = self._background.start(self._pop(wanted), "a pop")
        try:
            return await asyncio.shield(pop)
        except asyncio.CancelledError:
            self._background.start(self._return_when_there(wanted, pop), "the return of a pop")
            raise

    async def _pop(self, wanted: WantedMessages) -> PopOutcome:
        request = wanted.request
        answer = await self._cluster.client.pool.ask(wanted.address, request, wanted.timeout_ms)
        if answer.code == ResponseCode.POLLING_FULL:
            return PopOutcome(status=Status(code=Code.TOO_MANY_REQUESTS, message="polling full"))
        if answer.code in (ResponseCode.POLLING_TIMEOUT, ResponseCode.PULL_NOT_FOUND):
            return PopOutcome(status=Status(code=Code.MESSAGE_NOT_FOUND, message="no new message"))
        if answer.code != ResponseCode.SUCCESS or not isinstance(answer, PopAnswer):
            return PopOutcome(status=refused(answer.code, answer.remark))
        found = popped_messages(answer, request)
        if wanted.is_renewed and not self._clients.consumes(wanted.client.client_id, request.consumer_group):
            self._return(wanted, found)
            return PopOutcome(status=Status(code=Code.MESSAGE_NOT_FOUND, message="the client has left its group"))
        kept = [message for message in found if self._is_for_client(message, wanted)]
        if not kept:
            return PopOutcome(status=Status(code=Code.MESSAGE_NOT_FOUND, message="no match message"))
        for message in kept if wanted.is_renewed else ():
            self._hold(message, wanted)
        return PopOutcome(kept)

    def _is_for_client(self, message: Popped, wanted: WantedMessages) -> bool:
        """Return whether the client gets a message. If not, acknowledge it or move it to the dead letters."""
        topic, group = wanted.request.topic, wanted.request.consumer_group
        if wanted.tags is not None and not wanted.tags.all_tags:
            tag = text_property(message.record.properties, TAGS)
            if not wanted.tags.matches(tag or None):
                done = self._work.ack(topic, group, message.receipt)
                self._background.start(done, "the acknowledgement of a message that doesn't match")
                return False
        if message.reconsume_times >= wanted.attempts_max:
            dead = self._work.bury(topic, group, message.receipt, message.message_id)
            self._background.start(dead, "a dead letter")
            return False
        return True

    def _hold(self, message: Popped, wanted: WantedMessages) -> None:
        request, uptime_ms = wanted.request, self._cluster.client.machine.clock.uptime_ms()
        held = HeldMessage(
            wanted.client.client_id, request.consumer_group, request.topic, message.message_id, message.receipt,
            uptime_ms, message.reconsume_times,
        )  # fmt: skip
        self._work.hold(held)

    # -- delivery and return -------------------------------------------------------------------------------------

    def _return(self, wanted: WantedMessages, messages: Sequence[Popped]) -> None:
        """Make messages that haven't reached the client visible again soon."""
        topic, group = wanted.request.topic, wanted.request.consumer_group
        for message in messages:
            held = self._work.take(wanted.client.client_id, group, message.receipt.place(topic), message.message_id)
            if held is None:
                again = self._work.give_back(topic, group, message.receipt)
            else:
                again = self._work.give_back_held(held)
            self._background.start(again, "the return of a message")

    async def _return_when_there(self, wanted: WantedMessages, pop: "asyncio.Task[PopOutcome]") -> None:
        """Cancel a pop that may be held at its broker, and return what it has taken already."""
        request = wanted.request
        if not pop.done():
            with suppress(StaticfireError):  # A broker that can't be reached has lost the pop with its connection.
                cancel = CancelPop(request.consumer_group, request.topic, request.cancel_id or 0)
                await self._cluster.client.pool.tell(wanted.address, cancel)
        try:
            outcome = await pop
        except StaticfireError:
            return  # No messages were popped.
        self._return(wanted, outcome.messages)


def poll_ms_of(request: ReceiveMessageRequest, client: KnownClient, caller: Caller) -> int:
    """Return for how long the broker holds a receive. Raises: StatusError (the deadline is missing or too near)."""
    remaining_ms = caller.remaining_ms
    if remaining_ms is None:
        raise StatusError(Code.INTERNAL_SERVER_ERROR, "a ReceiveMessage needs a deadline (grpc-timeout)")
    if request.HasField("long_polling_timeout"):
        poll_ms = millis(request.long_polling_timeout)
    else:
        poll_ms = remaining_ms - millis(client.settings.request_timeout) // 2
    poll_ms = min(max(poll_ms, POLL_MS_MIN), POLL_MS_MAX)
    if poll_ms <= remaining_ms:
        return poll_ms
    if remaining_ms >= POLL_MS_MIN:
        return remaining_ms
    version = version_numbers(caller.version)
    code = Code.BAD_REQUEST if version and version < TELLS_POLLING_TIME_FROM else Code.ILLEGAL_POLLING_TIME
    words = "The deadline time remaining is not enough for polling, please check network condition"
    raise StatusError(code, words)


def invisible_ms_of(request: ReceiveMessageRequest, invisible_ms_min: int) -> int:
    """Return for how long the popped messages are invisible to others. Raises: StatusError."""
    if request.auto_renew:
        return INVISIBLE_MS
    invisible_ms = millis(request.invisible_duration)
    if invisible_ms < invisible_ms_min:
        words = f"the invisibleTime is too small. min is {invisible_ms_min}"
        raise StatusError(Code.ILLEGAL_INVISIBLE_TIME, words)
    check_invisible_max(invisible_ms)
    return invisible_ms


def check_invisible_max(invisible_ms: int) -> None:
    """Check the maximum of an invisible time. Raises: StatusError."""
    if invisible_ms > INVISIBLE_MS_MAX:
        words = f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}"
        raise StatusError(Code.ILLEGAL_INVISIBLE_TIME, words)


def tags_of(expression: FilterExpression) -> TagExpression | None:
    """Return the requested tags, None for a condition. Raises: StatusError."""
    if expression.type == FilterType.SQL:
        return None
    try:
        return TagExpression.parse(expression.expression)
    except TagExpressionError as error:
        raise StatusError(Code.ILLEGAL_FILTER_EXPRESSION, f"expression format is not correct: {error}") from None
