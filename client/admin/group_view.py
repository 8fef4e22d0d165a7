"""The state of a consumer group: its members, their queues, its progress, its problems. Pure.

Staticfire's brokers report problems as findings. With other brokers, some are derived from what the members report.
Silent and waiting members are always found here; so are queues with no owner or several, unless the group is
BROADCASTING or a member is silent.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.lag import lag_of
from staticfire.protocol.names import pop_retry_topic, requested_topic, retry_topic
from staticfire.protocol.pop_handles import RETRY, RETRY_V2
from staticfire.protocol.requests.connections import CONSUME_TYPE, LAST_POLL, ConsumerRunningInfo, TopicConsumption
from staticfire.protocol.requests.journal import GOODBYE, JOINED, LEFT, JournalRecord

# How far back to look for members that keep joining and leaving.
FLAPPING_MS = 600_000
# A client with more joins than this in that time is reported; for a host, this many leaves per member.
FLAPPING_TIMES = 3
NAMED_MAX = 4
ACTIVELY = "CONSUME_ACTIVELY"


class HeldQueue(msgspec.Struct, rename="camel", frozen=True):
    """What a member reports about one of its queues."""

    topic: str
    broker_name: str
    queue_id: int
    commit_offset: int
    cached: int
    """Messages that the member holds and that aren't done."""
    locked: bool
    last_pull_ms: int
    read_at: int = 0
    """The id of the slave that the member pulls it from; 0 for the master, or if the member doesn't report it."""
    popped: bool = False
    """Whether it is popped: other members may have it, too, and a queue id below 0 means all queues of the broker."""

    @property
    def queue(self) -> MessageQueue:
        """The queue."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    def covers(self, queue: MessageQueue, group: str) -> bool:
        """Whether the member gets messages of a queue by this one; if it pops, that includes retries."""
        if self.queue == queue:
            return True
        if not self.popped or self.broker_name != queue.broker_name:
            return False
        if queue.topic in (pop_retry_topic(self.topic, group, version) for version in (RETRY, RETRY_V2)):
            return True
        return self.topic == queue.topic and self.queue_id < 0


class GroupMember(msgspec.Struct, rename="camel"):
    """One member of a group."""

    client_id: str
    address: str
    language: str
    version: str
    started_ms: int = 0
    polls: bool = False
    """Whether it is a lite pull consumer, which has no listener."""
    last_poll_ms: int = 0
    """When it last polled, by its wall clock; 0 if unknown."""
    in_order: bool | None = None
    """Whether its listener is ordered; None if unknown."""
    counts: bool = True
    """Whether it gets a share of the queues; a protected group lets new members wait."""
    subscriptions: dict[str, str] = {}
    """Its subscriptions: expressions by topic."""
    queues: list[HeldQueue] = []
    consumption: dict[str, TopicConsumption] = {}
    """How fast it is, by topic."""
    silence: str = ""
    """Why it didn't report its state."""
    access_key: str = ""
    """The access key of its requests, if it uses one."""
    expression_types: dict[str, str] = {}
    """The types of its subscriptions' expressions by topic: TAG or SQL92; empty if the member doesn't report it."""

    def tell(self, info: ConsumerRunningInfo) -> None:
        """Add the member's running info."""
        self.started_ms = _moment(info, "PROP_CONSUMER_START_TIMESTAMP")
        self.last_poll_ms = _moment(info, LAST_POLL)
        self.version = info.properties.get("PROP_CLIENT_VERSION") or self.version
        order = info.properties.get("PROP_CONSUMEORDERLY")
        if order is not None:
            self.in_order = order == "true"
        self.subscriptions = {one.topic: one.sub_string for one in info.subscription_set}
        self.expression_types = {one.topic: one.expression_type for one in info.subscription_set}
        popped = [
            HeldQueue(
                queue.topic, queue.broker_name, queue.queue_id, -1, held.wait_ack_count, False, held.last_pop_timestamp,
                popped=True,
            )
            for queue, held in info.mq_pop_table.items()
            if not held.droped
        ]  # fmt: skip
        pulled = (
                HeldQueue(
                    queue.topic, queue.broker_name, queue.queue_id, held.commit_offset, held.cached_msg_count,
                    held.locked, held.last_pull_timestamp, held.read_at or 0,
                )
                for queue, held in info.mq_table.items()
                if not held.droped
            )  # fmt: skip
        self.queues = sorted([*pulled, *popped], key=lambda held: held.queue)
        self.polls = info.properties.get(CONSUME_TYPE) == ACTIVELY and not popped
        self.consumption = dict(sorted(info.status_table.items()))


