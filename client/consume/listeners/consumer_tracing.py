"""Writes traces of consumption. RocketMQ: ConsumeMessageTraceHookImpl."""

import asyncio

from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.consume.results.hooks import ConsumeCall, ConsumeReturnType, ConsumerHook
from staticfire.client.produce.trace_writer import NULL, Traced, TraceWriter
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import KEYS, MSG_REGION, TRACE_ON
from staticfire.protocol.trace import SubAfterTrace, SubBeforeTrace
from staticfire.runtime.machine import Clock, Identity

_CODES = {kind: code for code, kind in enumerate(ConsumeReturnType)}


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
        """`namespace`: removed from names, as in RocketMQ's traces."""
        self.writer = writer
        self._plain = namespace.unwrap
        self._loop = loop
        self._clock = clock
        self._random = identity.random
        # The request ids of running calls, by the id() of the call.
        self._under_way: dict[int, str] = {}

    def before_consume(self, call: ConsumeCall) -> None:
        """Write that the listener is being called."""
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
        """Write how the call ended."""
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
        # A plain listener and its hooks run in a thread.
        traced = Traced(message.topic, (message.message_id, *message.keys), trace)
        self._loop.call_soon_threadsafe(self.writer.write, traced)


def _traced(call: ConsumeCall) -> list[ReceivedMessage]:
    return [message for message in call.messages if message.get(TRACE_ON) != "false"]
