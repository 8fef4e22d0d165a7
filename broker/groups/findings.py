"""Find the problems of a group: members that don't fit together. Pure. RocketMQ accepts all of them silently.

The data about a member is from its own heartbeats. Only our clients report whether they consume in order. For others it
is observed: a client that locks a queue consumes in order, and one that pulls from a queue without a lock doesn't.
"""

from collections.abc import Iterable

from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup, Member
from staticfire.broker.groups.version_fence import wanted_by
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.clients import GroupFinding

MIXED_LISTENERS = "MIXED_LISTENERS"
MIXED_MODELS = "MIXED_MODELS"
DIFFERENT_SUBSCRIPTIONS = "DIFFERENT_SUBSCRIPTIONS"
SAME_CLIENT_ID = "SAME_CLIENT_ID"

# How many clients a report names for each side; it gives only the number of the others.
NAMED_MAX = 4
FINDINGS_MAX = 20
_NOTHING = "nothing"


def findings_of(group: ConsumerGroup) -> list[GroupFinding]:
    """Return the problems of a group, FINDINGS_MAX at most; none if its members fit together."""
    if group.kinds.are_equal:
        return []
    members = list(group.channel_info_table.values())
    found = [*_mixed_models(members), *_mixed_listeners(group, members), *_different_subscriptions(group, members)]
    return [*found, *_same_client_ids(members)][:FINDINGS_MAX]


def _mixed_models(members: list[Member]) -> Iterable[GroupFinding]:
    by_model = _grouped((member.data.message_model or "CLUSTERING", member) for member in members)
    if len(by_model) > 1:
        words = f"members share messages in different ways, {_sides(by_model)}: some messages reach the wrong ones"
        yield GroupFinding(MIXED_MODELS, "", f"{words}; use one message model, or two groups")


def _mixed_listeners(group: ConsumerGroup, members: list[Member]) -> Iterable[GroupFinding]:
    if group.message_model == BROADCASTING:
        return
    known = [("in order" if member.in_order else "in any order", member) for member in members if _knows_order(member)]
    by_order = _grouped(known)
    if len(by_order) > 1:
        words = f"members consume in different ways, {_sides(by_order)}: the order isn't guaranteed"
        yield GroupFinding(MIXED_LISTENERS, "", f"{words}; use one kind of listener, or two groups")


def _knows_order(member: Member) -> bool:
    return member.in_order is not None


def _different_subscriptions(group: ConsumerGroup, members: list[Member]) -> Iterable[GroupFinding]:
    """Compare the members that have subscribed to anything; the others have chosen their queues themselves."""
    subscribed = [member for member in members if member.subscriptions]
    first = subscribed[0].subscriptions if subscribed else {}
    if all(member.subscriptions.keys() == first.keys() for member in subscribed):
        topics: Iterable[str] = first
    else:
        topics = dict.fromkeys(topic for member in subscribed for topic in member.subscriptions)
    own_retries = retry_topic(group.name)
    for topic in topics:
        if topic == own_retries:
            continue
        by_expression = _grouped((_wanted(member, topic), member) for member in subscribed)
        if len(by_expression) > 1:
            words = f"members have different subscriptions to topic {topic}, {_sides(by_expression)}: brokers filter"
            words += " by the newest one for all members, so messages are skipped; use the same subscription everywhere"
            yield GroupFinding(DIFFERENT_SUBSCRIPTIONS, topic, words)


def _wanted(member: Member, topic: str) -> str:
    subscription = member.subscriptions.get(topic)
    return _NOTHING if subscription is None else f"[{wanted_by(subscription)}]"


def _same_client_ids(members: list[Member]) -> Iterable[GroupFinding]:
    """Find client ids that two clients use at the same time. A lost connection and its successor don't count as two."""
    for client_id, same in _grouped((member.client_id, member) for member in members).items():
        newest_ms = max(member.joined_ms for member in same)
        alive = [member for member in same if member.last_seen_ms >= newest_ms]
        if len(alive) > 1:
            peers = ", ".join(member.connection.peer.address for member in alive[:NAMED_MAX])
            words = (
                f"client id {client_id} is in use {len(alive)} times, from {peers}: they take queues away from each "
                "other"
            )
            yield GroupFinding(SAME_CLIENT_ID, client_id, f"{words}; give each client a different instance name")


def _grouped(pairs: Iterable[tuple[str, Member]]) -> dict[str, list[Member]]:
    """Return the members by their key."""
    groups: dict[str, list[Member]] = {}
    for key, member in pairs:
        groups.setdefault(key, []).append(member)
    return groups


def _sides(groups: dict[str, list[Member]]) -> str:
    """Return as text which clients are on which side."""
    return "; ".join(f"{key}: {_names(members)}" for key, members in sorted(groups.items()))


def _names(members: list[Member]) -> str:
    ids = sorted({member.client_id for member in members})
    more = f" and {len(ids) - NAMED_MAX} more" if len(ids) > NAMED_MAX else ""
    return ", ".join(ids[:NAMED_MAX]) + more
