"""What RocketMQ's mqadmin prints, as rows of text with a first one of headings. Pure.

Headings and their order are RocketMQ's, since scripts look for columns; widths are what the texts need.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from staticfire.client import SendResult
from staticfire.protocol.permissions import perm_text
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.protocol.requests.routes import ClusterInfo, TopicRouteData
from staticfire.protocol.requests.statistics import ConsumeStats, TopicStats
from staticfire.protocol.requests.topics import TopicConfig

Rows = list[list[str]]

CLUSTER_HEADINGS = (
    "#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)", "#PCWait(ms)",
    "#Hour", "#SPACE", "#ACTIVATED",
)  # fmt: skip
PROGRESS_HEADINGS = (
    "#Topic", "#Broker Name", "#QID", "#Broker Offset", "#Consumer Offset", "#Diff", "#Inflight", "#LastTime",
)  # fmt: skip
HOUR_MS = 3_600_000


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines, every column as wide as its widest text and two blanks."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def topic_text(topic: TopicConfig) -> str:
    """Return a topic as TopicConfig.toString does."""
    return (
        f"TopicConfig [topicName={topic.topic_name}, readQueueNums={topic.read_queue_nums}, "
        f"writeQueueNums={topic.write_queue_nums}, perm={perm_text(topic.perm)}, topicFilterType=SINGLE_TAG, "
        "topicSysFlag=0, order=false, attributes={}]"
    )


def group_text(group: SubscriptionGroupConfig) -> str:
    """Return the settings of a group that can be given, as SubscriptionGroupConfig.toString does."""
    settings = {
        "groupName": group.group_name,
        "consumeEnable": group.consume_enable,
        "consumeFromMinEnable": group.consume_from_min_enable,
        "consumeBroadcastEnable": group.consume_broadcast_enable,
        "consumeMessageOrderly": group.consume_message_orderly,
        "retryQueueNums": group.retry_queue_nums,
        "retryMaxTimes": group.retry_max_times,
    }
    words = (f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items())
    return f"SubscriptionGroupConfig{{{', '.join(words)}}}"


def route_text(route: TopicRouteData) -> str:
    """Return a route as JSON."""
    return json.dumps(json.loads(msgspec.json.encode(route)), indent="\t")


def status_rows(brokers: Iterable[TopicStats]) -> Rows:
    """Return a topic's queues."""
    rows = [
        [
            queue.broker_name, str(queue.queue_id), str(state.min_offset), str(state.max_offset),
            _time(state.last_update_timestamp),
        ]
        for stats in brokers
        for queue, state in stats.offset_table.items()
    ]  # fmt: skip
    headings = ["#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated"]
    return [headings, *sorted(rows, key=lambda row: (row[0], int(row[1])))]


def progress_rows(brokers: Iterable[ConsumeStats]) -> Rows:
    """Return how far a group has come."""
    rows = [
        [
            queue.topic, queue.broker_name, str(queue.queue_id), str(state.broker_offset), str(state.consumer_offset),
            str(state.broker_offset - state.consumer_offset), str(max(0, state.pull_offset - state.consumer_offset)),
            _time(state.last_timestamp) or "N/A",
        ]
        for stats in brokers
        for queue, state in stats.offset_table.items()
    ]  # fmt: skip
    return [list(PROGRESS_HEADINGS), *sorted(rows, key=lambda row: (row[0], row[1], int(row[2])))]


def broker_rows(
    info: ClusterInfo, states: Mapping[str, Mapping[str, str]], wall_ms: int, wanted: str | None = None
) -> Rows:
    """Return all brokers with what they say of themselves, by address."""
    rows = [list(CLUSTER_HEADINGS)]
    for cluster, names in sorted(info.cluster_addr_table.items()):
        if wanted not in (None, cluster):
            continue
        for name in sorted(names):
            for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items()):
                state = states.get(address, {})
                rows.append([cluster, name, str(broker_id), address, *_state_columns(state, wall_ms)])
    return rows


def _state_columns(state: Mapping[str, str], wall_ms: int) -> list[str]:
    oldest_ms = int(state.get("earliestMessageTimeStamp", "-1"))
    hours = (wall_ms - oldest_ms) / HOUR_MS if oldest_ms >= 0 else 0
    return [
        state.get("brokerVersionDesc", "?"),
        f"{_rate(state, 'putTps'):.2f}({state.get('sendThreadPoolQueueSize', '0')},0ms)",
        f"{_rate(state, 'getTransferredTps'):.2f}({state.get('pullThreadPoolQueueSize', '0')},0ms)",
        state.get("pageCacheLockTimeMills", "0"),
        f"{hours:.2f}",
        f"{float(state.get('commitLogDiskRatio', '0')):.4f}",
        state.get("brokerActive", "true"),
    ]


def _rate(state: Mapping[str, str], name: str) -> float:
    """Return the first of three rates: of the last ten seconds."""
    return float(state.get(name, "0").split()[0])


def send_rows(sent: SendResult) -> Rows:
    """Return what became of a message."""
    return [
        ["#Broker Name", "#QID", "#Send Result", "#MsgId"],
        [sent.queue.broker_name, str(sent.queue.queue_id), sent.status.value, sent.message_id],
    ]


def _time(stored_ms: int) -> str:
    """Return a moment as RocketMQ prints it, in this machine's zone; empty for none."""
    if not stored_ms:
        return ""
    return datetime.fromtimestamp(stored_ms / 1000).isoformat(" ", "milliseconds").replace(".", ",")