def _moment(info: ConsumerRunningInfo, name: str) -> int:
    text = info.properties.get(name, "")
    return int(text) if text.isdecimal() and text.isascii() else 0


class QueueProgress(msgspec.Struct, rename="camel", frozen=True):
    """A group's progress in a queue."""

    topic: str
    broker_name: str
    queue_id: int
    committed: int
    end: int
    inflight: int
    """Messages that were pulled and aren't committed, or popped and aren't acknowledged."""
    consumed_to_ms: int
    """The store time of the last consumed message; 0 if there is none."""
    owners: list[str]
    """The members that have the queue; in a clustering group that should be one, unless it is popped."""
    popped: bool = False
    unacknowledged: int = 0
    """Messages that were popped and aren't acknowledged; `committed` is past them. RocketMQ's brokers report none."""
    working_from: int = -1
    """The offset of the first of them that a member may still work on; -1 if all have failed, or there are none."""
    has_begun: bool = True
    """False: the group subscribes to the topic, but has committed nothing there yet."""
    reported: int = -1
    """The next offset that the group needs, as its members report it: newer than `committed`. -1: unknown."""
    first: int = 0
    """The first offset that is still stored, if the group lags."""

    @property
    def queue(self) -> MessageQueue:
        """The queue."""
        return MessageQueue(self.topic, self.broker_name, self.queue_id)

    @property
    def lag(self) -> int:
        """The number of messages that the group lags, including those popped and not acknowledged."""
        return lag_of(self.end, max(self.committed, self.reported), self.first, self.unacknowledged)


class GroupWarning(msgspec.Struct, frozen=True):
    """A problem that a user should look at."""

    kind: str
    words: str


