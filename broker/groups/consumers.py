"""The members of each consumer group, and the subscriptions of the group. RocketMQ: ConsumerManager.

`consumer_table` contains the groups. A group's `channel_info_table` contains its members by connection; from these the
clients compute their rebalance. The class does no I/O: it returns which groups changed, and `handlers/clients.py`
notifies their members.

A member counts if it gets a share of the queues. With protection (protection.py) a new member may have to wait until it
counts, and a member that lost its connection may continue to count for a while: it is away. `let_in` applies what
changes because time has passed.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

import msgspec

from staticfire.broker.groups.protection import AwayMember, AwayMembers, ProtectionTimes
from staticfire.protocol.requests.clients import ConsumerData, SubscriptionData
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection

BROADCASTING = "BROADCASTING"
_Key = TypeVar("_Key")


class Member(msgspec.Struct, gc=False):
    """One client of a group, on one connection. RocketMQ: ClientChannelInfo."""

    client_id: str
    connection: Connection
    joined_ms: UptimeMs
    last_seen_ms: UptimeMs
    data: ConsumerData
    """Its part of the last heartbeat."""
    subscriptions: dict[str, SubscriptionData] = {}
    """The member's own subscriptions. The group has the newest subscriptions of all members."""
    counts: bool = True
    """Whether it gets a share of the queues: protection.py."""
    in_order: bool | None = None
    """Whether it consumes in order; None if that is not known: findings.py."""


class MemberKind(NamedTuple):
    """What must be the same for all members of a group."""

    message_model: str
    in_order: bool | None
    subscriptions: frozenset[tuple[str, str, str | None]]


def kind_of(data: ConsumerData, in_order: bool | None, subscriptions: Iterable[SubscriptionData]) -> MemberKind:
    """Return the kind of a member."""
    wanted = frozenset((each.topic, each.sub_string, each.expression_type) for each in subscriptions)
    return MemberKind(data.message_model or "CLUSTERING", in_order, wanted)


class MemberKinds:
    """The kinds and the client ids of the members of one group, with the number of members of each.

    Every heartbeat checks whether its group has problems (findings.py). A group of equal members is recognized here,
    without a look at each of them: a thousand looks per heartbeat, and a million while they join one by one.
    """

    def __init__(self) -> None:
        self._members: dict[Hashable, tuple[MemberKind, str]] = {}
        self._kinds: dict[MemberKind, int] = {}
        self._client_ids: dict[str, int] = {}

    def note(self, connection: Hashable, kind: MemberKind, client_id: str) -> None:
        """Note the current kind and client id of a member."""
        if self._members.get(connection) == (kind, client_id):
            return
        self.forget(connection)
        self._members[connection] = kind, client_id
        self._kinds[kind] = self._kinds.get(kind, 0) + 1
        self._client_ids[client_id] = self._client_ids.get(client_id, 0) + 1

    def forget(self, connection: Hashable) -> None:
        """Forget a member that left."""
        member = self._members.pop(connection, None)
        if member is not None:
            _count_down(self._kinds, member[0])
            _count_down(self._client_ids, member[1])

    @property
    def are_equal(self) -> bool:
        """Whether all members are of one kind, each with a client id of its own."""
        return len(self._kinds) <= 1 and len(self._client_ids) == len(self._members)

    def orders(self) -> set[bool | None]:
        """Return whether members consume in order: the values that occur."""
        return {kind.in_order for kind in self._kinds}


