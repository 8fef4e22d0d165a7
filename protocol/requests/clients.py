"""Registration of clients with brokers. RocketMQ: HeartbeatData, ConsumerData, SubscriptionData."""

from typing import Annotated, Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.limits import HEARTBEAT_BYTES_MAX, HEARTBEAT_GROUPS_MAX
from staticfire.protocol.numbers import Int64


class SubscriptionData(msgspec.Struct, rename="camel", gc=False):
    """A consumer's subscription to a topic. `code_set`: the hash codes of the tags."""

    topic: str
    sub_string: str = "*"
    tags_set: list[str] = []
    code_set: list[Int64] = []
    sub_version: Int64 = 0
    expression_type: str = "TAG"
    class_filter_mode: bool = False


Subscriptions = Annotated[list[SubscriptionData], msgspec.Meta(max_length=HEARTBEAT_GROUPS_MAX)]


class ConsumerData(msgspec.Struct, rename="camel", gc=False):
    """A consumer of a client: its group, its subscriptions, and how it consumes."""

    group_name: str
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    subscription_data_set: Subscriptions = []
    unit_mode: bool = False
    consume_orderly: bool | None = None
    """Whether it consumes in order. RocketMQ's clients don't send it."""


class ProducerData(msgspec.Struct, rename="camel", gc=False):
    """A producer of a client."""

    group_name: str


Producers = Annotated[list[ProducerData], msgspec.Meta(max_length=HEARTBEAT_GROUPS_MAX)]
Consumers = Annotated[list[ConsumerData], msgspec.Meta(max_length=HEARTBEAT_GROUPS_MAX)]


class HeartbeatData(msgspec.Struct, gc=False):
    """A client's id, with all its producers and consumers."""

    client_id: str | None = msgspec.field(name="clientID", default=None)
    producer_data_set: Producers = msgspec.field(name="producerDataSet", default_factory=list)
    consumer_data_set: Consumers = msgspec.field(name="consumerDataSet", default_factory=list)
    heartbeat_fingerprint: Int64 = msgspec.field(name="heartbeatFingerprint", default=0)
    without_sub: bool = msgspec.field(name="withoutSub", default=False)
    wants_news: bool = msgspec.field(name="wantsNews", default=False)
    """Whether the client reads what only staticfire's brokers send: the broker's time, and news of its groups."""


class GroupFinding(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """A problem of a group. A finding is the same as an earlier one if kind and subject are the same."""

    kind: str
    subject: str
    """The topic or client id that it is about, if any."""
    words: str
    """The problem, the affected client, and the fix."""


class GroupNews(msgspec.Struct, rename="camel", gc=False):
    """News for a member about its group."""

    group: str
    newer_versions: dict[str, Int64] = {}
    """The topics in which another member has a different, newer subscription."""
    findings: list[GroupFinding] = []


class HeartbeatAnswer(Answer, rename="camel"):
    """The fields that RocketMQ 5 adds to success; for clients that want news, also the broker's time and any news."""

    body_type: ClassVar[Any] = list[GroupNews]

    is_sub_change: bool | None = msgspec.field(name="IS_SUB_CHANGE", default=None)
    is_support_heart_beat_v2: bool | None = msgspec.field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    broker_time_ms: Int64 | None = None
    """The broker's real time in milliseconds since 1970, independent of message time."""


@request(RequestCode.HEART_BEAT, answer=HeartbeatAnswer)
class Heartbeat(Request, rename="camel"):
    """Sent to every broker at once, then every 30 s."""

    body_type: ClassVar[Any] = HeartbeatData
    body_bytes_max: ClassVar[int | None] = HEARTBEAT_BYTES_MAX


@request(RequestCode.UNREGISTER_CLIENT)
class UnregisterClient(Request, rename="camel"):
    """Unregister a producer group, a consumer group, or both."""

    client_id: str | None = msgspec.field(name="clientID", default=None)
    producer_group: str | None = None
    consumer_group: str | None = None
    bname: str | None = None


class ConsumerIdList(msgspec.Struct, rename="camel", gc=False):
    """The client ids of a group's members."""

    consumer_id_list: list[str] = []


class ConsumerListAnswer(Answer, rename="camel"):
    """The members of a group."""

    body_type: ClassVar[Any] = ConsumerIdList


@request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, answer=ConsumerListAnswer)
class GetConsumerList(Request, rename="camel"):
    """Ask who is in a group: what a rebalance is computed from."""

    consumer_group: str
    bname: str | None = None


@request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED)
class NotifyConsumerIdsChanged(Request, rename="camel"):
    """Sent by a broker to a group's members, one-way: rebalance now."""

    consumer_group: str
    bname: str | None = None
