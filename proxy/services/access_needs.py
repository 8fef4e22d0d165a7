"""What each call of a gRPC client needs, and what its metadata says about its user. Pure.

RocketMQ: DefaultAuthorizationContextBuilder, DefaultAuthenticationContextBuilder (the parts for gRPC).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from google.protobuf.message import Message

from staticfire.protocol.requests.access import NeedInfo
from staticfire.proxy.services.client_table import CONSUMER_TYPES

TOPIC, GROUP, PUB, SUB = "Topic", "Group", "Pub", "Sub"
NO_MESSAGE = "message is null."
_HEX = re.compile(r"(?:[0-9a-fA-F]{2})*")


class Presented(NamedTuple):
    """What a call's metadata says. `problem`: why it can't be read."""

    access_key: str = ""
    signed_text: str = ""
    signature: str = ""
    problem: str = ""


def presented_by(metadata: Mapping[str, str]) -> Presented:
    """Return the key and the signature in the metadata of a call.

    `authorization: MQv2-HMAC-SHA1 Credential=<key>/..., SignedHeaders=..., Signature=<hex>`; only the key and the
    signature are read, as in RocketMQ.
    """
    header, date = metadata.get("authorization", ""), metadata.get("x-mq-date-time", "")
    if not header:
        return Presented()
    if not date:
        return Presented(problem="datetime is null.")
    _, separator, items = header.partition(" ")
    if not separator:
        return Presented(problem="authentication header is incorrect.")
    access_key = signature = ""
    for item in items.split(","):
        name, separator, value = item.strip().partition("=")
        if not separator:
            return Presented(problem="authentication keyValues length is incorrect, actual length=1.")
        if name == "Credential":
            access_key = value.split("/")[0]
        elif name == "Signature":
            if _HEX.fullmatch(value) is None:
                return Presented(problem="create authentication context error.")
            signature = value
    return Presented(access_key, date, signature)


def needs_of(request: Any) -> list[NeedInfo]:
    """Return what a call needs. What has no rule needs only a valid signature."""
    find = _NEEDS.get(type(request).__name__)
    return [] if find is None else list(find(request))


def _topic(resource: Any, *actions: str) -> NeedInfo:
    return NeedInfo(TOPIC, resource.name, list(actions))


def _group(resource: Any) -> NeedInfo:
    return NeedInfo(GROUP, resource.name, [SUB])


def _route(request: Any) -> Iterator[NeedInfo]:
    yield _topic(request.topic, PUB, SUB)


def _send(request: Any) -> Iterator[NeedInfo]:
    if request.messages:
        yield _topic(request.messages[0].topic, PUB)


def _publishes(request: Any) -> Iterator[NeedInfo]:
    yield _topic(request.topic, PUB)


def _consumes(request: Any) -> Iterator[NeedInfo]:
    yield _group(request.group)
    yield _topic(request.topic, SUB)


def _receives(request: Any) -> Iterator[NeedInfo]:
    yield _group(request.group)
    yield _topic(request.message_queue.topic, SUB)


def _only_group(request: Any) -> Iterator[NeedInfo]:
    yield _group(request.group)


def _heartbeat(request: Any) -> Iterator[NeedInfo]:
    if request.client_type in CONSUMER_TYPES:
        yield _group(request.group)


def _terminated(request: Any) -> Iterator[NeedInfo]:
    if request.group.name:
        yield _group(request.group)


def _settings(request: Any) -> Iterator[NeedInfo]:
    if request.WhichOneof("command") != "settings":
        return
    settings = request.settings
    for topic in settings.publishing.topics:
        yield _topic(topic, PUB)
    if settings.WhichOneof("pub_sub") == "subscription":
        yield _group(settings.subscription.group)
        for entry in settings.subscription.subscriptions:
            yield _topic(entry.topic, SUB)


_NEEDS = {
    "QueryRouteRequest": _route,
    "SendMessageRequest": _send,
    "EndTransactionRequest": _publishes,
    "RecallMessageRequest": _publishes,
    "QueryAssignmentRequest": _consumes,
    "ReceiveMessageRequest": _receives,
    "AckMessageRequest": _consumes,
    "ForwardMessageToDeadLetterQueueRequest": _consumes,
    "ChangeInvisibleDurationRequest": _only_group,
    "HeartbeatRequest": _heartbeat,
    "NotifyClientTerminationRequest": _terminated,
    "TelemetryCommand": _settings,
}


def is_empty_send(request: Message) -> bool:
    """Return whether a send has no message: then there is nothing that could be permitted."""
    return type(request).__name__ == "SendMessageRequest" and not request.messages  # type: ignore[attr-defined]
