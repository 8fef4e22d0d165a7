"""Sizes of queues, progress of groups, load of a broker. RocketMQ: TopicStatsTable, ConsumeStats, ..."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int64
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.routes import KVTable


class TopicOffset(msgspec.Struct, rename="camel", gc=False):
    """The first and last offset of a queue; when its newest message was stored, 0 without one."""

    min_offset: Int64 = 0
    max_offset: Int64 = 0
    last_update_timestamp: Int64 = 0


class TopicStats(msgspec.Struct, rename="camel", gc=False):
    """All queues of a topic. RocketMQ: TopicStatsTable."""

    offset_table: dict[MessageQueue, TopicOffset] = {}
    topic_put_tps: float = 0.0


class TopicStatsAnswer(Answer, rename="camel"):
    """The state of a topic's queues."""

    body_type: ClassVar[Any] = TopicStats


@request(RequestCode.GET_TOPIC_STATS_INFO, answer=TopicStatsAnswer)
class GetTopicStats(Request, rename="camel"):
    """Ask how full a topic's queues are."""

    topic: str
    bname: str | None = None


class GroupOffset(msgspec.Struct, rename="camel", gc=False):
    """The progress of a group in a queue. RocketMQ: OffsetWrapper."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    pull_offset: Int64 = 0
    last_timestamp: Int64 = 0
    """When the last message that the group has consumed was stored; 0 without one."""


class ConsumeStats(msgspec.Struct, rename="camel", gc=False):
    """The progress of a group in all queues."""

    offset_table: dict[MessageQueue, GroupOffset] = {}
    consume_tps: float = 0.0


class ConsumeStatsAnswer(Answer, rename="camel"):
    """The progress of a group."""

    body_type: ClassVar[Any] = ConsumeStats


@request(RequestCode.GET_CONSUME_STATS, answer=ConsumeStatsAnswer)
class GetConsumeStats(Request, rename="camel"):
    """Query a group's progress: in one topic, in those of `topic_list` (joined by `;`), or in all of its own."""

    consumer_group: str
    topic: str | None = None
    topic_list: str | None = None
    bname: str | None = None


class BrokerConsumeStats(msgspec.Struct, rename="camel", gc=False):
    """The progress of all groups of a broker. RocketMQ: ConsumeStatsList."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    broker_addr: str | None = None
    total_diff: Int64 = 0
    total_inflight_diff: Int64 = 0


class BrokerConsumeStatsAnswer(Answer, rename="camel"):
    """The progress of all groups."""

    body_type: ClassVar[Any] = BrokerConsumeStats


@request(RequestCode.GET_BROKER_CONSUME_STATS, answer=BrokerConsumeStatsAnswer)
class GetBrokerConsumeStats(Request, rename="camel"):
    """Ask how far all groups of a broker have come; `is_order`: in ordered topics only."""

    is_order: bool


class QueueTimeSpan(msgspec.Struct, rename="camel", gc=False):
    """When the messages of a queue were stored, and by how much a group lags there; times are -1 without messages."""

    message_queue: MessageQueue
    min_time_stamp: Int64
    max_time_stamp: Int64
    consume_time_stamp: Int64
    delay_time: Int64
    min_time_stamp_str: str
    max_time_stamp_str: str
    consume_time_stamp_str: str


class ConsumeTimeSpans(msgspec.Struct, rename="camel", gc=False):
    """A group's lag, queue by queue. RocketMQ: QueryConsumeTimeSpanBody."""

    consume_time_span_set: list[QueueTimeSpan] = []


class ConsumeTimeSpanAnswer(Answer, rename="camel"):
    """A group's lag."""

    body_type: ClassVar[Any] = ConsumeTimeSpans


@request(RequestCode.QUERY_CONSUME_TIME_SPAN, answer=ConsumeTimeSpanAnswer)
class QueryConsumeTimeSpan(Request, rename="camel"):
    """Ask how late a group is in a topic."""

    topic: str
    group: str
    bname: str | None = None


STORE_REFUSAL = "storeRefusal"
"""The reason why the broker refuses to store, one of the texts of RuntimeInfoAnswer; only while it refuses. Our own."""


class RuntimeInfoAnswer(Answer, rename="camel"):
    """The state of the broker, as texts by name."""

    body_type: ClassVar[Any] = KVTable


@request(RequestCode.GET_BROKER_RUNTIME_INFO, answer=RuntimeInfoAnswer)
class GetRuntimeInfo(Request, rename="camel"):
    """Ask what the broker is doing."""


class StatsSpan(msgspec.Struct, rename="camel", gc=False):
    """The count in a period of time: sum, per second, and average per event. RocketMQ: BrokerStatsItem."""

    sum: Int64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class StatsSpans(msgspec.Struct, rename="camel", gc=False):
    """The counts of the last minute, hour and day. RocketMQ: BrokerStatsData."""

    stats_minute: StatsSpan = msgspec.field(default_factory=StatsSpan)
    stats_hour: StatsSpan = msgspec.field(default_factory=StatsSpan)
    stats_day: StatsSpan = msgspec.field(default_factory=StatsSpan)


class StatsAnswer(Answer, rename="camel"):
    """The counts of one counter."""

    body_type: ClassVar[Any] = StatsSpans


@request(RequestCode.VIEW_BROKER_STATS_DATA, answer=StatsAnswer)
class ViewStats(Request, rename="camel"):
    """Ask for one of the broker's counters, such as TOPIC_PUT_NUMS of a topic."""

    stats_name: str
    stats_key: str


class MetricRow(msgspec.Struct, rename="camel", gc=False):
    """One time series at one moment, as in Prometheus."""

    name: str
    value: float
    labels: dict[str, str] = {}


class MetricsAnswer(Answer, rename="camel"):
    """The metrics of a broker, under the names of RocketMQ's metrics."""

    body_type: ClassVar[Any] = list[MetricRow]


@request(RequestCode.GET_METRICS, answer=MetricsAnswer)
class GetMetrics(Request, rename="camel"):
    """Ask for all that `GET /metrics` shows of a broker. staticfire's own."""
