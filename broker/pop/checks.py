"""The checks of POP requests: those of RocketMQ, in the same order, with the same codes and remarks."""

from staticfire.broker.groups.subscription_groups import GroupTable
from staticfire.broker.pulls.checks import Wanted
from staticfire.broker.pulls.choosing import ConditionTable
from staticfire.broker.state import BrokerState
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.permissions import readable
from staticfire.protocol.remarks import FAQ
from staticfire.protocol.requests.pop import POP_MESSAGES_MAX, PopMessage
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.tags import TagExpressionError, TagTable
from staticfire.runtime.connection import Connection

# A pop is refused if it arrives more than this after its own deadline.
LATE_MS_MAX = 500
_TAG, _PARSE_FAILED = "TAG", "parse the consumer's subscription failed"


class PopChecks:
    """Checks requests against the current topics and groups."""

    def __init__(self, state: BrokerState, topics: TopicTable, configs: GroupTable) -> None:
        self._state = state
        self._topics = topics
        self._configs = configs
        self._tag_table = TagTable()
        self._conditions = ConditionTable()

    def check_pop(self, request: PopMessage, born_ms: int, connection: Connection) -> Wanted:
        """Check a pop; return its filter, None for all messages. `born_ms`: when it was sent. Raises: BrokerAnswer."""
        if self._state.machine.clock.wall_ms() - born_ms - request.poll_time > LATE_MS_MAX:
            raise BrokerAnswer(ResponseCode.POLLING_TIMEOUT, f"the broker[{self._ip}] pop message is timeout too much")
        self._check_broker("pop message")
        if request.max_msg_nums > POP_MESSAGES_MAX:
            words = f"the broker[{self._ip}] pop message's num is greater than {POP_MESSAGES_MAX}"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
        if not self._state.settings.timer_wheel_enable:
            words = f"the broker[{self._ip}] pop message is forbidden because timerWheelEnable is false"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        self._check_queue(request.topic, request.queue_id, connection)
        self._check_group(request.consumer_group)
        wanted = self._wanted(request)
        if request.max_msg_nums < 0:
            words = f"java.lang.IllegalArgumentException: Illegal Capacity: {request.max_msg_nums}, maxMsgNums is 0..32"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        return wanted

    def check_look(self, group: str, topic: str, queue_id: int, connection: Connection) -> None:
        """Check a peek, a notification or a query about held pops. Raises: BrokerAnswer."""
        self._check_broker("peeking message")
        self._check_queue(topic, queue_id, connection)
        self._check_group(group)

    def check_place(self, topic: str, queue_id: int, connection: Connection) -> None:
        """Check the topic and the queue of an acknowledgement. Raises: BrokerAnswer."""
        config = self._topic(topic)
        if not 0 <= queue_id < config.read_queue_nums:
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, _illegal_queue(queue_id, config, connection))

    @property
    def _ip(self) -> str:
        return self._state.machine.identity.host_ip

    def _check_broker(self, what: str) -> None:
        if not self._state.readable:
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, f"the broker[{self._ip}] {what} is forbidden")

    def _topic(self, topic: str) -> TopicConfig:
        config = self._topics.get(topic)
        if config is None:
            raise BrokerAnswer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist, apply first please! {FAQ}")
        return config

    def _check_queue(self, topic: str, queue_id: int, connection: Connection) -> None:
        config = self._topic(topic)
        if not readable(config.perm):
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, f"the topic[{topic}] peeking message is forbidden")
        if queue_id >= config.read_queue_nums:
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, _illegal_queue(queue_id, config, connection))

    def _check_group(self, name: str) -> None:
        group = self._configs.find(name)
        if group is None:
            words = f"subscription group [{name}] does not exist, {FAQ}"
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, words)
        if not group.consume_enable:
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, f"subscription group no permission, {name}")

    def _wanted(self, request: PopMessage) -> Wanted:
        """Return the filter of a pop's expression. Raises: BrokerAnswer."""
        if not request.exp:
            return None
        kind = request.exp_type or _TAG
        if kind == _TAG:
            try:
                return self._tag_table.test_of(request.exp)
            except TagExpressionError:
                raise BrokerAnswer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, _PARSE_FAILED) from None
        choice = self._conditions.find(request.exp, kind)
        if isinstance(choice, str):
            raise BrokerAnswer(ResponseCode.SUBSCRIPTION_PARSE_FAILED, _PARSE_FAILED)
        return choice


def _illegal_queue(queue_id: int, topic: TopicConfig, connection: Connection) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{topic.topic_name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[/{connection.peer.address}]"
    )
