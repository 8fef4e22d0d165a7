"""What a program uses of a cluster, learnt from the journal of a run without faults. Pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from staticfire.protocol.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from staticfire.protocol.requests import journal as kinds
from staticfire.protocol.requests.journal import JournalRecord

SENDS = frozenset({"SEND_MESSAGE", "SEND_MESSAGE_V2", "SEND_BATCH_MESSAGE", "SEND_MANY"})
COMMITS = "UPDATE_CONSUMER_OFFSET"
ACKS = frozenset({"ACK_MESSAGE", "BATCH_ACK_MESSAGE"})
PULLS = frozenset({"PULL_MESSAGE", "LITE_PULL_MESSAGE"})
POPS = "POP_MESSAGE"
LOCKS = "LOCK_BATCH_MQ"
ENDS = "END_TRANSACTION"


@dataclass
class GroupUsage:
    """How a consumer group was used."""

    topics: Counter[str] = field(default_factory=Counter)
    """The deliveries from each topic."""
    commits: int = 0
    acks: int = 0
    pulls: int = 0
    pops: int = 0
    members: set[str] = field(default_factory=set)
    is_ordered: bool = False
    is_broadcasting: bool = False

    @property
    def deliveries(self) -> int:
        return sum(self.topics.values())

    @property
    def is_shared(self) -> bool:
        """Whether its members share queues among themselves, so that a further member changes who has which queue."""
        return bool(self.members) and self.pulls > 0 and not self.is_broadcasting


@dataclass
class Usage:
    """How topics and groups were used."""

    sends: Counter[str] = field(default_factory=Counter)
    """The send requests to each topic."""
    groups: dict[str, GroupUsage] = field(default_factory=dict)
    transactions: int = 0
    half_topics: set[str] = field(default_factory=set)
    brokers: tuple[str, ...] = ()

    @property
    def topics(self) -> list[str]:
        """All topics that were used, sorted."""
        consumed = {topic for group in self.groups.values() for topic in group.topics}
        return sorted({*self.sends, *consumed})

    @property
    def is_empty(self) -> bool:
        return not self.sends and not any(group.deliveries for group in self.groups.values())


def learn(events: Iterable[JournalRecord], requests: Iterable[JournalRecord], brokers: Iterable[str]) -> Usage:
    """Return what a program used."""
    usage = Usage(brokers=tuple(sorted(brokers)))
    for event in events:
        _learn_event(usage, event)
    for request in requests:
        _learn_request(usage, request)
    usage.groups = {name: group for name, group in sorted(usage.groups.items()) if group.members or group.deliveries}
    return usage


def is_plain(topic: str) -> bool:
    """Return whether a topic is one that programs choose, and not a retry, dead-letter or system topic."""
    return bool(topic) and not topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) and not is_system_topic(topic)


def is_client_id(client: str) -> bool:
    """Return whether this is a client's id, and not the address of one that hasn't sent it yet."""
    return "@" in client


def _learn_event(usage: Usage, event: JournalRecord) -> None:
    if not event.group:
        return
    group = usage.groups.setdefault(event.group, GroupUsage())
    if event.kind == kinds.DELIVERED and is_plain(event.topic):
        group.topics[event.topic] += 1
    elif event.kind == kinds.JOINED:
        group.members.add(event.client)
        group.is_broadcasting |= event.details.get("messageModel") == "BROADCASTING"


def _learn_request(usage: Usage, request: JournalRecord) -> None:
    code = request.code
    if code in SENDS:
        usage.sends.update(filter(is_plain, topics_in(request)))
        if is_plain(request.topic) and "TRAN_MSG\x01true" in str(request.fields.get("properties", "")):
            usage.half_topics.add(request.topic)
        return
    if code == ENDS:
        usage.transactions += 1
        return
    name = request.group
    if code in (LOCKS, "BATCH_ACK_MESSAGE"):
        name = name or group_in_body(request)
    if not name or name not in usage.groups:
        return
    group = usage.groups[name]
    group.commits += code == COMMITS
    group.acks += code in ACKS
    group.pulls += code in PULLS
    group.pops += code == POPS
    group.is_ordered |= code == LOCKS


def topics_in(request: JournalRecord) -> list[str]:
    """Return the topics of a send request, each once: a SEND_MANY may have messages of several."""
    body = request.details.get("body") if request.code == "SEND_MANY" else None
    named = [str(part.get("topic") or "") for part in body] if isinstance(body, list) else [request.topic]
    return list(dict.fromkeys(named))


def group_in_body(request: JournalRecord) -> str:
    """Return the group of a request that has it in its body."""
    body = request.details.get("body")
    if not isinstance(body, dict):
        return ""
    acks = body.get("acks")
    if isinstance(acks, list) and acks and isinstance(acks[0], dict):
        return str(acks[0].get("c") or acks[0].get("consumerGroup") or "")
    return str(body.get("consumerGroup") or "")
