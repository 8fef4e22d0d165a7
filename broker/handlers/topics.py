"""Create, change and delete topics. RocketMQ: AdminBrokerProcessor.updateAndCreateTopic, TopicAttributes.

Behaviour
- Numbers of queues and permissions are accepted unchanged. A request for the existing configuration succeeds.
- Of a list either all topics are made, or none if one of them can't be.
- A static topic and its mapping are changed together, or neither is: see static_topics/acceptance.py.
- The response is sent after the change is saved, so that a broker that dies right after it has the change, and after
  the nameservers have it.

Not done
- Segments of logical queues whose messages were all removed are kept in the mapping (RocketMQ:
  TopicQueueMappingCleanService). Readers skip them.
"""

from collections.abc import Callable

import msgspec

from staticfire.broker.changes import Changes
from staticfire.broker.config_files import OFFSETS_FILE, TOPICS_FILE
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.registration import Registration
from staticfire.broker.replication.lineage import is_slave
from staticfire.broker.state import BrokerState
from staticfire.broker.static_topics.table import FILE as MAPPINGS_FILE, StaticTopicTable
from staticfire.broker.store.outcomes import NotForGood
from staticfire.broker.topics import TopicTable, check_numbers
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.names import is_system_topic, pop_retry_topic, topic_fault
from staticfire.protocol.requests.static_topics import MappingDetail, UpdateStaticTopic, with_mapping
from staticfire.protocol.requests.topics import (
    AllTopics,
    AllTopicsAnswer,
    DeleteTopic,
    GetTopicConfig,
    TopicConfig,
    TopicConfigAnswer,
    UpdateTopic,
    UpdateTopics,
)
from staticfire.runtime.dispatcher import Call, Dispatcher

FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")

_ATTRIBUTES: dict[str, tuple[tuple[str, ...] | None, bool]] = {
    "queue.type": (("SimpleCQ", "BatchCQ"), False),
    "cleanup.policy": (("DELETE", "COMPACTION"), False),
    "message.type": (("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"), True),
    "reserve.time": (None, True),
}
"""Topic attributes: the allowed values (None: a number from -1 on), and whether the attribute can be changed later."""
_REFUSED = {
    "BatchCQ": "each message of a batch is stored separately here, so that every client can read it",
    "COMPACTION": "it isn't supported yet",
}


