"""Sends messages over HTTP, as a producer does.

Behaviour
- POST /topics/orders/messages `{"body": "...", "tags": "paid", "keys": ["order-42"], "properties": {...}}` sends one
  message and returns where it is stored. A topic that doesn't exist is created, where brokers do so for producers.
- At most one of "delayLevel", "delay" (a duration) and "deliverAt" (a time). "orderKey": messages with the same key go
  to the same queue, in the order of the requests. "bodyBase64" instead of "body" for bytes.
- 400 for what can't be sent, 404 for a topic that doesn't exist and isn't created.

Not done
- Transactions: a program that answers the broker's checks must be connected.
"""

from typing import Annotated

import msgspec

from staticfire.client import Message, Producer, ProducerSettings, by_hash
from staticfire.control.routes import ControlCall, Reply, Route, read_body
from staticfire.message_fields import sent_fields
from staticfire.protocol.durations import DURATION_FORMS, MOMENT_FORMS, parse_duration, parse_moment
from staticfire.protocol.errors import TopicNotFound, UsageError

GROUP = "STATICFIRE_CONTROL"
LEVEL_MAX = 18
FORMS = 'write {"body": "hello", "tags": "paid", "keys": ["order-42"], "delay": "10s"}'


class NewMessage(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a POST."""

    body: str | None = None
    body_base64: bytes | None = None
    tags: str = ""
    keys: list[str] = []
    properties: dict[str, str] = {}
    delay_level: Annotated[int, msgspec.Meta(ge=0, le=LEVEL_MAX, description="1 is 1 s, 18 is 2 h")] = 0
    delay: Annotated[str, msgspec.Meta(description=DURATION_FORMS)] | None = None
    deliver_at: Annotated[str, msgspec.Meta(description=MOMENT_FORMS)] | None = None
    order_key: str = ""

    def message(self, topic: str) -> Message:
        """Return the message. Raises: UsageError, ClientError."""
        if (self.body is None) == (self.body_base64 is None):
            raise UsageError(f"a message has a body or a bodyBase64; {FORMS}")
        body = self.body_base64 if self.body is None else self.body.encode("utf-8", "surrogatepass")
        return Message(
            topic, body or b"", self.tags, self.keys, properties=self.properties, delay_level=self.delay_level,
            delay_ms=None if self.delay is None else parse_duration(self.delay),
            deliver_ms=None if self.deliver_at is None else parse_moment(self.deliver_at), sharding_key=self.order_key,
        )  # fmt: skip


async def send(call: ControlCall) -> Reply:
    """Send one message."""
    wanted: NewMessage = read_body(call.body, NewMessage, FORMS)
    message = wanted.message(call.place["topic"])
    selector = by_hash if wanted.order_key else None
    settings = ProducerSettings(client=call.cluster.client_settings)
    async with Producer(GROUP, call.cluster.namesrv, settings) as producer:
        try:
            result = await producer.send(message, selector=selector, key=wanted.order_key or None)
        except TopicNotFound as error:
            return Reply({"error": error.remark, "code": "TOPIC_NOT_EXIST"}, 404)
    return Reply(sent_fields(result))


ROUTES = (
    Route(
        "POST", "/topics/{topic}/messages", f"send a message: {FORMS.removeprefix('write ')}", send, body=NewMessage,
        refusals={404: "there is no such topic, and brokers don't create it"},
    ),
)  # fmt: skip
