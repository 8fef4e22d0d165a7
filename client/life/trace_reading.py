"""The life of one message according to its traces. RocketMQ: QueryMsgTraceByIdSubCommand.

It also works for traces of RocketMQ's own clients: the format is the same.
"""

from typing import NamedTuple

import msgspec

from staticfire.client.admin.admin import FOREVER, Admin
from staticfire.protocol.names import TRACE_TOPIC
from staticfire.protocol.trace import (
    EndTransactionTrace,
    PubTrace,
    RecallTrace,
    SubAfterTrace,
    SubBeforeTrace,
    Trace,
    decode_traces,
)


class TraceEvent(msgspec.Struct, frozen=True):
    """One event in the life of a message."""

    time_ms: int
    what: str
    """One of: sent, consumed, being consumed, transaction ended, recalled."""
    group: str
    success: bool | None
    """None: unknown, or not known yet."""
    cost_ms: int | None = None
    words: str = ""
    retry_times: int = 0
    """For consumption: how often the message had been redelivered."""


class MessageTraceEvent(NamedTuple):
    """One event of the message with an id. The topic is empty if the trace doesn't say it."""

    message_id: str
    topic: str
    event: TraceEvent


def events_by_message(traces: list[Trace]) -> list[MessageTraceEvent]:
    """Return the events of several messages, oldest first. A batch of messages has one event for each of them."""
    topics = {one.message_id: one.topic for one in traces if not isinstance(one, SubBeforeTrace | SubAfterTrace)}
    ends = {(one.request_id, one.message_id): one for one in traces if isinstance(one, SubAfterTrace)}
    found = [
        MessageTraceEvent(message_id, topics.get(one.message_id, ""), _event(one, ends))
        for one in traces
        if not isinstance(one, SubAfterTrace)
        for message_id in one.message_id.split(",")
    ]
    return sorted(found, key=lambda one: one.event.time_ms)


async def read_traces(admin: Admin, message_id: str, topic: str = TRACE_TOPIC, messages_max: int = 64) -> list[Trace]:
    """Return the traces of a message, or of all with a key. Raises: TopicNotFound (none are written), NetworkError."""
    found = await admin.find(message_id, topic, 0, FOREVER, messages_max)
    traces = [trace for message in found for trace in decode_traces(message.body.decode("utf-8", "replace"))]
    return [trace for trace in traces if message_id in (*trace.message_id.split(","), *_keys(trace))]


def _keys(trace: Trace) -> list[str]:
    return [] if isinstance(trace, RecallTrace) else trace.keys.split()


def events_of(traces: list[Trace]) -> list[TraceEvent]:
    """Return the events, oldest first. Begin and end of a listener's call are one event."""
    ends = {(one.request_id, one.message_id): one for one in traces if isinstance(one, SubAfterTrace)}
    events = [_event(one, ends) for one in traces if not isinstance(one, SubAfterTrace)]
    return sorted(events, key=lambda event: event.time_ms)


def _event(trace: Trace, ends: dict[tuple[str, str], SubAfterTrace]) -> TraceEvent:
    if isinstance(trace, PubTrace):
        words = f"to {trace.topic} at {trace.store_host}, {trace.body_bytes} bytes"
        return TraceEvent(trace.time_ms, "sent", trace.group, trace.success, trace.cost_ms, words)
    if isinstance(trace, SubBeforeTrace):
        end = ends.get((trace.request_id, trace.message_id))
        words = f"retry {trace.retry_times}" if trace.retry_times else ""
        what, success, cost_ms = (
            ("being consumed", None, None) if end is None else ("consumed", end.success, end.cost_ms)
        )
        return TraceEvent(trace.time_ms, what, trace.group, success, cost_ms, words, trace.retry_times)
    if isinstance(trace, EndTransactionTrace):
        note = "checked by the broker" if trace.from_check else ""
        return TraceEvent(trace.time_ms, f"transaction: {trace.state}", trace.group, True, None, note)
    assert isinstance(trace, RecallTrace)
    return TraceEvent(trace.time_ms, "recalled", trace.group, trace.success)
