"""Traces over HTTP: which client sent or consumed which message, as producers and consumers record it themselves.

GET /traces returns the newest events; ?id=... those of a message, by an id or a key; ?topic= another trace topic. Works
with traces of RocketMQ's clients, too. Without a trace topic there are none.
"""

import asyncio
from typing import Any

from staticfire.client import Admin, PullConsumer, ReceivedMessage
from staticfire.client.admin.peek import peek_messages
from staticfire.client.life.trace_reading import events_by_message, read_traces
from staticfire.control.routes import ControlCall, Parameter, Reply, Route
from staticfire.protocol.errors import TopicNotFound
from staticfire.protocol.names import TOOLS_GROUP, TRACE_TOPIC
from staticfire.protocol.trace import Trace, decode_traces

SHOWN, SHOWN_MAX = 100, 1_000
# A trace message has many events, or only one.
MESSAGES_READ = 100


async def show(call: ControlCall) -> Reply:
    """Return the newest events, or those of a message."""
    query = call.query
    topic, text = query.get("topic") or TRACE_TOPIC, query.get("id", "").strip()
    async with call.cluster.connected() as client, Admin(client=client) as admin:
        try:
            if text:
                traces = await read_traces(admin, text, topic)
            else:
                async with PullConsumer(TOOLS_GROUP, client=client) as consumer:
                    traces = await _newest(consumer, topic)
        except TopicNotFound:
            return Reply({"topic": topic, "exists": False, "events": []})
    events = [
        {"messageId": one.message_id, "topic": one.topic, **_fields(one.event)} for one in events_by_message(traces)
    ]
    return Reply({"topic": topic, "exists": True, "events": events[-query.get("max", SHOWN) :]})


async def _newest(consumer: PullConsumer, topic: str) -> list[Trace]:
    """Return what the newest messages of a trace topic contain. Raises: TopicNotFound, NetworkError."""
    queues = await consumer.queues(topic)
    parts = await asyncio.gather(*(peek_messages(consumer, [one], MESSAGES_READ, last=True) for one in queues))
    found: list[ReceivedMessage] = sorted((one for part in parts for one in part), key=lambda one: one.stored_ms)
    newest = found[-MESSAGES_READ:]
    return [trace for message in newest for trace in decode_traces(message.body.decode("utf-8", "replace"))]


def _fields(event: Any) -> dict[str, Any]:
    return {
        "timeMs": event.time_ms, "what": event.what, "group": event.group, "success": event.success,
        "costMs": event.cost_ms, "words": event.words, "retryTimes": event.retry_times,
    }  # fmt: skip


ROUTES = (
    Route(
        "GET", "/traces", "what clients trace: sent, consumed, committed; ?id=: of one message", show,
        (
            Parameter("id", "of a message: an id or a key"),
            Parameter("topic", f"the topic of traces, if it isn't {TRACE_TOPIC}"),
            Parameter("max", "how many events, the newest", "integer", 1, SHOWN_MAX),
        ),
    ),
)  # fmt: skip