class ConsumerGroup(msgspec.Struct):
    """The online part of a group. RocketMQ: ConsumerGroupInfo."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    channel_info_table: dict[Connection, Member] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    resubscribed: list[str] = []
    """Topics whose subscription has changed. The caller that tries the held pulls of these again empties the list."""
    fingerprint: int | None = None
    """The fingerprint of the last heartbeat, 0 for one without a fingerprint: see `knows`."""
    kinds: MemberKinds = msgspec.field(default_factory=MemberKinds)

    def put(self, member: Member) -> None:
        """Add a member, or replace the one on its connection."""
        self.channel_info_table[member.connection] = member
        self.note_kind(member)

    def note_kind(self, member: Member) -> None:
        """Note what a member is now."""
        kind = kind_of(member.data, member.in_order, member.subscriptions.values())
        self.kinds.note(member.connection, kind, member.client_id)

    def take(self, connection: Connection) -> Member | None:
        """Remove and return the member on a connection, if there is one."""
        self.kinds.forget(connection)
        return self.channel_info_table.pop(connection, None)

    def counts(self, client_id: str) -> bool:
        """Return whether a client is connected and counts as a member."""
        return any(member.counts and member.client_id == client_id for member in self.channel_info_table.values())

    def has_stable(self, uptime_ms: UptimeMs, stable_ms: int) -> bool:
        """Return whether the group has a member that counts and has been connected for this time."""
        return any(
            member.counts and uptime_ms - member.joined_ms >= stable_ms for member in self.channel_info_table.values()
        )

    def knows(self, fingerprint: int, is_short: bool) -> bool:
        """Return whether the last heartbeat had this fingerprint; for a short one there must be subscriptions, too."""
        return self.fingerprint in (None, fingerprint) and bool(self.subscriptions or not is_short)


def _unprotected(_: str) -> ProtectionTimes:
    return ProtectionTimes()


class ConsumerManager:
    """All online groups."""

    def __init__(self, protection_of: Callable[[str], ProtectionTimes] = _unprotected) -> None:
        """`protection_of`: returns the current protection times of a group."""
        self.consumer_table: dict[str, ConsumerGroup] = {}
        self._protection_of = protection_of
        self._away = AwayMembers()
        self._waiting: dict[tuple[str, Connection], None] = {}
        """Members that don't count yet."""

    # -- registration --------------------------------------------------------------------------------------------

    def register(
        self,
        data: ConsumerData,
        connection: Connection,
        client_id: str,
        uptime_ms: UptimeMs,
        keep_subscriptions: bool = False,
    ) -> bool:
        """Register one group of a heartbeat; return whether members or subscribed topics changed.

        Type, model and start are overwritten by the latest heartbeat, and topics that it doesn't contain are removed:
        two clients of one group with different subscriptions overwrite each other's again and again, as in RocketMQ.
        """
        group = self.consumer_table.get(data.group_name)
        if group is None:
            group = self.consumer_table[data.group_name] = ConsumerGroup(data.group_name)
        before = group.channel_info_table.get(connection)
        if before is None:
            member = Member(client_id, connection, uptime_ms, uptime_ms, data)
            is_changed = self._join(group, member)
        else:
            member = msgspec.structs.replace(before, client_id=client_id, last_seen_ms=uptime_ms, data=data)
            is_changed = False
        if data.consume_orderly is not None:
            member.in_order = data.consume_orderly
        if not keep_subscriptions:
            member.subscriptions = {each.topic: each for each in data.subscription_data_set}
        group.put(member)
        if member.counts:
            is_changed = _speak_for(group, member, keep_subscriptions) or is_changed
        return is_changed

    def _join(self, group: ConsumerGroup, member: Member) -> bool:
        """Decide whether a new member counts; return whether the members that count have changed."""
        away = self._away.take(group.name, member.client_id)
        if away is not None:
            member.joined_ms = away.joined_ms
            return False
        stable_ms = self._protection_of(group.name).stable_ms
        member.counts = not stable_ms or group.counts(member.client_id)
        member.counts = member.counts or not group.has_stable(member.joined_ms, stable_ms)
        if not member.counts:
            self._waiting[group.name, member.connection] = None
        return member.counts

    @property
    def awaits_time(self) -> bool:
        """Whether a member will start or stop counting when time passes: then `let_in` must be called."""
        return bool(self._waiting or self._away)

    def let_in(self, uptime_ms: UptimeMs) -> list[ConsumerGroup]:
        """Let members count that have waited for the stable time, or that no longer have a stable member in their
        group. Remove members that have been away for too long. Return the groups that changed."""
        if not self.awaits_time:
            return []
        changed = dict.fromkeys(self._away.expire(uptime_ms))
        for name, connection in list(self._waiting):
            group = self.consumer_table[name]
            member = group.channel_info_table[connection]
            stable_ms = self._protection_of(name).stable_ms
            if uptime_ms - member.joined_ms >= stable_ms or not group.has_stable(uptime_ms, stable_ms):
                del self._waiting[name, connection]
                member.counts = True
                _speak_for(group, member, not member.subscriptions)
                changed[name] = None
        return [self.consumer_table[name] for name in changed if name in self.consumer_table]

    # -- removal -------------------------------------------------------------------------------------------------

    def unregister(self, group_name: str, connection: Connection, client_id: str | None) -> ConsumerGroup | None:
        """Remove a member; return its group if it still has members, so that they can be notified."""
        group, member = self._remove(group_name, connection)
        self._away.take(group_name, member.client_id if member is not None else client_id or "")
        return None if group is None or (member is not None and not member.counts) else group

    def disconnect(self, connection: Connection, uptime_ms: UptimeMs) -> list[ConsumerGroup]:
        """Remove a connection from every group; return the groups that lost a member and still have others."""
        changed = []
        for name in [name for name, group in self.consumer_table.items() if connection in group.channel_info_table]:
            group, member = self._remove(name, connection)
            assert member is not None
            if member.counts and not self._stays(name, group, member, uptime_ms) and group is not None:
                changed.append(group)
        return changed

    def _stays(self, name: str, group: ConsumerGroup | None, member: Member, uptime_ms: UptimeMs) -> bool:
        """Return whether a member that lost its connection continues to count."""
        grace_ms = self._protection_of(name).grace_ms
        if not grace_ms:
            return False
        if group is not None and group.counts(member.client_id):
            return True  # The client had connected again before the loss was noticed.
        away = AwayMember(member.joined_ms, UptimeMs(uptime_ms + grace_ms))
        return self._away.keep(name, member.client_id, away)

    def _remove(self, group_name: str, connection: Connection) -> tuple[ConsumerGroup | None, Member | None]:
        """Remove a member; return its group, None if that was its last member, and the member, if there was one."""
        group = self.consumer_table.get(group_name)
        if group is None:
            return None, None
        self._waiting.pop((group_name, connection), None)
        member = group.take(connection)
        if not group.channel_info_table:
            del self.consumer_table[group_name]
            return None, member
        return group, member

    def expire(self, uptime_ms: UptimeMs, silent_ms_max: int) -> list[Connection]:
        """Remove and return the connections without a recent heartbeat. No member is notified, as in RocketMQ."""
        silent = []
        for group in list(self.consumer_table.values()):
            for member in list(group.channel_info_table.values()):
                if uptime_ms - member.last_seen_ms > silent_ms_max:
                    silent.append(member.connection)
                    self._remove(group.name, member.connection)
        return list(dict.fromkeys(silent))

    def saw_order(self, group_name: str, connection: Connection, in_order: bool) -> None:
        """Note whether a member was observed to consume in order, if it hasn't reported that itself."""
        group = self.consumer_table.get(group_name)
        member = None if group is None else group.channel_info_table.get(connection)
        if group is not None and member is not None and member.in_order is None:
            member.in_order = in_order
            group.note_kind(member)

    def take_over(self, before: "ConsumerManager") -> None:
        """Take over the members of another manager, which is not used any more."""
        self.consumer_table, self._away, self._waiting = before.consumer_table, before._away, before._waiting

    def forget_away(self) -> None:
        """Forget the members that are away: the broker was reset."""
        self._away = AwayMembers()

    # -- clients -------------------------------------------------------------------------------------------------

    def client_ids(self, group_name: str) -> list[str]:
        """Return the client ids of the members that count, in the order in which they joined; those away are last."""
        group = self.consumer_table.get(group_name)
        if group is None:
            return []
        present = [member.client_id for member in group.channel_info_table.values() if member.counts]
        return present + self._away.client_ids(group_name) if self._away else present

    def find_member(self, group_name: str, client_id: str) -> Member | None:
        """Return a member by its client id."""
        group = self.consumer_table.get(group_name)
        members: Iterable[Member] = () if group is None else group.channel_info_table.values()
        return next((member for member in members if member.client_id == client_id), None)


