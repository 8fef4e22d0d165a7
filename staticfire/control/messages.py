"""Topics and messages over HTTP: list topics, read messages, and follow the life of one, without side effects.

Behaviour
- GET /topics lists topics. GET /peek/orders shows the oldest messages (?last=1: the newest); filters: ?broker=,
  ?queue=, an ?offset= to start from, ?tags=. Peeking creates no group, no offset and no member. Those with a tag are
  searched among a limited number of messages; "notes" says so if that left out some.
- GET /messages/ID shows the messages with an offset message id, a unique id or a key, each with the groups that consume
  its topic and its life; 404 if there is none. Bytes of a body that aren't UTF-8 are escaped; "bodyBase64" has them.
"""

import base64
from typing import Any

import msgspec

from staticfire.client import MessageQueue, PullConsumer, ReceivedMessage
from staticfire.client.admin.admin import FOREVER
from staticfire.client.admin.listing import list_topics, own_topics, topic_ranks
from staticfire.client.admin.peek import peek_messages
from staticfire.client.life.gathering import LifeReader
from staticfire.control.journal import QUEUE_MAX
from staticfire.control.listed import known_ranks, list_parameters, listed
from staticfire.control.routes import ControlCall, Parameter, Reply, Route, did_you_mean
from staticfire.message_fields import message_fields, standing_fields
from staticfire.protocol.durations import MOMENT_FORMS, parse_moment
from staticfire.protocol.errors import TopicNotFound, UsageError
from staticfire.protocol.names import TOOLS_GROUP

SHOWN, SHOWN_MAX, FOUND_MAX = 20, 1_000, 64


async def topics(call: ControlCall) -> Reply:
    """Return all topics, or a page of them."""
    async with call.cluster.admin() as admin:
        names = await (admin.topics() if call.query.get("all", False) else own_topics(admin))
        column = call.query.get("sort", "").lstrip("-")
        known = await topic_ranks(admin, column) if column in ("queues", "messages") else None
        ranks = {} if known is None else {column: known_ranks(known)}
        found = await listed(names, call.query, lambda some: list_topics(admin, names=some), "topic", ranks)
    return Reply({"topics": found.pop("rows"), **(found if call.query.keys() - {"all"} else {})})


async def peek(call: ControlCall) -> Reply:
    """Return messages of a topic."""
    query, topic = call.query, call.place["topic"]
    offset, is_last = query.get("offset"), query.get("last", False)
    if is_last and offset is not None:
        raise UsageError("last and offset exclude each other")
    async with call.cluster.connected() as client, PullConsumer(TOOLS_GROUP, client=client) as consumer:
        try:
            queues = await consumer.queues(topic)
        except TopicNotFound as error:
            async with call.cluster.admin() as admin:
                hint = did_you_mean(topic, await admin.topics())
            return Reply({"error": f"{error.remark}{hint}", "code": "TOPIC_NOT_EXIST"}, 404)
        chosen = _chosen(queues, query.get("broker") or None, query.get("queue"))
        messages_max, tags = query.get("max", SHOWN), query.get("tags") or "*"
        found = await peek_messages(consumer, chosen, messages_max, offset=offset, last=is_last, tags=tags)
    notes = [found.note] if found.note else []
    return Reply({"topic": topic, "messages": [shown(one) for one in found], "notes": notes})


def _chosen(queues: list[MessageQueue], broker_name: str | None, queue_id: int | None) -> list[MessageQueue]:
    """Return the selected queues. Raises: UsageError (there are none)."""
    found = [one for one in queues if broker_name in (None, one.broker_name) and queue_id in (None, one.queue_id)]
    if not found:
        known = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in queues)
        raise UsageError(f"there is no such queue; there are {known}")
    return found


async def find(call: ControlCall) -> Reply:
    """Return messages with an id or a key, and their lives."""
    query, text = call.query, call.place["id"]
    begin, end = query.get("from"), query.get("to")
    times = 0 if begin is None else parse_moment(begin), FOREVER if end is None else parse_moment(end)
    async with call.cluster.admin() as admin:
        messages = await admin.find(text, query.get("topic") or None, *times, query.get("max", SHOWN))
        reader = LifeReader(admin)
        ids = {one.message_id for one in messages} if query.get("lives", True) else set()
        lives = {message_id: await reader.life(message_id) for message_id in ids}
        if not messages and not query:
            lives = await reader.lives(text)  # It may wait for its delay, or be a half message of a transaction.
        found = [{**shown(one), "groups": standing_fields(await admin.consumption(one))} for one in messages]
    if not messages and not lives:
        return Reply({"error": f"no message has the id or key {text}", "notes": list(messages.gaps)}, 404)
    events_of = {
        message_id: [msgspec.to_builtins(event) for event in life.events] for message_id, life in lives.items()
    }
    notes = [*messages.gaps, *(note for life in lives.values() for note in life.notes)]
    return Reply({"messages": found, "lives": events_of, "notes": list(dict.fromkeys(notes))})


def shown(message: ReceivedMessage) -> dict[str, Any]:
    """Return a message ready for JSON."""
    fields = {**message_fields(message), "offsetMessageId": message.offset_message_id}
    try:
        message.body.decode()
    except UnicodeDecodeError:
        fields["bodyBase64"] = base64.b64encode(message.body).decode()
    return fields


ROUTES = (
    Route(
        "GET", "/topics", "all topics: brokers, queues, messages; ?all=1: with RocketMQ's own, retries, dead letters",
        topics,
        (
            Parameter("all", "with RocketMQ's own, retries and dead letters", "boolean"),
            *list_parameters(("topic", "queues", "messages")),
        ),
    ),
    Route(
        "GET", "/peek/{topic}", "messages of a topic, unchanged: ?max=20 &last=1 &broker= &queue= &offset= &tags=",
        peek,
        (
            Parameter("max", "how many", "integer", 1, SHOWN_MAX),
            Parameter("last", "the newest instead of the oldest", "boolean"),
            Parameter("broker", "of this broker only"),
            Parameter("queue", "of this queue only", "integer", 0, QUEUE_MAX),
            Parameter("offset", "from this queue offset on", "integer"),
            Parameter("tags", "only with these tags, like paid || refunded"),
        ),
        refusals={404: "there is no such topic"},
    ),
    Route(
        "GET", "/messages/{id}", "messages by an id or a key, which groups consumed them, and the life of each", find,
        (
            Parameter("topic", "of this topic only"),
            Parameter("from", f"stored then or later: {MOMENT_FORMS}"),
            Parameter("to", "stored then or before"),
            Parameter("max", "how many, the newest", "integer", 1, FOUND_MAX),
            Parameter("lives", "false: without their lives, each of which is one more search", "boolean"),
        ),
        refusals={404: "there is no message with that id or key"},
    ),
)  # fmt: skip
