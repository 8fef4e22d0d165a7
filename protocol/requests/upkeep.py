"""Cleaning up a broker, and the data that its replicas copy. RocketMQ: AdminBrokerProcessor, HARuntimeInfo."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int64
from staticfire.protocol.requests.routes import TopicListAnswer
from staticfire.protocol.requests.topics import DataVersion


@request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, answer=TopicListAnswer)
class GetSystemTopics(Request, rename="camel"):
    """Ask for the topics that are the broker's own."""


@request(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
class CleanQueues(Request, rename="camel"):
    """Remove what queues have of messages that are gone."""


@request(RequestCode.CLEAN_UNUSED_TOPIC)
class CleanTopics(Request, rename="camel"):
    """Remove the queues of topics that aren't there any more."""


@request(RequestCode.DELETE_EXPIRED_COMMITLOG)
class DeleteExpired(Request, rename="camel"):
    """Remove now what retention lets go."""


class ConsumerOffsetFile(msgspec.Struct, rename="camel", gc=False):
    """consumerOffset.json. The keys are topic@group."""

    offset_table: dict[str, dict[int, Int64]] = {}
    group_topic_map: dict[str, list[str]] = {}
    data_version: DataVersion = DataVersion()


class AllOffsetsAnswer(Answer, rename="camel"):
    """The offsets of all groups."""

    body_type: ClassVar[Any] = ConsumerOffsetFile


@request(RequestCode.GET_ALL_CONSUMER_OFFSET, answer=AllOffsetsAnswer)
class GetAllOffsets(Request, rename="camel"):
    """Query the offsets of all groups."""


class DelayOffsetFile(msgspec.Struct, rename="camel", gc=False):
    """delayOffset.json: the offset up to which each level has been delivered."""

    offset_table: dict[int, Int64] = {}
    data_version: DataVersion = DataVersion()


class DelayOffsetsAnswer(Answer, rename="camel"):
    """The offset up to which each level has been delivered."""

    body_type: ClassVar[Any] = DelayOffsetFile


@request(RequestCode.GET_ALL_DELAY_OFFSET, answer=DelayOffsetsAnswer)
class GetDelayOffsets(Request, rename="camel"):
    """Ask how far each delay level has been delivered."""


class ReplicaState(msgspec.Struct, rename="camel", gc=False):
    """A slave as its master sees it. RocketMQ: HARuntimeInfo.HAConnectionRuntimeInfo."""

    addr: str
    slave_ack_offset: Int64 = 0
    diff: Int64 = 0
    in_sync: bool = False
    transferred_byte_in_second: Int64 = 0
    transfer_from_where: Int64 = 0


class CopyRuntime(msgspec.Struct, rename="camel", gc=False):
    """A slave's own view of its copy. RocketMQ: HARuntimeInfo.HAClientRuntimeInfo."""

    last_read_timestamp: Int64 = 0
    last_write_timestamp: Int64 = 0
    master_addr: str | None = None
    master_flush_offset: Int64 = 0
    max_offset: Int64 = 0
    transferred_byte_in_second: Int64 = 0


class HighAvailability(msgspec.Struct, gc=False):
    """A master and its slaves, or one slave. RocketMQ: HARuntimeInfo."""

    master: bool = True
    master_commit_log_max_offset: Int64 = msgspec.field(name="masterCommitLogMaxOffset", default=0)
    in_sync_slave_nums: Int64 = msgspec.field(name="inSyncSlaveNums", default=0)
    ha_connection_info: list[ReplicaState] = msgspec.field(name="haConnectionInfo", default_factory=list)
    ha_client_runtime_info: CopyRuntime = msgspec.field(name="haClientRuntimeInfo", default_factory=CopyRuntime)


class HighAvailabilityAnswer(Answer, rename="camel"):
    """A master and its slaves."""

    body_type: ClassVar[Any] = HighAvailability


@request(RequestCode.GET_BROKER_HA_STATUS, answer=HighAvailabilityAnswer)
class GetHighAvailability(Request, rename="camel"):
    """Ask how far the slaves have come."""