def _speak_for(group: ConsumerGroup, member: Member, keep_subscriptions: bool) -> bool:
    """Apply a member's heartbeat to its group; return whether topics were added or removed."""
    data = member.data
    group.consume_type = data.consume_type or group.consume_type
    group.message_model = data.message_model or group.message_model
    group.consume_from_where = data.consume_from_where or group.consume_from_where
    return not keep_subscriptions and _subscribe(group, list(member.subscriptions.values()))


def _subscribe(group: ConsumerGroup, wanted: list[SubscriptionData]) -> bool:
    """Update a group's subscriptions to those of a heartbeat; return whether topics were added or removed."""
    table, changed = group.subscriptions, False
    for subscription in wanted:
        old = table.get(subscription.topic)
        if old is None:
            changed = True
        elif subscription.sub_version > old.sub_version and not _is_same(old, subscription):
            group.resubscribed.append(subscription.topic)
        if old is None or subscription.sub_version > old.sub_version:
            table[subscription.topic] = subscription
    named = {subscription.topic for subscription in wanted}
    for topic in [topic for topic in table if topic not in named]:
        del table[topic]
        changed = True
    return changed


def _is_same(one: SubscriptionData, other: SubscriptionData) -> bool:
    return (one.sub_string, one.expression_type) == (other.sub_string, other.expression_type)


def _count_down(counts: dict[_Key, int], key: _Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