class GroupView(msgspec.Struct, rename="camel"):
    """The state of a group."""

    group: str
    brokers: list[str]
    """The brokers that were queried."""
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    topics: list[str] = []
    """The group's subscribed topics, as brokers have them; including those of members that don't respond."""
    consume_tps: float = 0.0
    """Messages per second that brokers delivered in the last minute."""
    dead_letters: int = 0
    members: list[GroupMember] = []
    progress: list[QueueProgress] = []
    warnings: list[GroupWarning] = []

    @property
    def lag(self) -> int:
        """The number of messages that the group lags, over all queues."""
        return sum(queue.lag for queue in self.progress)

    def as_json(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        shown: dict[str, Any] = msgspec.to_builtins(self)
        shown["lag"] = self.lag
        for queue, progress in zip(shown["progress"], self.progress, strict=True):
            queue["lag"] = progress.lag
        return shown


def warnings_of(view: GroupView, findings: Mapping[tuple[str, str], str] | None) -> list[GroupWarning]:
    """Return the problems of a group.

    `findings`: brokers' findings, by kind and subject; None if no broker looks for any.
    """
    found = [GroupWarning(kind, words) for (kind, _), words in sorted((findings or {}).items())]
    if findings is None:
        found = [*_mixed_listeners(view.members), *_different_subscriptions(view.group, view.members)]
    silent = [f"{member.client_id}: {member.silence}" for member in view.members if member.silence]
    found += [GroupWarning("SILENT_MEMBER", words) for words in silent]
    waiting = [member.client_id for member in view.members if not member.counts]
    if waiting:
        words = f"{_named(waiting)}: not stable for long enough to get queues (the group's stableTimeMs)"
        found.append(GroupWarning("WAITING_MEMBER", words))
    if view.message_model != "BROADCASTING" and not silent:
        found += _owners(view)
    return found


def _owners(view: GroupView) -> Iterable[GroupWarning]:
    """Look for queues without an owner, or with several. Right after a rebalance this can occur for a moment."""
    if not view.members:
        return
    nobody = [
        one
        for one in view.progress
        if not one.owners and one.has_begun and (one.lag or not _comes_again(one.topic, view.group))
    ]
    if nobody:
        yield GroupWarning("QUEUES_WITHOUT_OWNER", f"{_places(nobody)}: no member has it")
    several = [queue for queue in view.progress if len(queue.owners) > 1 and not queue.popped]
    if several:
        yield GroupWarning("QUEUES_WITH_SEVERAL_OWNERS", f"several members have {_places(several)}")


def _comes_again(topic: str, group: str) -> bool:
    """Whether a topic is a POP retry topic: members that pull need it only for messages popped before."""
    return requested_topic(topic, group) != topic


def _places(queues: Sequence[QueueProgress]) -> str:
    return _named([str(one.queue) for one in queues])


def _mixed_listeners(members: Sequence[GroupMember]) -> Iterable[GroupWarning]:
    sides = {order: [one.client_id for one in members if one.in_order is order] for order in (True, False)}
    if all(sides.values()):
        words = f"in order: {_named(sides[True])}; in any order: {_named(sides[False])}: the order isn't guaranteed"
        yield GroupWarning("MIXED_LISTENERS", words)


def _different_subscriptions(group: str, members: Sequence[GroupMember]) -> Iterable[GroupWarning]:
    responding = [member for member in members if not member.silence]
    topics = {topic for member in responding for topic in member.subscriptions} - {retry_topic(group)}
    for topic in sorted(topics):
        wanted: dict[str, list[str]] = {}
        for member in responding:
            expression = member.subscriptions.get(topic)
            wanted.setdefault("nothing" if expression is None else f"[{expression}]", []).append(member.client_id)
        if len(wanted) > 1:
            sides = "; ".join(f"{expression}: {_named(ids)}" for expression, ids in sorted(wanted.items()))
            words = f"members have different subscriptions to topic {topic}, {sides}: messages are skipped"
            yield GroupWarning("DIFFERENT_SUBSCRIPTIONS", words)


def flapping(records: Iterable[JournalRecord], members: Iterable[str], now_ms: int) -> list[GroupWarning]:
    """Return the members that keep joining and leaving, from the events of one broker. `now_ms`: its real time.

    Reported are a client that joins repeatedly with the same id, and, as most clients get a new id each time, a host
    with several times as many leaves as members. A leave counts if queues change hands, because another member stays,
    or if the client didn't unregister: so a program that is started three times in a row is not reported.
    """
    recent = [record for record in records if now_ms - record.real_ms <= FLAPPING_MS]
    joins = Counter(record.client for record in recent if record.kind == JOINED)
    leaves = Counter(host_of(record.client) for record in recent if record.kind == LEFT and _counts(record))
    there = Counter(map(host_of, members))
    minutes = FLAPPING_MS // 60_000
    again = {client: count for client, count in sorted(joins.items()) if count > FLAPPING_TIMES}
    words = [f"{client} has joined {count} times in {minutes} minutes" for client, count in again.items()]
    hosts = {host_of(client) for client in again}
    words += [
        f"members on {host} have left {count} times in {minutes} minutes"
        for host, count in sorted(leaves.items())
        if host not in hosts and count >= FLAPPING_TIMES * max(1, there[host])
    ]
    return [GroupWarning("FLAPPING_MEMBERS", f"{one}: each time, queues move to other members") for one in words]


def _counts(left: JournalRecord) -> bool:
    """Whether a leave matters: another member stayed, or the client ended without unregistering."""
    return left.details.get("members") != 0 or left.details.get("reason") != GOODBYE


def host_of(client_id: str) -> str:
    """Return the host of a client id, `ip@instance`."""
    return client_id.partition("@")[0]


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
