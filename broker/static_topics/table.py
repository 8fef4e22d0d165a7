"""The static topics of a broker. RocketMQ: TopicQueueMappingManager.

Saved in topicQueueMapping.json, under RocketMQ's names; a broker that never had a static topic has no such file.
"""

from collections.abc import Callable

import msgspec

from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.topics import TopicTable
from staticfire.protocol.requests.static_topics import MappingDetail, MappingInfo
from staticfire.protocol.requests.topics import DataVersion, TopicConfig
from staticfire.protocol.times import MessageMs

FILE = "topicQueueMapping.json"


class _SavedMappings(msgspec.Struct, rename="camel"):
    topic_queue_mapping_info_map: dict[str, MappingDetail]
    data_version: DataVersion = DataVersion()


class StaticTopicTable:
    """The mappings of a broker's static topics, by topic."""

    def __init__(self, topics: TopicTable, config_files: ConfigFiles, message_ms: Callable[[], MessageMs]) -> None:
        self.by_topic: dict[str, MappingDetail] = {}
        """This is always the same dictionary: handlers keep a reference to it."""
        self.version = DataVersion()
        self._topics = topics
        self._config_files = config_files
        self._message_ms = message_ms
        self._is_filed = False
        self._listeners: list[Callable[[str], None]] = []
        topics.on_change(self._topic_changed)

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with each topic whose mapping has changed."""
        self._listeners.append(listener)

    def restore(self) -> None:
        """Load the saved mappings, except those of deleted topics. Raises: StorageError (they can't be read)."""
        self._file()
        self._topic_changed(None)

    def _file(self) -> None:
        self._is_filed = True
        self._config_files.restore(FILE, self.snapshot, self._take_in)

    def put(self, detail: MappingDetail) -> bool:
        """Store a mapping; return whether it has changed. It is saved soon. Raises: StorageError."""
        if self.by_topic.get(detail.topic) == detail:
            return False
        if not self._is_filed:
            self._file()
        self.by_topic[detail.topic] = detail
        self._moved(detail.topic)
        return True

    def take_copy(self, data: bytes) -> None:
        """Replace all mappings by those of a master. Raises: StorageError, msgspec.MsgspecError, ValueError."""
        if not self._is_filed:
            self._file()
        before = dict(self.by_topic)
        self.by_topic.clear()
        try:
            self._take_in(data)
        except BaseException:
            self.by_topic.update(before)
            raise
        self._config_files.changed(FILE)
        for topic in dict.fromkeys([*before, *self.by_topic]):
            for listener in self._listeners:
                listener(topic)

    def infos(self, topics: dict[str, TopicConfig]) -> dict[str, MappingInfo]:
        """Return what nameservers receive about the static topics among these."""
        if not self.by_topic:
            return {}
        from staticfire.broker.static_topics.mapping import info_of  # imported here: few brokers have static topics

        return {name: info_of(detail) for name, detail in self.by_topic.items() if name in topics}

    def _topic_changed(self, topic: TopicConfig | None) -> None:
        """Forget the mappings of deleted topics."""
        if topic is None:
            for name in [name for name in self.by_topic if self._topics.get(name) is None]:
                del self.by_topic[name]
                self._moved(name)

    def _moved(self, topic: str) -> None:
        self.version = DataVersion(self.version.state_version, self._message_ms(), self.version.counter + 1)
        self._config_files.changed(FILE)
        for listener in self._listeners:
            listener(topic)

    def snapshot(self) -> bytes:
        """Return the content of topicQueueMapping.json."""
        saved = _SavedMappings(self.by_topic, self.version)
        return msgspec.json.format(msgspec.json.encode(saved), indent=1)

    def _take_in(self, data: bytes) -> None:
        saved = msgspec.json.decode(data, type=_SavedMappings)
        for name, detail in saved.topic_queue_mapping_info_map.items():
            if detail.topic != name:
                raise ValueError(f"the entry {name!r} contains the mapping of {detail.topic!r}")
        self.by_topic.update(saved.topic_queue_mapping_info_map)
        self.version = saved.data_version
