"""Who consumes: the members of each group and what the group subscribes to. RocketMQ: ConsumerManager.

`consumer_table` has the groups, a group's `channel_info_table` its members by connection: what clients compute their
rebalance from. The class is pure; it returns which groups changed, and `handlers/clients.py` notifies their members.
"""

from collections.abc import Callable, Iterable

import msgspec

from staticfire.broker.groups.protection import AwayMember, AwayMembers, ProtectionTimes
from staticfire.protocol.requests.clients import ConsumerData, SubscriptionData
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection

BROADCASTING = "BROADCASTING"


class Member(msgspec.Struct, gc=False):
    """One client of a group, on one connection. RocketMQ: ClientChannelInfo."""

    client_id: str
    connection: Connection
    joined_ms: UptimeMs
    last_seen_ms: UptimeMs
    data: ConsumerData
    """Its last heartbeat."""
    subscriptions: dict[str, SubscriptionData] = {}
    """What it said itself; the group's are the newest of all members."""
    counts: bool = True
    """Whether it has its share of the queues: protection.py."""
    in_order: bool | None = None
    """Whether it listens in order, if that is known: findings.py."""


class ConsumerGroup(msgspec.Struct):
    """The online part of a group. RocketMQ: ConsumerGroupInfo."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    channel_info_table: dict[Connection, Member] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    resubscribed: list[str] = []
    """Topics of which something else is wanted now; who looks at the held pulls of these empties it."""
    fingerprint: int | None = None
    """Of the last heartbeat, 0 of those in full: see `knows`."""

    def counts(self, client_id: str) -> bool:
        """Whether a client is here and counts as a member."""
        return any(member.counts and member.client_id == client_id for member in self.channel_info_table.values())

    def has_stable(self, uptime_ms: UptimeMs, stable_ms: int) -> bool:
        """Whether a member is here that counts and has been for so long."""
        return any(
            member.counts and uptime_ms - member.joined_ms >= stable_ms for member in self.channel_info_table.values()
        )

    def knows(self, fingerprint: int, is_short: bool) -> bool:
        """Tell whether the last heartbeat said the same; a short one, without subscriptions, needs those of before."""
        return self.fingerprint in (None, fingerprint) and bool(self.subscriptions or not is_short)


def _unprotected(_: str) -> ProtectionTimes:
    return ProtectionTimes()


class ConsumerManager:
    """All online groups."""

    def __init__(self, protection_of: Callable[[str], ProtectionTimes] = _unprotected) -> None:
        """`protection_of`: the times of a group, as they are now."""
        self.consumer_table: dict[str, ConsumerGroup] = {}
        self._protection_of = protection_of
        self._away = AwayMembers()
        self._waiting: dict[tuple[str, Connection], None] = {}
        """Members that don't count yet."""

    # -- coming --------------------------------------------------------------------------------------------------

    def register(
        self,
        data: ConsumerData,
        connection: Connection,
        client_id: str,
        uptime_ms: UptimeMs,
        keep_subscriptions: bool = False,
    ) -> bool:
        """Take in one group of a heartbeat; return whether members or subscribed topics changed.

        Type, model and start are overwritten by the latest heartbeat, and topics that it doesn't name are dropped:
        two clients of one group with different subscriptions keep flipping the table, as in RocketMQ.
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
        group.channel_info_table[connection] = member
        if member.counts:
            is_changed = _speak_for(group, member, keep_subscriptions) or is_changed
        return is_changed

    def _join(self, group: ConsumerGroup, member: Member) -> bool:
        """Decide whether somebody new counts; return whether that changes who does."""
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
        """Whether somebody will count, or count no more, because time passes: `let_in` is to be called."""
        return bool(self._waiting or self._away)

    def let_in(self, uptime_ms: UptimeMs) -> list[ConsumerGroup]:
        """Count those who have been stable for long enough, or have nobody stable beside them, and give up those who
        have been away for too long; return the groups that changed by it."""
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

    # -- going ---------------------------------------------------------------------------------------------------

    def unregister(self, group_name: str, connection: Connection, client_id: str | None) -> ConsumerGroup | None:
        """Remove a member; return the group if it is still there, so that its members can be notified."""
        group, member = self._remove(group_name, connection)
        self._away.take(group_name, member.client_id if member is not None else client_id or "")
        return None if group is None or (member is not None and not member.counts) else group

    def disconnect(self, connection: Connection, uptime_ms: UptimeMs) -> list[ConsumerGroup]:
        """Remove a connection from every group; return the groups that lost a member and have others."""
        changed = []
        for name in [name for name, group in self.consumer_table.items() if connection in group.channel_info_table]:
            group, member = self._remove(name, connection)
            assert member is not None
            if member.counts and not self._stays(name, group, member, uptime_ms) and group is not None:
                changed.append(group)
        return changed

    def _stays(self, name: str, group: ConsumerGroup | None, member: Member, uptime_ms: UptimeMs) -> bool:
        """Whether a member that lost its connection counts on."""
        grace_ms = self._protection_of(name).grace_ms
        if not grace_ms:
            return False
        if group is not None and group.counts(member.client_id):
            return True  # It had come back before we noticed.
        away = AwayMember(member.joined_ms, UptimeMs(uptime_ms + grace_ms))
        return self._away.keep(name, member.client_id, away)

    def _remove(self, group_name: str, connection: Connection) -> tuple[ConsumerGroup | None, Member | None]:
        """Take a member out; return its group unless that was the last one, and the member if there was one."""
        group = self.consumer_table.get(group_name)
        if group is None:
            return None, None
        self._waiting.pop((group_name, connection), None)
        member = group.channel_info_table.pop(connection, None)
        if not group.channel_info_table:
            del self.consumer_table[group_name]
            return None, member
        return group, member

    def expire(self, uptime_ms: UptimeMs, silent_ms_max: int) -> list[Connection]:
        """Remove and return the connections without a heartbeat for that long. Nobody is notified, as in RocketMQ."""
        silent = []
        for group in list(self.consumer_table.values()):
            for member in list(group.channel_info_table.values()):
                if uptime_ms - member.last_seen_ms > silent_ms_max:
                    silent.append(member.connection)
                    self._remove(group.name, member.connection)
        return list(dict.fromkeys(silent))

    def saw_order(self, group_name: str, connection: Connection, in_order: bool) -> None:
        """Note how a member was seen to consume that doesn't say so itself."""
        group = self.consumer_table.get(group_name)
        member = None if group is None else group.channel_info_table.get(connection)
        if member is not None and member.in_order is None:
            member.in_order = in_order

    def take_over(self, before: "ConsumerManager") -> None:
        """Go on with the members that another one knew, which is used no more."""
        self.consumer_table, self._away, self._waiting = before.consumer_table, before._away, before._waiting

    def forget_away(self) -> None:
        """Start anew with those who are here: the broker was reset."""
        self._away = AwayMembers()

    # -- who is there --------------------------------------------------------------------------------------------

    def client_ids(self, group_name: str) -> list[str]:
        """Return the client ids of the members that count, in the order in which they joined; those away stand last."""
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
    """Let the group be as a member says; return whether topics came or went."""
    data = member.data
    group.consume_type = data.consume_type or group.consume_type
    group.message_model = data.message_model or group.message_model
    group.consume_from_where = data.consume_from_where or group.consume_from_where
    return not keep_subscriptions and _subscribe(group, list(member.subscriptions.values()))


def _subscribe(group: ConsumerGroup, wanted: list[SubscriptionData]) -> bool:
    """Bring a group's subscriptions up to a heartbeat's; return whether topics came or went."""
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
