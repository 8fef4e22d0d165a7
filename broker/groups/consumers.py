"""Who consumes: the members of each group and what the group subscribes to. RocketMQ: ConsumerManager.

`consumer_table` has the groups, a group's `channel_info_table` its members by connection: what clients compute their
rebalance from. The class is pure; it returns which groups changed, and `handlers/clients.py` notifies their members.
"""

from collections.abc import Iterable

import msgspec

from staticfire.protocol.requests.clients import ConsumerData, SubscriptionData
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection

BROADCASTING = "BROADCASTING"


class Member(msgspec.Struct, gc=False):
    """One client of a group, on one connection. RocketMQ: ClientChannelInfo."""

    client_id: str
    connection: Connection
    last_seen_ms: UptimeMs
    subscriptions: dict[str, SubscriptionData]
    """What it said itself; the group's are the newest of all members."""


class ConsumerGroup(msgspec.Struct):
    """The online part of a group. RocketMQ: ConsumerGroupInfo."""

    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    channel_info_table: dict[Connection, Member] = {}
    subscriptions: dict[str, SubscriptionData] = {}
    fingerprint: int | None = None
    """Of the last heartbeat, 0 of those in full: see `knows`."""

    def knows(self, fingerprint: int, is_short: bool) -> bool:
        """Tell whether the last heartbeat said the same; a short one, without subscriptions, needs those of before."""
        return self.fingerprint in (None, fingerprint) and bool(self.subscriptions or not is_short)


class ConsumerManager:
    """All online groups."""

    def __init__(self) -> None:
        self.consumer_table: dict[str, ConsumerGroup] = {}

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
        group.consume_type = data.consume_type or group.consume_type
        group.message_model = data.message_model or group.message_model
        group.consume_from_where = data.consume_from_where or group.consume_from_where
        before = group.channel_info_table.get(connection)
        own = before.subscriptions if before is not None else {}
        if not keep_subscriptions:
            own = {subscription.topic: subscription for subscription in data.subscription_data_set}
        group.channel_info_table[connection] = Member(client_id, connection, uptime_ms, own)
        changed = before is None
        if not keep_subscriptions:
            changed = _subscribe(group.subscriptions, data.subscription_data_set) or changed
        return changed

    def unregister(self, group_name: str, connection: Connection) -> ConsumerGroup | None:
        """Remove a member; return the group if it is still there, so that its members can be notified."""
        group = self.consumer_table.get(group_name)
        if group is None:
            return None
        group.channel_info_table.pop(connection, None)
        if not group.channel_info_table:
            del self.consumer_table[group_name]
            return None
        return group

    def disconnect(self, connection: Connection) -> list[ConsumerGroup]:
        """Remove a connection from every group; return the groups that lost a member and have others."""
        names = [name for name, group in self.consumer_table.items() if connection in group.channel_info_table]
        left = [self.unregister(name, connection) for name in names]
        return [group for group in left if group is not None]

    def expire(self, uptime_ms: UptimeMs, silent_ms_max: int) -> list[Connection]:
        """Remove and return the connections without a heartbeat for that long. Nobody is notified, as in RocketMQ."""
        silent = []
        for group in list(self.consumer_table.values()):
            for member in list(group.channel_info_table.values()):
                if uptime_ms - member.last_seen_ms > silent_ms_max:
                    silent.append(member.connection)
                    self.unregister(group.name, member.connection)
        return list(dict.fromkeys(silent))

    def client_ids(self, group_name: str) -> list[str]:
        """Return the members' client ids, in the order in which they joined."""
        group = self.consumer_table.get(group_name)
        return [] if group is None else [member.client_id for member in group.channel_info_table.values()]

    def find_member(self, group_name: str, client_id: str) -> Member | None:
        """Return a member by its client id."""
        group = self.consumer_table.get(group_name)
        members: Iterable[Member] = () if group is None else group.channel_info_table.values()
        return next((member for member in members if member.client_id == client_id), None)


def _subscribe(table: dict[str, SubscriptionData], wanted: list[SubscriptionData]) -> bool:
    """Bring a group's subscriptions up to a heartbeat's; return whether topics came or went."""
    changed = False
    for subscription in wanted:
        old = table.get(subscription.topic)
        if old is None:
            changed = True
        if old is None or subscription.sub_version > old.sub_version:
            table[subscription.topic] = subscription
    named = {subscription.topic for subscription in wanted}
    for topic in [topic for topic in table if topic not in named]:
        del table[topic]
        changed = True
    return changed
