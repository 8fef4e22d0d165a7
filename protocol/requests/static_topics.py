"""Static topics: a fixed number of logical queues, each of which is mapped to queues of brokers.

A logical queue is a list of items, oldest first. Each item states which queue of which broker stores a part of it, and
the logical offset at which that part begins. New messages go to the last item's queue; its broker leads the queue.

    logical queue 3:   0 ........ 9   10,000 ............ 10,041   20,000 ...
                       broker-a, 1    broker-b, 0                  broker-a, 5  (leader)

RocketMQ: LogicQueueMappingItem, TopicQueueMappingDetail, TopicQueueMappingInfo.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import also_as, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.topics import GetTopicConfig, TopicConfig, TopicConfigAnswer, UpdateTopic

GLOBAL_SCOPE = "__global__"


class MappingItem(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """A part of a logical queue. Offsets of -1 aren't decided yet; `start_offset` is 0 in practice."""

    gen: Int32 = 0
    queue_id: Int32 = 0
    bname: str = ""
    logic_offset: Int64 = 0
    start_offset: Int64 = 0
    end_offset: Int64 = -1
    time_of_start: Int64 = -1
    time_of_end: Int64 = -1


class MappingInfo(msgspec.Struct, rename="camel", gc=False):
    """A nameserver's information on one broker: which logical queues it leads, and its queue for each of them."""

    topic: str = ""
    bname: str = ""
    total_queues: Int32 = 0
    epoch: Int64 = 0
    scope: str = GLOBAL_SCOPE
    dirty: bool = False
    curr_id_map: dict[Int32, Int32] = {}


class MappingDetail(MappingInfo, rename="camel", gc=False):
    """A broker's information: all items of the logical queues that it leads, or led before another broker did."""

    hosted_queues: dict[Int32, list[MappingItem]] = {}


class StaticTopicConfig(TopicConfig, rename="camel", gc=False):
    """A static topic of a broker. RocketMQ: TopicConfigAndQueueMapping."""

    mapping_detail: MappingDetail | None = None


@request(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC)
class UpdateStaticTopic(UpdateTopic, rename="camel"):
    """Create a static topic on one broker, or change the mapping of its logical queues. `force`: without a check."""

    body_type: ClassVar[Any] = MappingDetail


class StaticTopicConfigAnswer(TopicConfigAnswer, rename="camel"):
    """A topic's configuration, with its mapping if it is static."""

    body_type: ClassVar[Any] = StaticTopicConfig


@also_as(RequestCode.GET_TOPIC_CONFIG, answer=StaticTopicConfigAnswer)
class GetStaticTopicConfig(GetTopicConfig, rename="camel"):
    """Request a topic's configuration, with its mapping if `lo` is true."""


def with_mapping(topic: TopicConfig, mapping: MappingDetail) -> StaticTopicConfig:
    """Return a topic's configuration with its mapping."""
    return StaticTopicConfig(**msgspec.structs.asdict(topic), mapping_detail=mapping)
