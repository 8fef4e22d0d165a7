"""The topics of a broker: their configurations, and the creation of new ones.

Pure, apart from its listeners, with which the broker saves and registers the topics. Every change increases the data
version, by which nameservers detect changes. RocketMQ: TopicConfigManager.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from staticfire.broker.settings import BrokerSettings
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import QUEUES_OF_TOPIC_MAX
from staticfire.protocol.names import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    OP_HALF_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    WHEEL_TIMER_TOPIC,
    reply_topic,
    revive_topic,
)
from staticfire.protocol.permissions import INHERIT, READ_WRITE, inherited, perm_text, topic_sys_flag
from staticfire.protocol.requests.topics import DataVersion, TopicConfig
from staticfire.protocol.times import MessageMs

TOPICS_MAX = 100_000
# As in RocketMQ. Only queue 0 is in use.
REVIVE_QUEUES = 8
_INT32 = range(-(2**31), 2**31)


class SystemTopic(NamedTuple):
    """A topic that every broker has."""

    name: str
    queues: int
    perm: int


def system_topics(settings: BrokerSettings) -> list[SystemTopic]:
    """Return the topics that a broker with these settings starts with. RocketMQ: TopicConfigManager.init."""
    cluster, name = settings.broker_cluster_name, settings.broker_name
    everything = READ_WRITE | INHERIT
    topics = [
        SystemTopic(SELF_TEST_TOPIC, 1, READ_WRITE),
        SystemTopic(BENCHMARK_TOPIC, 1024, READ_WRITE),
        SystemTopic(cluster, 16, everything if settings.cluster_topic_enable else INHERIT),
        SystemTopic(name, 1, everything if settings.broker_topic_enable else INHERIT),
        SystemTopic(OFFSET_MOVED_TOPIC, 1, READ_WRITE),
        SystemTopic(SCHEDULE_TOPIC, len(settings.message_delay_level.split()), READ_WRITE),
        SystemTopic(reply_topic(cluster), 1, READ_WRITE),
        SystemTopic(HALF_TOPIC, 1, READ_WRITE),
        SystemTopic(OP_HALF_TOPIC, 1, READ_WRITE),
        SystemTopic(WHEEL_TIMER_TOPIC, 1, READ_WRITE),
        SystemTopic(revive_topic(cluster), REVIVE_QUEUES, READ_WRITE),
    ]
    if settings.auto_create_topic_enable:
        topics.append(SystemTopic(AUTO_CREATE_TOPIC, settings.default_topic_queue_nums, everything))
    if settings.trace_topic_enable:
        topics.append(SystemTopic(settings.msg_trace_topic_name, 1, READ_WRITE))
    return topics


class TopicTable:
    """Topic configurations by name, and their data version."""

    def __init__(self, settings: BrokerSettings, message_ms: Callable[[], MessageMs]) -> None:
        self._settings = settings
        self.topics: dict[str, TopicConfig] = {}
        """This dictionary is never replaced, because handlers keep a reference to it."""
        self.version = DataVersion()
        self.system: frozenset[str] = frozenset(topic.name for topic in system_topics(settings))
        self._message_ms = message_ms
        self._listeners: list[Callable[[TopicConfig | None], None]] = []
        self._created: list[Callable[[TopicConfig], None]] = []

    def on_change(self, listener: Callable[[TopicConfig | None], None]) -> None:
        """Call `listener` after each change, with the new or changed topic, or with None after a deletion."""
        self._listeners.append(listener)

    def add_system_topics(self) -> None:
        """Create the missing ones. Topics that were saved with other numbers keep them."""
        for topic in system_topics(self._settings):
            self.topics.setdefault(topic.name, TopicConfig(topic.name, topic.queues, topic.queues, topic.perm))

    def use(self, settings: BrokerSettings) -> None:
        """Use other settings from now on. They may require a new system topic."""
        self._settings = settings
        self.system |= {topic.name for topic in system_topics(settings)}
        self.add_system_topics()

    def touch(self) -> None:
        """Request a registration of all topics, because something that all of them depend on has changed."""
        self._moved(None)

    def register_anew(self, topic: TopicConfig) -> None:
        """Request a registration of one topic, because related data has changed."""
        self._moved(topic)

    def get(self, name: str) -> TopicConfig | None:
        return self.topics.get(name)

    def put(self, topic: TopicConfig) -> bool:
        """Store a configuration; return whether it differs from the previous one. Raises: BrokerAnswer."""
        check_numbers(topic)
        if self.topics.get(topic.topic_name) == topic:
            return False
        self.topics[topic.topic_name] = topic
        self._moved(topic)
        return True

    def delete(self, name: str) -> bool:
        """Remove a topic; return whether it existed."""
        if self.topics.pop(name, None) is None:
            return False
        self._moved(None)
        return True

    def on_created(self, tell: Callable[[TopicConfig], None]) -> None:
        """Call `tell` with each topic that a send creates."""
        self._created.append(tell)

    def create_for_send(
        self, name: str, default_topic: str, queue_nums: int, unit_mode: bool = False
    ) -> TopicConfig | None:
        """Return the topic. If it doesn't exist, create it from the sender's default topic; None if that is impossible.

        RocketMQ: createTopicInSendMessageMethod. A producer that requests 4 queues of a default topic with 8 gets 4.
        """
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        default = self.topics.get(default_topic)
        if default is None or len(self.topics) >= TOPICS_MAX:
            return None
        if default_topic == AUTO_CREATE_TOPIC and not self._settings.auto_create_topic_enable:
            return None
        if not inherited(default.perm):
            return None
        queues = max(0, min(queue_nums, default.write_queue_nums))
        created = TopicConfig(
            name,
            queues,
            queues,
            default.perm & ~INHERIT,
            topic_filter_type=default.topic_filter_type,
            topic_sys_flag=topic_sys_flag(unit_mode, False),
        )
        self.put(created)
        for tell in self._created:
            tell(created)
        return created

    def create_for_group(self, name: str, queues: int, perm: int = READ_WRITE, unit_mode: bool = False) -> TopicConfig:
        """Return a group's topic; create it if necessary. RocketMQ: createTopicInSendMessageBackMethod."""
        topic = self.topics.get(name)
        if topic is not None:
            return topic
        created = TopicConfig(name, queues, queues, perm, topic_sys_flag=topic_sys_flag(False, unit_mode))
        self.put(created)
        return created

    def user_topics(self) -> Iterable[str]:
        """Return the names of topics that users or groups created."""
        return [name for name in self.topics if name not in self.system]

    def snapshot(self) -> bytes:
        """Return the content of topics.json."""
        table = {"dataVersion": self.version, "topicConfigTable": self.topics}
        return msgspec.json.format(msgspec.json.encode(table), indent=1)

    def restore(self, data: bytes) -> None:
        """Restore from topics.json. Raises: msgspec.MsgspecError, ValueError, BrokerAnswer (it is invalid)."""
        saved = msgspec.json.decode(data, type=_SavedTopics)
        for name, topic in saved.topic_config_table.items():
            if topic.topic_name != name:
                raise ValueError(f"the entry {name!r} contains the topic {topic.topic_name!r}")
            check_numbers(topic)
        self.topics.clear()
        self.topics.update(saved.topic_config_table)
        self.version = saved.data_version

    def take_copy(self, data: bytes) -> None:
        """Replace all topics by those of a master, in the form of topics.json. Raises: as `restore`."""
        self.restore(data)
        self.add_system_topics()
        for listener in self._listeners:
            listener(None)

    def _moved(self, topic: TopicConfig | None) -> None:
        self.version = DataVersion(self.version.state_version, self._message_ms(), self.version.counter + 1)
        for listener in self._listeners:
            listener(topic)


class _SavedTopics(msgspec.Struct, rename="camel"):
    topic_config_table: dict[str, TopicConfig]
    data_version: DataVersion = DataVersion()


def check_numbers(topic: TopicConfig) -> None:
    """Refuse more queues than allowed, and numbers that Java can't read. Raises: BrokerAnswer."""
    queues = max(topic.read_queue_nums, topic.write_queue_nums)
    if queues > QUEUES_OF_TOPIC_MAX:
        words = f"topic {topic.topic_name} can't have {queues} queues: the limit is {QUEUES_OF_TOPIC_MAX}"
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
    numbers = (topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag)
    if any(number not in _INT32 for number in numbers):
        words = f"topic {topic.topic_name} can't be created: {numbers} has a number of more than 32 bits"
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)


def describe(topic: TopicConfig) -> str:
    """Return a topic in the format of RocketMQ's remarks."""
    attributes = ", ".join(f"{name}={value}" for name, value in topic.attributes.items())
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm_text(topic.perm)}, "
        f"topicFilterType={topic.topic_filter_type}, topicSysFlag={topic.topic_sys_flag}, "
        f"order={str(topic.order).lower()}, attributes={{{attributes}}}]"
    )
