"""What a rule sees of a request, and whether it means it. Pure."""

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
    """One message of a request that has many."""

    topic: str
    queue_id: int


class Subject(msgspec.Struct, gc=False, frozen=True):
    """A request, as far as rules look at it; its answer is judged by the same."""

    code: int
    address: str
    language: int
    client: str | None = None
    """None: its connection has told none yet."""
    broker: str | None = None
    """Whom a broker says that it is, when it asks a nameserver."""
    groups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    queue_id: int = -1
    parts: tuple[ManyPart, ...] = ()


class Asker(msgspec.Struct, gc=False):
    """Who is on the other side of a connection."""

    address: str
    language: int = 0
    client: str | None = None
    broker: str | None = None

    def unknown(self) -> Subject:
        """Return what can be said of something that this side was asked before anybody looked."""
        return Subject(-1, self.address, self.language, self.client, self.broker)


def subject_of(code: int, request: Request | None, asker: Asker) -> Subject:
    """Return what rules look at. Takes in who the asker says it is. `request`: None for one that can't be read."""
    if request is None:
        return Subject(code, asker.address, asker.language, asker.client, asker.broker)
    body = request.body
    if isinstance(request, Heartbeat) and isinstance(body, HeartbeatData):
        asker.client = body.client_id or asker.client
        groups = [producer.group_name for producer in body.producer_data_set]
        groups += [consumer.group_name for consumer in body.consumer_data_set]
        topics = [one.topic for consumer in body.consumer_data_set for one in consumer.subscription_data_set]
        return Subject(
            code, asker.address, asker.language, asker.client, None, tuple(groups), tuple(dict.fromkeys(topics))
        )
    broker = getattr(request, "broker_name", None)
    if isinstance(broker, str):
        asker.broker = broker
    parts: tuple[ManyPart, ...] = ()
    if isinstance(request, SendMany):
        parts = tuple(ManyPart(message.topic, message.queue_id) for message in body or ())
    topics = [*_texts(request, ("topic",)), *dict.fromkeys(part.topic for part in parts), *_topics_in(body)]
    queue_id = getattr(request, "queue_id", None)
    client = asker.client or next(_texts(body, ("client_id",)), None) or next(_texts(request, ("client_id",)), None)
    groups = [*_texts(request, _GROUPS), *_texts(body, _GROUPS)]
    queue = queue_id if isinstance(queue_id, int) else -1
    return Subject(
        code, asker.address, asker.language, client, asker.broker, tuple(groups), tuple(topics), queue, parts
    )


def _texts(command: Any, names: Iterable[str]) -> Iterator[str]:
    """Yield those fields that are texts."""
    for name in names:
        text = getattr(command, name, None)
        if isinstance(text, str) and text:
            yield text


def _topics_in(body: Any) -> list[str]:
    """Return the topics of queues that are locked or given back."""
    queues = getattr(body, "mq_set", None)
    return list(dict.fromkeys(queue.topic for queue in queues)) if isinstance(queues, list) else []


def names(code: int, word: str) -> bool:
    """Tell whether a request of that code can say a `topic`, a `group` or a `queue`, for `subject_of` to find."""
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
    """Tell whether a rule is about a request, or at least about one of its messages."""
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
    """Tell whether a rule is about a message, when it is about the request that brings it."""
    return rule.topic in ("", topic) and rule.queue_id in (-1, queue_id)


def may_touch(rule: FaultRule, group: str, topics: Container[str], clients: Iterable[str]) -> bool:
    """Tell whether a group may feel a rule: one about its requests, its topics or members, or about everybody."""
    ids = list(clients)
    return (
        rule.group in ("", group)
        and (not rule.topic or rule.topic in topics)
        and (not rule.client or any(is_client(one, rule.client) for one in ids))
        and (not rule.parties or any(is_client(one, party) for one in ids for party in rule.parties))
    )


def is_address(address: str, wanted: str) -> bool:
    """Tell whether an address is meant: by host:port, or by its host."""
    return address == wanted or address.rpartition(":")[0].strip("[]") == wanted.strip("[]")


def is_party(party: str, subject: Subject) -> bool:
    """Tell whether who asks is on the other side of a partition."""
    return (
        party == subject.broker
        or is_address(subject.address, party)
        or (subject.client is not None and is_client(subject.client, party))
    )
