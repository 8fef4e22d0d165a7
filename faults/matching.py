"""The parts of a request that fault rules look at, and whether a rule matches it. Pure."""

from collections.abc import Container, Iterable, Iterator
from typing import Any

import msgspec

from staticfire.protocol.command import REQUESTS, Request
from staticfire.protocol.names import is_client
from staticfire.protocol.requests.clients import Heartbeat, HeartbeatData
from staticfire.protocol.requests.faults import FaultRule
from staticfire.protocol.requests.send import SendMany

_GROUPS = ("consumer_group", "group", "producer_group", "group_name")


class ManyPart(msgspec.Struct, gc=False, frozen=True):
    """One message of a request with many."""

    topic: str
    queue_id: int


class Subject(msgspec.Struct, gc=False, frozen=True):
    """The parts of a request that rules look at. Its response is judged by the same parts."""

    code: int
    address: str
    language: int
    client: str | None = None
    """None: the client hasn't sent its id on this connection yet."""
    broker: str | None = None
    """The name that a broker states when it sends a request to a nameserver."""
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    queue_id: int = -1
    parts: tuple[ManyPart, ...] = ()


class FaultPeer(msgspec.Struct, gc=False):
    """The peer of a connection."""

    address: str
    language: int = 0
    client: str | None = None
    broker: str | None = None

    def unknown(self) -> Subject:
        """Return the known parts of a request that was sent before there was any rule."""
        return Subject(-1, self.address, self.language, self.client, self.broker)


def subject_of(code: int, request: Request | None, peer: FaultPeer) -> Subject:
    """Return the parts of a request that rules look at; update `peer` from it. `request`: None if undecodable."""
    if request is None:
        return Subject(code, peer.address, peer.language, peer.client, peer.broker)
    body = request.body
    if isinstance(request, Heartbeat) and isinstance(body, HeartbeatData):
        peer.client = body.client_id or peer.client
        groups = [producer.group_name for producer in body.producer_data_set]
        groups += [consumer.group_name for consumer in body.consumer_data_set]
        topics = [one.topic for consumer in body.consumer_data_set for one in consumer.subscription_data_set]
        return Subject(
            code, peer.address, peer.language, peer.client, None, tuple(groups), tuple(dict.fromkeys(topics))
        )
    broker = getattr(request, "broker_name", None)
    if isinstance(broker, str):
        peer.broker = broker
    parts: tuple[ManyPart, ...] = ()
    if isinstance(request, SendMany):
        parts = tuple(ManyPart(message.topic, message.queue_id) for message in body or ())
    topics = [*_texts(request, ("topic",)), *dict.fromkeys(part.topic for part in parts), *_topics_in(body)]
    queue_id = getattr(request, "queue_id", None)
    client = peer.client or next(_texts(body, ("client_id",)), None) or next(_texts(request, ("client_id",)), None)
    groups = [*_texts(request, _GROUPS), *_texts(body, _GROUPS)]
    queue = queue_id if isinstance(queue_id, int) else -1
    return Subject(code, peer.address, peer.language, client, peer.broker, tuple(groups), tuple(topics), queue, parts)


def _texts(command: Any, names: Iterable[str]) -> Iterator[str]:
    """Yield the values of those fields that are non-empty texts."""
    for name in names:
        text = getattr(command, name, None)
        if isinstance(text, str) and text:
            yield text


def _topics_in(body: Any) -> list[str]:
    """Return the topics of queues that are locked or unlocked."""
    queues = getattr(body, "mq_set", None)
    return list(dict.fromkeys(queue.topic for queue in queues)) if isinstance(queues, list) else []


def names(code: int, word: str) -> bool:
    """Return whether a request with that code can contain a `topic`, a `group` or a `queue` that `subject_of` finds."""
    if code not in REQUESTS:
        return False
    kind = REQUESTS[code].request.command
    fields, of_body = kind.__struct_fields__, getattr(kind.body_type, "__struct_fields__", ())
    if issubclass(kind, SendMany):
        return True
    if word == "queue":
        return "queue_id" in fields
    if issubclass(kind, Heartbeat):
        return True
    if word == "topic":
        return "topic" in fields or "mq_set" in of_body
    return any(name in fields or name in of_body for name in _GROUPS)


def is_meant(rule: FaultRule, subject: Subject) -> bool:
    """Return whether a rule matches a request, or at least one of its messages."""
    if rule.parties and not any(is_party(party, subject) for party in rule.parties):
        return False
    if rule.codes and subject.code not in rule.codes:
        return False
    if rule.client and not (subject.client and is_client(subject.client, rule.client)):
        return False
    if rule.group and rule.group not in subject.groups:
        return False
    if rule.address and not is_address(subject.address, rule.address):
        return False
    if rule.language >= 0 and subject.language != rule.language:
        return False
    if subject.parts:
        return any(is_meant_of(rule, part.topic, part.queue_id) for part in subject.parts)
    return (not rule.topic or rule.topic in subject.topics) and rule.queue_id in (-1, subject.queue_id)


def is_meant_of(rule: FaultRule, topic: str, queue_id: int) -> bool:
    """Return whether a rule matches a message. The rule already matches the request that contains the message."""
    return rule.topic in ("", topic) and rule.queue_id in (-1, queue_id)


def may_touch(rule: FaultRule, group: str, topics: Container[str], clients: Iterable[str]) -> bool:
    """Return whether a rule may affect a group: if it is about its requests, topics or members, or about all."""
    ids = list(clients)
    return (
        rule.group in ("", group)
        and (not rule.topic or rule.topic in topics)
        and (not rule.client or any(is_client(one, rule.client) for one in ids))
        and (not rule.parties or any(is_client(one, party) for one in ids for party in rule.parties))
    )


def is_address(address: str, wanted: str) -> bool:
    """Return whether an address matches, by host:port or by its host alone."""
    return address == wanted or address.rpartition(":")[0].strip("[]") == wanted.strip("[]")


def is_party(party: str, subject: Subject) -> bool:
    """Return whether the sender of a request is the given party of a partition."""
    return (
        party == subject.broker
        or is_address(subject.address, party)
        or (subject.client is not None and is_client(subject.client, party))
    )
