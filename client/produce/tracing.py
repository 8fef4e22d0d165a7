"""What a producer and a consumer write of their messages. RocketMQ: SendMessageTraceHookImpl and its siblings."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.routes import address_to_write
from staticfire.client.consume.results.hooks import ConsumeCall, ConsumeReturnType, ConsumerHook
from staticfire.client.produce.send_result import SendResult, SendStatus
from staticfire.client.produce.trace_writer import Traced, TraceWriter
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.messages import Message, ReceivedMessage
from staticfire.protocol.properties import KEYS, MSG_REGION, TRACE_ON, TRAN_MSG
from staticfire.protocol.recall_handle import decode_handle
from staticfire.protocol.requests.recall import RecallAnswer, RecallMessage
from staticfire.protocol.times import MessageMs
from staticfire.protocol.trace import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TracedType,
)
from staticfire.runtime.machine import Clock, Identity
from staticfire.runtime.service import Spawn

_CODES = {kind: code for code, kind in enumerate(ConsumeReturnType)}
NULL = "null"
# What RocketMQ writes where there is nothing.


class ProducerTracing:
    """Writes a Pub for each message that was stored."""

    def __init__(self, writer: TraceWriter, group: str, clock: Clock, address_of: Callable[[str], str]) -> None:
        """`address_of`: where a broker is, by its name."""
        self.writer = writer
        self._group = group
        self._clock = clock
        self._address_of = address_of

    def follow(self, message: Message, future: "asyncio.Future[SendResult]", is_ordered: bool = False) -> None:
        """Write of a message when it is settled. A send that failed isn't traced, as in RocketMQ."""
        began_ms = self._clock.wall_ms()
        future.add_done_callback(lambda settled: self._settled(message, settled, began_ms, is_ordered))

    def _settled(
        self, message: Message, future: "asyncio.Future[SendResult]", began_ms: MessageMs, is_ordered: bool
    ) -> None:
        if not future.cancelled() and future.exception() is None:
            self.sent(message, future.result(), began_ms, is_ordered)

    def sent(self, message: Message, result: SendResult, began_ms: MessageMs, is_ordered: bool = False) -> None:
        """Write of a message that was stored."""
        details = result.details
        if not details.trace_on or message.topic == self.writer.topic:
            return
        keys = " ".join(message.keys) or NULL
        trace = PubTrace(
            began_ms, details.region_id, self._group, message.topic, result.message_id, message.tags or NULL, keys,
            self._address_of(result.queue.broker_name), len(message.body), self._clock.wall_ms() - began_ms,
            kind_of(message, is_ordered), result.offset_message_id, result.status is SendStatus.SEND_OK,
        )  # fmt: skip
        self.writer.write(Traced(message.topic, (*result.message_id.split(","), *message.keys), trace))

    def all_sent(
        self, messages: Iterable[Message], outcomes: Sequence[SendResult | Exception], began_ms: MessageMs
    ) -> None:
        """Write of those of many messages that were stored."""
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, SendResult):
                self.sent(message, outcome, began_ms)

    def ended(self, message: Message | ReceivedMessage, result_id: str, state: str, from_check: bool) -> None:
        """Write of the end of a transaction."""
        region, host = "DefaultRegion", ""
        if isinstance(message, ReceivedMessage):
            region, host = message.get(MSG_REGION) or region, message.store_host
        keys = " ".join(message.keys) or NULL
        trace = EndTransactionTrace(
            self._clock.wall_ms(), region, self._group, message.topic, result_id, message.tags or NULL, keys,
            host, int(TracedType.COMMIT), result_id, state, from_check,
        )  # fmt: skip
        self.writer.write(Traced(message.topic, (result_id, *message.keys), trace))

    def recalled(self, request: RecallMessage, answer: Answer) -> None:
        """Write of a recall, in vain or not. RocketMQ: DefaultRecallMessageTraceHook, off unless allowed."""
        message_id = decode_handle(request.recall_handle).unique_id
        region = (answer.region if isinstance(answer, RecallAnswer) else None) or "DefaultRegion"
        is_done = answer.code == SUCCESS
        trace = RecallTrace(self._clock.wall_ms(), region, self._group, request.topic, message_id, is_done)
        self.writer.write(Traced(request.topic, (message_id,), trace))


def trace_producer(client: ClusterClient, group: str, topic: str, spawn: Spawn) -> ProducerTracing:
    """Begin to write what a producer sends."""
    writer = TraceWriter(client, f"{group}-PRODUCE-1", topic)
    writer.start(spawn)

    def address_of(broker_name: str) -> str:
        return address_to_write(client.routes.addresses, broker_name) or ""

    return ProducerTracing(writer, group, client.machine.clock, address_of)


def kind_of(message: Message, is_ordered: bool) -> int:
    """Return what kind of message is sent."""
    if TRAN_MSG in message.system_properties:
        return int(TracedType.HALF)
    if message.delay_level or message.delay_ms is not None or message.deliver_ms is not None:
        return int(TracedType.DELAY)
    return int(TracedType.ORDER if is_ordered else TracedType.NORMAL)


class ConsumerTracing(ConsumerHook):
    """Writes a SubBefore and a SubAfter for each message of a listener's call."""

    def __init__(
        self,
        writer: TraceWriter,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        identity: Identity,
        namespace: Namespace,
    ) -> None:
        """`namespace`: traces have plain names, as RocketMQ's."""
        self.writer = writer
        self._plain = namespace.unwrap
        self._loop = loop
        self._clock = clock
        self._random = identity.random
        self._under_way: dict[int, str] = {}
        # Request ids, by the call.

    def before_consume(self, call: ConsumeCall) -> None:
        """Write that a listener is called."""
        messages = _traced(call)
        if not messages:
            return
        request_id = self._under_way[id(call)] = f"{self._random.getrandbits(128):032X}"
        now_ms, region = self._clock.wall_ms(), messages[-1].get(MSG_REGION) or "DefaultRegion"
        for message in messages:
            trace = SubBeforeTrace(
                now_ms, region, self._plain(call.group), request_id, message.message_id, message.reconsume_times,
                message.get(KEYS) or NULL,
            )  # fmt: skip
            self._write(message, trace)

    def after_consume(self, call: ConsumeCall) -> None:
        """Write how it ended."""
        request_id = self._under_way.pop(id(call), None)
        messages = _traced(call)
        if request_id is None or not messages:
            return
        cost_ms, now_ms = call.took_ms // len(messages), self._clock.wall_ms()
        code = _CODES.get(call.outcome, 0) if call.outcome is not None else 0
        for message in messages:
            trace = SubAfterTrace(
                request_id, message.message_id, cost_ms, call.is_success, message.get(KEYS) or NULL, code, now_ms,
                self._plain(call.group),
            )  # fmt: skip
            self._write(message, trace)

    def _write(self, message: ReceivedMessage, trace: SubBeforeTrace | SubAfterTrace) -> None:
        # A plain listener, and what is around it, runs in a thread.
        traced = Traced(message.topic, (message.message_id, *message.keys), trace)
        self._loop.call_soon_threadsafe(self.writer.write, traced)


def _traced(call: ConsumeCall) -> list[ReceivedMessage]:
    return [message for message in call.messages if message.get(TRACE_ON) != "false"]
