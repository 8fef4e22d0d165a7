"""The checks of a pull, and its filter. RocketMQ: PullMessageProcessor, its checks in the same order."""

from collections.abc import Callable

from staticfire.broker.groups.tables import GroupTables
from staticfire.broker.groups.version_fence import is_outdated, wanted, wanted_by
from staticfire.broker.pulls.choosing import Choice, ConditionTable
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import LanguageCode, ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.permissions import readable
from staticfire.protocol.remarks import FAQ, no_property_filter
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.pull import FLAG_CLASS_FILTER, FLAG_SUBSCRIPTION, LitePullMessage, PullMessage
from staticfire.protocol.tags import TagExpressionError, TagTable
from staticfire.runtime.connection import Connection

Wanted = Callable[[int], bool] | Choice | None
"""The filter of a pull: a test of the tags code, or a condition over properties; None: all messages are wanted."""

FORBIDDEN_BROKER, FORBIDDEN_GROUP, FORBIDDEN_TOPIC, FORBIDDEN_BROADCAST, FORBIDDEN_SUBSCRIPTION = 1, 2, 3, 4, 5

# Languages whose client filters the pulled messages again by its own subscription. A driver in tests/clients proves it
# for each: it subscribes to one of two tags that a broker can't distinguish, since their hash is the same.
FILTER_THEMSELVES = frozenset({int(LanguageCode.JAVA)})
_TAG = "TAG"
_PARSE_FAILED = "parse the consumer's subscription failed"


class Forbidden(BrokerAnswer):
    """A pull that isn't allowed, with RocketMQ's forbiddenType."""

    def __init__(self, kind: int, remark: str) -> None:
        super().__init__(ResponseCode.NO_PERMISSION, remark)
        self.kind = kind


