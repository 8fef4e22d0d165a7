"""Register clients and unregister them. RocketMQ: ClientManageProcessor, ConsumerManageProcessor.

Behaviour
- A group's members are notified at once when a member joins, leaves or changes its subscription. On the connection of
  the new member the notification is written before the response to the heartbeat.
- A heartbeat with a fingerprint (useHeartbeatV2) may leave out the subscriptions as long as the broker has them.
  IS_SUB_CHANGE in the response requests a full heartbeat next time. It does so, too, when the broker can't use a short
  heartbeat; RocketMQ doesn't.
- When a group's subscription changes, its held pulls are tried again, also for messages that they have skipped.
- A client without a heartbeat for two minutes is removed without a notification, as in RocketMQ.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from staticfire.broker.groups.consumers import BROADCASTING, ConsumerGroup
from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.handlers.group_watch import GroupWatch
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests.clients import (
    ConsumerData,
    ConsumerIdList,
    ConsumerListAnswer,
    GetConsumerList,
    Heartbeat,
    HeartbeatAnswer,
    HeartbeatData,
    NotifyConsumerIdsChanged,
    UnregisterClient,
)
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.service import Alarm

if TYPE_CHECKING:
    from staticfire.broker.handlers.member_notices import MemberNotices

log = logger("broker")

# A member that counts from a certain time on is counted at most this much later.
LET_IN_STEP_MS = 250
# In groups with more members, each change notifies them in turns: member_notices.py.
NOTIFIED_AT_ONCE_MAX = 64


class ClientHandlers:
    """Handles heartbeats and maintains the tables of consumers and producers."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        groups: GroupTables,
        watch: GroupWatch,
        look_anew: Callable[[str, Iterable[str]], None],
    ) -> None:
        """`look_anew`: tries the held pulls of a group again, on topics whose subscription has changed."""
        self._state = state
        self._topics = topics
        self._groups = groups
        self._look_anew = look_anew
        self._uptime_ms = state.machine.clock.uptime_ms
        self._watch = watch
        self._notices: MemberNotices | None = None
        self._let_in = Alarm(state.machine.clock, LET_IN_STEP_MS)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.HEART_BEAT, self.heartbeat)
        dispatcher.handle(RequestCode.UNREGISTER_CLIENT, self.unregister)
        dispatcher.handle(RequestCode.GET_CONSUMER_LIST_BY_GROUP, self.consumer_list)

    def heartbeat(self, call: Call) -> Answer:
        """Register a client with all its groups."""
        request: Heartbeat = call.request
        data = request.body
        if data is None or data.client_id is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "the body of a heartbeat must have a clientID")
        call.connection.client_id = data.client_id
        uptime_ms = self._uptime_ms()
        is_whole_wanted = self._is_whole_wanted(data)
        news = []
        for consumer in data.consumer_data_set:
            self._register_consumer(consumer, call.connection, data.client_id, uptime_ms, data.without_sub)
            group = self._groups.consumers.consumer_table.get(consumer.group_name)
            if group is not None:
                self._wake_pulls(group)
                group.fingerprint = data.heartbeat_fingerprint
                news.append(self._watch.news(group, call.connection))
        for producer in data.producer_data_set:
            self._groups.producers.register(producer.group_name, call.connection, data.client_id, uptime_ms)
        answer = HeartbeatAnswer(is_sub_change=is_whole_wanted, is_support_heart_beat_v2=True)
        if data.wants_news:
            answer.broker_time_ms = self._state.machine.clock.wall_ms()
            answer.body = [each for each in news if each is not None] or None
        return answer

    def _is_whole_wanted(self, data: HeartbeatData) -> bool:
        """Return whether the client's next heartbeat must contain its subscriptions."""
        if data.heartbeat_fingerprint == 0:
            return True
        groups = [self._groups.consumers.consumer_table.get(consumer.group_name) for consumer in data.consumer_data_set]
        return not all(
            group.knows(data.heartbeat_fingerprint, data.without_sub) if group is not None else not data.without_sub
            for group in groups
        )

    def _register_consumer(
        self, data: ConsumerData, connection: Connection, client_id: str, uptime_ms: UptimeMs, without_sub: bool
    ) -> None:
        """Register a consumer in its group. A group that may not be created is skipped, as in RocketMQ, but logged."""
        config = self._groups.configs.find(data.group_name)
        if config is None:
            log.warning(
                "group_refused",
                group=data.group_name,
                client_id=client_id,
                reason="illegal name, or auto-creation is off",
            )
            return
        if data.message_model != BROADCASTING or data.group_name not in self._groups.consumers.consumer_table:
            self._topics.create_for_group(
                retry_topic(data.group_name), config.retry_queue_nums, unit_mode=data.unit_mode
            )
        if self._groups.consumers.register(data, connection, client_id, uptime_ms, keep_subscriptions=without_sub):
            self.notify(self._groups.consumers.consumer_table[data.group_name])
        self._look_again_later(uptime_ms)

    def notify(self, group: ConsumerGroup, is_lost: bool = False) -> None:
        """Notify a group's members to rebalance.

        `is_lost`: a connection was lost. As with RocketMQ, only the broker's setting prevents this notification.
        """
        config = self._groups.configs.get(group.name)
        allowed = is_lost or config is None or config.notify_consumer_ids_changed_enable
        if (
            not self._state.settings.notify_consumer_ids_changed_enable
            or not allowed
            or group.message_model == BROADCASTING
        ):
            return
        members = [member.connection for member in group.channel_info_table.values() if member.counts]
        if len(members) > NOTIFIED_AT_ONCE_MAX:
            self._notify_large(group.name, members)
            return
        for connection in members:
            if connection.is_open:
                connection.tell(NotifyConsumerIdsChanged(group.name))

    def _notify_large(self, group: str, members: list[Connection]) -> None:
        if self._notices is None:
            # Few brokers have such a group, so this is loaded with the first one.
            from staticfire.broker.handlers.member_notices import MemberNotices

            self._notices = MemberNotices()
        self._notices.notify(group, members)

    def _wake_pulls(self, group: ConsumerGroup) -> None:
        topics, group.resubscribed = group.resubscribed, []
        if topics:
            self._look_anew(group.name, dict.fromkeys(topics))

    def unregister(self, call: Call) -> Answer:
        """Unregister a client's producer or consumer."""
        request: UnregisterClient = call.request
        if request.producer_group:
            self._groups.producers.unregister(request.producer_group, call.connection)
        if request.consumer_group:
            group = self._groups.consumers.unregister(request.consumer_group, call.connection, request.client_id)
            if group is not None:
                self.notify(group)
            self.let_in(self._uptime_ms())
        return Answer()

    def consumer_list(self, call: Call) -> Answer:
        """Return the client ids of a group's members."""
        request: GetConsumerList = call.request
        ids = self._groups.consumers.client_ids(request.consumer_group)
        if not ids:
            return refusal(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {request.consumer_group}")
        return ConsumerListAnswer(body=ConsumerIdList(ids))

    def disconnected(self, connection: Connection) -> None:
        """Remove the clients of a closed connection and notify the remaining members of their groups."""
        self._groups.producers.disconnect(connection)
        self._groups.first_offsets.disconnected(connection)
        uptime_ms = self._uptime_ms()
        for group in self._groups.consumers.disconnect(connection, uptime_ms):
            self.notify(group, is_lost=True)
        self.let_in(uptime_ms)

    def let_in(self, uptime_ms: UptimeMs) -> None:
        """Notify the groups in which the members that count have changed because time has passed."""
        for group in self._groups.consumers.let_in(uptime_ms):
            self._wake_pulls(group)
            self.notify(group)
        self._look_again_later(uptime_ms)

    def _look_again_later(self, uptime_ms: UptimeMs) -> None:
        if self._groups.consumers.awaits_time:
            self._let_in.ring_by(UptimeMs(uptime_ms + 1))

    async def let_in_loop(self) -> None:
        """Loop: let members count when their time has come."""
        self._look_again_later(self._uptime_ms())
        while True:
            await self._let_in.wait()
            self.let_in(self._uptime_ms())

    def expire(self, uptime_ms: UptimeMs) -> None:
        """Remove the clients without a recent heartbeat and close their connections."""
        silent_ms_max = self._state.settings.channel_expired_timeout_ms
        silent = self._groups.consumers.expire(uptime_ms, silent_ms_max)
        silent += self._groups.producers.expire(uptime_ms, silent_ms_max)
        for connection in dict.fromkeys(silent):
            log.warning("client_expired", client_id=connection.client_id, peer=connection.peer.address)
            connection.close()