class TopicHandlers:
    """Handles requests that administer topics."""

    def __init__(
        self,
        state: BrokerState,
        topics: TopicTable,
        static_topics: StaticTopicTable,
        offsets: OffsetTable,
        changes: Changes,
        registration: Registration,
        deleted: tuple[Callable[[str], None], ...],
    ) -> None:
        """`deleted` is called with the name of each topic that was deleted."""
        self._state = state
        self._topics = topics
        self._static_topics = static_topics
        self._offsets = offsets
        self._changes = changes
        self._registration = registration
        self._deleted = deleted

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.UPDATE_AND_CREATE_TOPIC, self.update)
        dispatcher.handle(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, self.update_all)
        dispatcher.handle(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, self.update_static)
        dispatcher.handle(RequestCode.DELETE_TOPIC_IN_BROKER, self.delete)
        dispatcher.handle(RequestCode.GET_TOPIC_CONFIG, self.config)
        dispatcher.handle(RequestCode.GET_ALL_TOPIC_CONFIG, self.all_configs)

    async def update(self, call: Call) -> Answer:
        """Create or change a topic."""
        request: UpdateTopic = call.request
        wanted = _wanted(request)
        self._check_mapping(wanted)
        if self._topics.put(self._checked(wanted, request.attributes)):
            await self._settled(TOPICS_FILE)
        return Answer()

    async def update_static(self, call: Call) -> Answer:
        """Create a static topic, or change the mapping of its logical queues. Raises: BrokerAnswer, StorageError."""
        from staticfire.broker.static_topics.acceptance import accepted, check_target  # imported only if needed

        request: UpdateStaticTopic = call.request
        detail: MappingDetail | None = request.body
        if detail is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "the body of a static topic must have its mapping (hostedQueues)")
        state = self._state
        config = self._checked(_wanted(request), request.attributes)
        check_target(detail, request.topic, state.settings.broker_name, config)
        mapping = accepted(self._static_topics.by_topic.get(request.topic), detail, bool(request.force))
        has_moved, has_changed = self._static_topics.put(mapping), self._topics.put(config)
        if has_moved and not has_changed:
            self._topics.register_anew(config)
        if has_moved or has_changed:
            await self._settled(TOPICS_FILE, MAPPINGS_FILE)
        return Answer()

    async def update_all(self, call: Call) -> Answer:
        """Create or change topics, all of them or none."""
        request: UpdateTopics = call.request
        if request.body is None:
            return refusal(ResponseCode.SYSTEM_ERROR, "the body of a list of topics must have a topicConfigList")
        wanted = request.body.topic_config_list
        changes = [",".join(f"{name}={value}" for name, value in topic.attributes.items()) for topic in wanted]
        for topic in wanted:
            self._check_mapping(topic)
        checked = [self._checked(topic, change) for topic, change in zip(wanted, changes, strict=True)]
        changed = [topic for topic in checked if self._topics.put(topic)]
        if changed:
            await self._settled(TOPICS_FILE)
        return Answer()

    async def _settled(self, *files: str) -> None:
        """Wait until a change is on the disk, at the nameservers, and at enough slaves. Raises: StorageError."""
        await self._changes.files.saved(*files)
        await self._registration.announced()
        await self._changes.copied()

    def _checked(self, wanted: TopicConfig, changes: str | None) -> TopicConfig:
        """Return a topic's configuration with its attributes, after RocketMQ's checks. Raises: BrokerAnswer."""
        self._changes.require_allowed()
        self._check_name(wanted.topic_name)
        check_numbers(wanted)
        filter_type = wanted.topic_filter_type
        if filter_type not in FILTER_TYPES:
            words = f"topicFilterType = [{filter_type}] value invalid, it must be one of {', '.join(FILTER_TYPES)}"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        old = self._topics.get(wanted.topic_name)
        attributes = change_attributes(old.attributes if old else None, changes)
        if attributes.get("message.type") == "MIXED":
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, "MIXED message type is not supported.")
        return msgspec.structs.replace(wanted, attributes=attributes)

    async def delete(self, call: Call) -> Answer:
        """Delete a topic with its queues and offsets; its records are still in the log."""
        request: DeleteTopic = call.request
        if not request.topic.strip():
            return refusal(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
        self._check_not_system(request.topic)
        if self._topics.get(request.topic) is not None:
            troubles = [self._forget(name) for name in [*self._pop_retry_topics(request.topic), request.topic]]
            self._changes.files.changed(OFFSETS_FILE)
            await self._changes.settled(TOPICS_FILE)
            for trouble in troubles:
                if trouble is not None:
                    raise trouble
        return Answer()

    def _forget(self, topic: str) -> NotForGood | None:
        """Delete a topic and its data; return an error if the removal may not be durable. Raises: StorageError.

        A slave keeps the queues, which must be those of its master: if it took over, it would spread the deletion.
        """
        trouble = None
        try:
            if not is_slave(self._state.settings):
                self._state.store.delete_queues(topic)
        except NotForGood as error:
            trouble = error
        self._topics.delete(topic)
        self._offsets.forget_topic(topic)
        for forget in self._deleted:
            forget(topic)
        return trouble

    def _pop_retry_topics(self, topic: str) -> list[str]:
        """Return the POP retry topics of a topic, which are deleted together with it."""
        groups = self._offsets.groups_of(topic)
        names = [pop_retry_topic(topic, group, version) for group in groups for version in (1, 2)]
        return [name for name in names if name in self._topics.topics]

    def config(self, call: Call) -> Answer:
        """Return the configuration of one topic."""
        request: GetTopicConfig = call.request
        topic = self._topics.get(request.topic)
        if topic is None:
            return refusal(ResponseCode.TOPIC_NOT_EXIST, f"No topic in this broker. topic: {request.topic}")
        mapping = self._static_topics.by_topic.get(request.topic) if request.lo else None
        return TopicConfigAnswer(body=topic if mapping is None else with_mapping(topic, mapping))

    def all_configs(self, call: Call) -> Answer:
        """Return the configurations of all topics."""
        topics, static = self._topics, self._static_topics
        return AllTopicsAnswer(body=AllTopics(topics.topics, topics.version, static.version, static.by_topic))

    def _check_mapping(self, wanted: TopicConfig) -> None:
        """Refuse to remove queues that logical queues are mapped to. Raises: BrokerAnswer."""
        mapping = self._static_topics.by_topic.get(wanted.topic_name)
        if mapping is not None:
            from staticfire.broker.static_topics.acceptance import check_queues  # imported here: few topics are static

            check_queues(mapping, wanted)

    def _check_name(self, name: str) -> None:
        fault = topic_fault(name)
        if fault is not None:
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, fault)
        self._check_not_system(name)

    def _check_not_system(self, name: str) -> None:
        if is_system_topic(name) or name in self._topics.system:
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")


def _wanted(request: UpdateTopic) -> TopicConfig:
    return TopicConfig(
        request.topic, request.read_queue_nums, request.write_queue_nums, request.perm,
        request.topic_filter_type or "SINGLE_TAG", request.topic_sys_flag or 0, request.order,
    )  # fmt: skip


def change_attributes(old: dict[str, str] | None, changes: str | None) -> dict[str, str]:
    """Apply `+key=value,-key` to a topic's attributes. `old` is None for a new topic. Raises: BrokerAnswer."""
    attributes = dict(old or {})
    for change in (changes or "").split(","):
        change = change.strip()
        if not change:
            continue
        key, separator, value = change[1:].partition("=")
        if change[0] != ("+" if separator else "-") or not key:
            words = f"add/alter attribute format is wrong: {change.partition('=')[0]}"
            if not separator:
                words = f"delete attribute format is wrong: {change}"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        if key not in _ATTRIBUTES:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"unsupported key: {key}")
        values, changeable = _ATTRIBUTES[key]
        if old is None and change[0] == "-":
            words = f"only add attribute is supported while creating topic. key: {key}"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        if old is not None and not changeable:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"attempt to update an unchangeable attribute. key: {key}")
        if change[0] == "-":
            attributes.pop(key, None)
            continue
        if values is not None and value not in values:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"value is not in set: [{', '.join(values)}]")
        if value in _REFUSED:
            words = f"{key}={value} is not supported: {_REFUSED[value]}; leave the attribute out"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        if values is None and not _is_number_from_minus_one(value):
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"value is not in range(-1, 9223372036854775807): {value}")
        attributes[key] = value
    return attributes


def _is_number_from_minus_one(text: str) -> bool:
    return text == "-1" or (text.isdigit() and int(text) <= 0x7FFFFFFFFFFFFFFF)
