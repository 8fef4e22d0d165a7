"""The topics that accept messages: the checks of a send, cached per topic. RocketMQ:
AbstractSendMessageProcessor.msgCheck.

A `Target` is a topic that passed the checks, with its queues. All targets are forgotten when a topic changes.
"""

from collections.abc import Callable
from random import Random

from staticfire.broker.sends.new_topics import NewTopics
from staticfire.broker.state import BrokerState
from staticfire.broker.static_topics.table import StaticTopicTable
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.topics import TopicTable, describe
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.frame_reader import Peer
from staticfire.protocol.names import is_retry_topic, may_be_sent_to, topic_fault
from staticfire.protocol.permissions import MULTI_TAG
from staticfire.protocol.remarks import FAQ
from staticfire.protocol.requests.send import SendMessage
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.sys_flag import MULTI_TAGS


class Target:
    """A topic that accepts messages."""

    __slots__ = (
        "_queue_limit",
        "_queue_of",
        "_random",
        "at_hand",
        "config",
        "is_retry",
        "is_special",
        "sys_flag",
        "topic",
    )

    def __init__(
        self, config: TopicConfig, queue_of: Callable[[str, int], Queue], random: Random, is_static: bool = False
    ) -> None:
        self.config = config
        self.topic = config.topic_name
        self.is_retry = is_retry_topic(self.topic)
        self.sys_flag = MULTI_TAGS if config.topic_filter_type == MULTI_TAG else 0
        self._queue_limit = max(config.write_queue_nums, config.read_queue_nums)
        self.is_special = self.is_retry or self.sys_flag != 0 or is_static
        """Whether a message for this topic needs more than an append."""
        self.at_hand: dict[int, Queue] = {}
        """The queues that were used, by id."""
        self._queue_of = queue_of
        self._random = random

    def queue(self, queue_id: int, peer: Peer) -> Queue:
        """Return a queue by its id; a random one for an id below 0. Raises: BrokerAnswer (no such queue)."""
        if queue_id < 0 and self.config.write_queue_nums > 0:
            queue_id = self._random.randrange(self.config.write_queue_nums)
        if not 0 <= queue_id < self._queue_limit:
            remark = f"request queueId[{queue_id}] is illegal, {describe(self.config)} Producer: {peer.address}"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, remark)
        queue = self.at_hand.get(queue_id)
        if queue is None:
            queue = self.at_hand[queue_id] = self._queue_of(self.topic, queue_id)
        return queue


class TargetTable:
    """The targets by topic."""

    def __init__(
        self, state: BrokerState, topics: TopicTable, static_topics: StaticTopicTable, new_topics: NewTopics
    ) -> None:
        self._state = state
        self._topics = topics
        self._random = state.machine.identity.random
        self.by_topic: dict[str, Target] = {}
        self.new_topics = new_topics
        self._static: dict[str, Target] = {}
        self.mappings = static_topics.by_topic
        """The mappings of static topics."""
        topics.on_change(lambda _: self.forget())

    def forget(self) -> None:
        """Forget all targets: a topic or a setting has changed."""
        self.by_topic.clear()
        self._static.clear()

    def for_placed(self, request: SendMessage, peer: Peer) -> Target:
        """Return the target of a send to a static topic, whose queue id is already translated to that of this broker.

        It isn't in `by_topic`, so the queue id of each send is translated. Raises: BrokerAnswer.
        """
        return self._static.get(request.topic) or self._checked(request)

    def for_request(self, request: SendMessage, peer: Peer) -> Target:
        """Return the target of a send; create its topic if that is allowed. Raises: BrokerAnswer."""
        target = self.by_topic.get(request.topic)
        if target is not None:
            return target
        if request.topic in self.mappings:
            words = (
                f"{request.topic} is a static topic: its queues are logical ones, which need messages or batches that "
                "are sent alone"
            )
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
        return self._checked(request)

    def _checked(self, request: SendMessage) -> Target:
        name = request.topic
        config = self._topics.get(name)
        state = self._state
        if not state.writable and config is not None and config.order:
            remark = f"the broker[{state.machine.identity.host_ip}] sending message is forbidden"
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, remark)
        fault = topic_fault(name)
        if fault is not None:
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, fault)
        if not may_be_sent_to(name):
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
        if config is None:
            config = self._create(request)
            self.new_topics.add(name)
        is_static = name in self.mappings
        target = Target(config, state.store.queue, self._random, is_static)
        if is_static:
            self._static[name] = target
        elif name not in self.new_topics:
            self.by_topic[name] = target
        return target

    def _create(self, request: SendMessage) -> TopicConfig:
        name = request.topic
        queues = request.default_topic_queue_nums
        config = self._topics.create_for_send(name, request.default_topic, queues, bool(request.unit_mode))
        if config is None and is_retry_topic(name):
            config = self._topics.create_for_group(name, 1, unit_mode=bool(request.unit_mode))
        if config is None:
            raise BrokerAnswer(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!{FAQ}")
        return config
