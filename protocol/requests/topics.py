"""Topic administration. RocketMQ: CreateTopicRequestHeader, TopicConfig."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.permissions import READ_WRITE


class TopicConfig(msgspec.Struct, rename="camel", gc=False):
    """A topic of a broker. `perm`: bits of `permissions`."""

    topic_name: str
    read_queue_nums: Int32 = 16
    write_queue_nums: Int32 = 16
    perm: Int32 = READ_WRITE
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = {}


class DataVersion(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """The version of a table. It changes with every change of the table; two are equal if all three fields are."""

    state_version: Int64 = 0
    timestamp: Int64 = 0
    counter: Int64 = 0


@request(RequestCode.UPDATE_AND_CREATE_TOPIC)
class UpdateTopic(Request, rename="camel"):
    """Create a topic, or change one. `attributes`: `+key=value` adds, `-key` removes, joined by commas."""

    topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    default_topic: str | None = None
    topic_filter_type: str | None = None
    topic_sys_flag: Int32 | None = None
    order: bool = False
    attributes: str | None = None
    force: bool | None = None
    bname: str | None = None


class TopicConfigList(msgspec.Struct, rename="camel", gc=False):
    """Topics to create in one request. The names of their attributes begin with `+` or `-`."""

    topic_config_list: list[TopicConfig] = []


@request(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST)
class UpdateTopics(Request, rename="camel"):
    """Create topics, or change them."""

    bname: str | None = None
    body_type: ClassVar[Any] = TopicConfigList


@request(RequestCode.DELETE_TOPIC_IN_BROKER)
class DeleteTopic(Request, rename="camel"):
    """Forget a topic, its queues and the groups' offsets in it."""

    topic: str
    bname: str | None = None
    when_absent: ClassVar[Mapping[str, Any]] = {"topic": ""}


class TopicConfigAnswer(Answer, rename="camel"):
    """A topic's configuration."""

    body_type: ClassVar[Any] = TopicConfig


@request(RequestCode.GET_TOPIC_CONFIG, answer=TopicConfigAnswer)
class GetTopicConfig(Request, rename="camel"):
    """Ask for a topic's configuration."""

    topic: str
    lo: bool | None = None
    bname: str | None = None


class AllTopics(msgspec.Struct, rename="camel", gc=False):
    """All topics of a broker; the details are `MappingDetail`s of its static topics.

    RocketMQ: TopicConfigAndMappingSerializeWrapper.
    """

    topic_config_table: dict[str, TopicConfig] = {}
    data_version: DataVersion = DataVersion()
    mapping_data_version: DataVersion = DataVersion()
    topic_queue_mapping_detail_map: dict[str, Any] = {}
    topic_queue_mapping_info_map: dict[str, str] = {}


class AllTopicsAnswer(Answer, rename="camel"):
    """All topics."""

    body_type: ClassVar[Any] = AllTopics


@request(RequestCode.GET_ALL_TOPIC_CONFIG, answer=AllTopicsAnswer)
class GetAllTopicConfigs(Request, rename="camel"):
    """Ask for the configurations of all topics."""
