"""Messages of a topic by the time when they were stored, over HTTP.

GET /topics/orders/messages?from=&to= returns them oldest first, without side effects; ?max= limits them, so that the
next ones are found from the last one's time on. With ?tags=, a limited number of messages is looked at; "notes" says so
if that left out some. 404 for an unknown topic.
"""

from staticfire.client import PullConsumer, PullSettings, ReceivedMessage
from staticfire.client.admin.admin import FOREVER
from staticfire.client.admin.peek import peek_messages
from staticfire.control.journal import QUEUE_MAX
from staticfire.control.messages import SHOWN, SHOWN_MAX, shown
from staticfire.control.routes import ControlCall, Parameter, Reply, Route
from staticfire.protocol.durations import MOMENT_FORMS, parse_moment
from staticfire.protocol.names import TOOLS_GROUP


async def show(call: ControlCall) -> Reply:
    """Return the messages of a topic that were stored in a range of times."""
    query, topic = call.query, call.place["topic"]
    begin_ms = parse_moment(query["from"]) if query.get("from") else 0
    end_ms = parse_moment(query["to"]) if query.get("to") else FOREVER
    messages_max, tags = query.get("max", SHOWN), query.get("tags") or "*"
    found: list[ReceivedMessage] = []
    notes: list[str] = []
    settings = PullSettings(call.cluster.client_settings)
    async with PullConsumer(TOOLS_GROUP, call.cluster.namesrv, settings) as consumer:
        for queue in await consumer.queues(topic):
            is_wanted = query.get("broker") in (None, queue.broker_name)
            if is_wanted and query.get("queue") in (None, queue.queue_id):
                start = await consumer.search_offset(queue, begin_ms)
                messages = await peek_messages(consumer, [queue], messages_max, offset=start, tags=tags)
                found += [one for one in messages if begin_ms <= one.stored_ms <= end_ms]
                notes += [f"{queue.broker_name}/{queue.queue_id}: {messages.note}"] if messages.note else []
    found.sort(key=lambda one: (one.stored_ms, one.broker_name, one.queue_id, one.queue_offset))
    return Reply({"topic": topic, "messages": [shown(one) for one in found[:messages_max]], "notes": notes})


ROUTES = (
    Route(
        "GET", "/topics/{topic}/messages", "messages of a topic by the time when they were stored: ?from= &to= &max=20",
        show,
        (
            Parameter("from", f"stored then or later, in message time: {MOMENT_FORMS}"),
            Parameter("to", "stored then or before"),
            Parameter("max", "how many, the oldest", "integer", 1, SHOWN_MAX),
            Parameter("broker", "of this broker only"),
            Parameter("queue", "of this queue only", "integer", 0, QUEUE_MAX),
            Parameter("tags", "only with these tags, like paid || refunded"),
        ),
        refusals={404: "there is no such topic"},
    ),
)  # fmt: skip
