"""Writes traces of a producer's messages. RocketMQ: SendMessageTraceHookImpl and its siblings."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.routes import address_to_write
from staticfire.client.produce.send_result import SendResult, SendStatus
from staticfire.client.produce.trace_writer import NULL, Traced, TraceWriter
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.messages import Message, ReceivedMessage
from staticfire.protocol.properties import MSG_REGION, TRAN_MSG
from staticfire.protocol.recall_handle import decode_handle
from staticfire.protocol.requests.recall import RecallAnswer, RecallMessage
from staticfire.protocol.times import MessageMs
from staticfire.protocol.trace import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    TracedType,
)
from staticfire.runtime.machine import Clock
from staticfire.runtime.service import Spawn


class ProducerTracing:
    """Writes a Pub trace for each message that was stored."""

    def __init__(self, writer: TraceWriter, group: str, clock: Clock, address_of: Callable[[str], str]) -> None:
        """`address_of`: returns a broker's address, by its name."""
        self.writer = writer
        self._group = group
        self._clock = clock
        self._address_of = address_of

    def follow(self, message: Message, future: "asyncio.Future[SendResult]", is_ordered: bool = False) -> None:
        """Write a trace when the message is settled. A send that failed isn't traced, as in RocketMQ."""
        began_ms = self._clock.wall_ms()
        future.add_done_callback(lambda settled: self._settled(message, settled, began_ms, is_ordered))

    def _settled(
        self, message: Message, future: "asyncio.Future[SendResult]", began_ms: MessageMs, is_ordered: bool
    ) -> None:
        if not future.cancelled() and future.exception() is None:
            self.sent(message, future.result(), began_ms, is_ordered)

    def sent(self, message: Message, result: SendResult, began_ms: MessageMs, is_ordered: bool = False) -> None:
        """Write the trace of a stored message."""
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
        """Write traces of those messages that were stored."""
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, SendResult):
                self.sent(message, outcome, began_ms)

    def ended(self, message: Message | ReceivedMessage, result_id: str, state: str, from_check: bool) -> None:
        """Write the trace of the end of a transaction."""
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
        """Write the trace of a recall, successful or not. RocketMQ: DefaultRecallMessageTraceHook, off by default."""
        message_id = decode_handle(request.recall_handle).unique_id
        region = (answer.region if isinstance(answer, RecallAnswer) else None) or "DefaultRegion"
        is_done = answer.code == SUCCESS
        trace = RecallTrace(self._clock.wall_ms(), region, self._group, request.topic, message_id, is_done)
        self.writer.write(Traced(request.topic, (message_id,), trace))


def trace_producer(client: ClusterClient, group: str, topic: str, spawn: Spawn) -> ProducerTracing:
    """Start to trace what a producer sends."""
    writer = TraceWriter(client, f"{group}-PRODUCE-1", topic)
    writer.start(spawn)

    def address_of(broker_name: str) -> str:
        return address_to_write(client.routes.addresses, broker_name) or ""

    return ProducerTracing(writer, group, client.machine.clock, address_of)


def kind_of(message: Message, is_ordered: bool) -> int:
    """Return the type of a message for its trace."""
    if TRAN_MSG in message.system_properties:
        return int(TracedType.HALF)
    if message.delay_level or message.delay_ms is not None or message.deliver_ms is not None:
        return int(TracedType.DELAY)
    return int(TracedType.ORDER if is_ordered else TracedType.NORMAL)