class PullChecks:
    """Checks pulls against the current topics, groups and subscriptions."""

    def __init__(self, state: BrokerState, topics: TopicTable, groups: GroupTables) -> None:
        self._state = state
        self._groups = groups
        self._topics = topics.topics
        self._configs = groups.configs.groups
        self._tag_table = TagTable()
        self._conditions = ConditionTable()

    def wanted(self, request: PullMessage, connection: Connection) -> Wanted:
        """Check a pull; return its filter, None for all messages. Raises: BrokerAnswer, Forbidden."""
        state = self._state
        name = request.consumer_group
        if not state.readable:
            raise self._forbidden_by_broker("pulling message")
        if not state.settings.lite_pull_message_enable and isinstance(request, LitePullMessage):
            raise self._forbidden_by_broker("for lite pull consumer")
        group = self._configs.get(name) or self._groups.configs.find(name)
        if group is None:
            remark = f"subscription group [{name}] does not exist, {FAQ}"
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)
        if not group.consume_enable:
            raise Forbidden(FORBIDDEN_GROUP, f"subscription group no permission, {name}")
        topic = self._topics.get(request.topic)
        if topic is None:
            raise BrokerAnswer(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{request.topic}] not exist, apply first please! {FAQ}"
            )
        if not readable(topic.perm):
            raise Forbidden(FORBIDDEN_TOPIC, f"the topic[{request.topic}] pulling message is forbidden")
        if not 0 <= request.queue_id < topic.read_queue_nums:
            remark = (
                f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{connection.peer.address}]"
            )
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, remark)
        if request.sys_flag & FLAG_CLASS_FILTER:
            words = "class filter mode is not supported: filter by tags"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        if request.sys_flag & FLAG_SUBSCRIPTION:
            return self._wanted_by_itself(request, connection)
        return self._wanted_by_heartbeat(request, connection)

    def _wanted_by_itself(self, request: PullMessage, connection: Connection) -> Wanted:
        """Return the filter that the pull itself contains. Raises: BrokerAnswer."""
        kind = request.expression_type or _TAG
        expression = request.subscription or ("*" if kind == _TAG else "")
        if self._state.settings.fence_older_subscriptions:
            online = self._groups.consumers.consumer_table.get(request.consumer_group)
            newest = None if online is None else online.subscriptions.get(request.topic)
            if newest is not None:
                self._refuse_outdated(request, connection, wanted(expression, request.expression_type), newest)
        if kind == _TAG:
            return self._tags(expression)
        choice = self._conditions.find(expression, kind)
        if expression:
            self._require_property_filter(kind)
        if isinstance(choice, str):
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, f"{_PARSE_FAILED}: {choice}")
        return choice

    def _wanted_by_heartbeat(self, request: PullMessage, connection: Connection) -> Wanted:
        """Return the filter of the group's subscription in its heartbeats. Raises: BrokerAnswer, Forbidden."""
        name = request.consumer_group
        online = self._groups.consumers.consumer_table.get(name)
        if online is None:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist{FAQ}")
        group = self._configs[name]
        if online.message_model == "BROADCASTING" and not group.consume_broadcast_enable:
            raise Forbidden(FORBIDDEN_BROADCAST, f"the consumer group[{name}] can not consume by broadcast way")
        if not self._groups.configs.may_read(name, request.topic):
            words = f"the consumer group[{name}] is forbidden for topic[{request.topic}]"
            raise Forbidden(FORBIDDEN_SUBSCRIPTION, words)
        subscription = online.subscriptions.get(request.topic)
        if subscription is None:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist{FAQ}")
        if self._state.settings.fence_older_subscriptions:
            member = online.channel_info_table.get(connection)
            own = None if member is None else member.subscriptions.get(request.topic)
            if own is not None:
                self._refuse_outdated(request, connection, wanted_by(own), subscription)
        elif subscription.sub_version < request.sub_version:
            if self._may_go_unfiltered(request, subscription, connection):
                return None
            words = f"it has another subscription since {request.sub_version}, but no heartbeat has reported it yet"
            self._note_refusal(request, connection, words)
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
        kind = subscription.expression_type or _TAG
        if kind == _TAG:
            return self._tags(subscription.sub_string)
        choice = self._conditions.find(subscription.sub_string, kind)
        if isinstance(choice, str):
            words = "The broker's consumer filter data is not exist!Your expression may be wrong!"
            raise BrokerAnswer(ResponseCode.FILTER_DATA_NOT_EXIST, words)
        self._require_property_filter(kind)
        return choice

    def _refuse_outdated(
        self, request: PullMessage, connection: Connection, own: str, newest: SubscriptionData
    ) -> None:
        """Refuse a pull whose subscription is older than its group's, and different. Raises: BrokerAnswer."""
        if is_outdated(request.sub_version, own, newest):
            words = (
                f"the consumer's subscription [{own}] of topic [{request.topic}] is not latest: group"
                f" [{request.consumer_group}] has [{wanted_by(newest)}] since {newest.sub_version}"
            )
            self._note_refusal(request, connection, words)
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_NOT_LATEST, words)

    def _note_refusal(self, request: PullMessage, connection: Connection, words: str) -> None:
        client, uptime_ms = connection.client_id or connection.peer.address, self._state.machine.clock.uptime_ms()
        self._groups.refusals.note(request.consumer_group, request.topic, client, words, uptime_ms)

    def _may_go_unfiltered(self, request: PullMessage, subscription: SubscriptionData, connection: Connection) -> bool:
        """Return whether a pull with a newer subscription than the heartbeats may get all messages.

        RocketMQ's Java client begins with a heartbeat that may lack a new subscription: its rebalance and its timer
        compete for a lock, and the one that doesn't get the lock sends no heartbeat. The next heartbeat is sent 30 s
        later.
        """
        kinds = {subscription.expression_type or _TAG, request.expression_type or _TAG}
        is_on = self._state.settings.answer_newer_subscription_unfiltered
        return is_on and kinds == {_TAG} and connection.peer.language in FILTER_THEMSELVES

    def _forbidden_by_broker(self, what: str) -> Forbidden:
        return Forbidden(FORBIDDEN_BROKER, f"the broker[{self._state.machine.identity.host_ip}] {what} is forbidden")

    def _require_property_filter(self, kind: str) -> None:
        if not self._state.settings.enable_property_filter:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, no_property_filter(kind))

    def _tags(self, text: str) -> Wanted:
        """Return the test of a tag expression, None for all messages. Raises: BrokerAnswer."""
        try:
            return self._tag_table.test_of(text)
        except TagExpressionError:
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, _PARSE_FAILED) from None
