"""The output of RocketMQ's mqadmin about topics, groups and brokers, with its headings and widths. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from staticfire.cli.mqadmin.java_text import lines_of, moment, moment_ms, object_text
from staticfire.client import SendResult
from staticfire.protocol.permissions import perm_text
from staticfire.protocol.requests.groups import GroupRetryPolicy, SubscriptionGroupConfig
from staticfire.protocol.requests.routes import ClusterInfo, TopicRouteData
from staticfire.protocol.requests.statistics import ConsumeStats, TopicStats
from staticfire.protocol.requests.topics import TopicConfig

HOUR_MS = 3_600_000
STATUS = "%-32s  %-4s  %-20s  %-20s    %s"
PROGRESS = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s%s"
PROGRESS_WITH_CLIENT = "%-64s  %-32s  %-4s  %-20s  %-20s  %-20s %-20s %-20s%s"
BROKERS = "%-22s  %-22s  %-4s  %-22s %-16s  %16s  %30s  %-22s  %11s  %-12s  %-8s  %10s"
BROKER_HEADINGS = (
    "#Cluster Name", "#Broker Name", "#BID", "#Addr", "#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)", "#Timer(Progress)",
    "#PCWait(ms)", "#Hour", "#SPACE", "#ACTIVATED",
)  # fmt: skip
TOTALS = "%-16s  %-32s %14s %14s %14s %14s"
ROUTE = "%-45s %-32s %-50s %-10s %-11s %-5s"
SENT = "%-32s  %-4s  %-20s    %s"
OFFSETS = "%-40s  %-40s  %-40s"


def topic_text(topic: TopicConfig) -> str:
    """Return a topic in the format of TopicConfig.toString."""
    fields = {
        "topicName": topic.topic_name,
        "readQueueNums": topic.read_queue_nums,
        "writeQueueNums": topic.write_queue_nums,
        "perm": perm_text(topic.perm),
        "topicFilterType": topic.topic_filter_type,
        "topicSysFlag": topic.topic_sys_flag,
        "order": topic.order,
        "attributes": topic.attributes,
    }
    return object_text("TopicConfig ", fields, "[]")


def group_fields(group: SubscriptionGroupConfig) -> dict[str, object]:
    """Return the settings of a group under RocketMQ's names, in its order."""
    return {
        "groupName": group.group_name,
        "consumeEnable": group.consume_enable,
        "consumeFromMinEnable": group.consume_from_min_enable,
        "consumeBroadcastEnable": group.consume_broadcast_enable,
        "consumeMessageOrderly": group.consume_message_orderly,
        "retryQueueNums": group.retry_queue_nums,
        "retryMaxTimes": group.retry_max_times,
        "groupRetryPolicy": _retry_text(group.group_retry_policy),
        "brokerId": group.broker_id,
        "whichBrokerWhenConsumeSlowly": group.which_broker_when_consume_slowly,
        "notifyConsumerIdsChangedEnable": group.notify_consumer_ids_changed_enable,
        "groupSysFlag": group.group_sys_flag,
        "consumeTimeoutMinute": group.consume_timeout_minute,
        "subscriptionDataSet": None
        if group.subscription_data_set is None
        else f"[{', '.join(f'{one.topic} {one.expression}' for one in group.subscription_data_set)}]",
        "attributes": group.attributes,
    }


def group_text(group: SubscriptionGroupConfig) -> str:
    """Return a group in the format of SubscriptionGroupConfig.toString."""
    return object_text("SubscriptionGroupConfig", group_fields(group))


def _retry_text(policy: GroupRetryPolicy) -> str:
    slower, table = policy.exponential_retry_policy, policy.customized_retry_policy
    fields = {
        "type": policy.type,
        "exponentialRetryPolicy": slower
        and object_text(
            "ExponentialRetryPolicy", {"initial": slower.initial, "max": slower.max, "multiplier": slower.multiplier}
        ),
        "customizedRetryPolicy": table
        and object_text("CustomizedRetryPolicy", {"next": f"[{', '.join(map(str, table.next))}]"}),
    }
    return object_text("GroupRetryPolicy", fields)


def route_text(route: TopicRouteData) -> str:
    """Return a route as JSON. RocketMQ's output has numbers as keys, which JSON parsers refuse."""
    shown = json.loads(msgspec.json.encode(route))
    for one in (shown, *shown["brokerDatas"]):
        for name in [name for name, value in one.items() if value is None]:
            del one[name]  # Java writes no null.
    return json.dumps(shown, indent="\t")


def route_table(route: TopicRouteData) -> str:
    """Return a route as a table with a total."""
    queues = {one.broker_name: one for one in route.queue_datas}
    rows = [
        (broker.cluster, broker.broker_name, "{" + ", ".join(f"{n}={a}" for n, a in broker.broker_addrs.items()) + "}",
         queues[broker.broker_name].read_queue_nums, queues[broker.broker_name].write_queue_nums,
         queues[broker.broker_name].perm)
        for broker in sorted(route.broker_datas, key=lambda one: one.broker_name)
        if broker.broker_name in queues
    ]  # fmt: skip
    reads, writes = (sum(int(row[column]) for row in rows) for column in (3, 4))
    headings = ("#ClusterName", "#BrokerName", "#BrokerAddrs", "#ReadQueue", "#WriteQueue", "#Perm")
    table = lines_of(ROUTE, headings, *rows)
    return f"{table}\n{'-' * 158}\n{lines_of(ROUTE, ('Total:', len(queues), '', reads, writes, ''))}"


def status_text(brokers: Iterable[TopicStats]) -> str:
    """Return the table of a topic's queues."""
    rows = [
        (queue.broker_name, queue.queue_id, state.min_offset, state.max_offset,
         moment_ms(state.last_update_timestamp) if state.last_update_timestamp > 0 else "")
        for stats in brokers
        for queue, state in stats.offset_table.items()
    ]  # fmt: skip
    headings = ("#Broker Name", "#QID", "#Min Offset", "#Max Offset", "#Last Updated")
    # RocketMQ prints the rate of an empty table here, not the sum of all rates.
    return f"{lines_of(STATUS, headings, *sorted(rows))}\n\nTopic Put TPS: 0.0"


def progress_text(brokers: Sequence[ConsumeStats], clients: Mapping[tuple[str, str, int], str] | None) -> str:
    """Return the progress of a group. `clients`: the client of each queue, as one more column."""
    found = {
        (queue.topic, queue.broker_name, queue.queue_id): state
        for stats in brokers
        for queue, state in stats.offset_table.items()
    }
    headings = [
        "#Topic",
        "#Broker Name",
        "#QID",
        "#Broker Offset",
        "#Consumer Offset",
        "#Diff",
        "#Inflight",
        "#LastTime",
    ]
    rows, diffs, inflights = [], 0, 0
    for place, state in sorted(found.items()):
        diff, inflight = state.broker_offset - state.consumer_offset, state.pull_offset - state.consumer_offset
        diffs, inflights = diffs + diff, inflights + inflight
        last = moment(state.last_timestamp) if state.last_timestamp else "N/A"
        row: list[object] = [*place, state.broker_offset, state.consumer_offset, diff, inflight, last]
        rows.append(row if clients is None else [*row[:5], clients.get(place, "N/A"), *row[5:]])
    if clients is not None:
        headings.insert(5, "#Client IP")
    pattern = PROGRESS if clients is None else PROGRESS_WITH_CLIENT
    table = [lines_of(pattern, headings), *(lines_of(f"{pattern[:-2]} %s", row) for row in rows)]
    speed = sum(stats.consume_tps for stats in brokers)
    sums = f"Consume TPS: {speed:.2f}\nConsume Diff Total: {diffs}\nConsume Inflight Total: {inflights}"
    return "\n".join([*table, "", sums])


def offsets_text(rows: Iterable[tuple[str, int, int]]) -> str:
    """Return the table of new offsets."""
    return lines_of(OFFSETS, ("#brokerName", "#queueId", "#offset"), *rows)


States = Mapping[str, Mapping[str, str]]


def broker_places(info: ClusterInfo, wanted: str | None) -> list[tuple[str, str, int, str]]:
    """Return cluster, name, id and address of all brokers, or of those of one cluster."""
    return [
        (cluster, name, broker_id, address)
        for cluster, names in sorted(info.cluster_addr_table.items())
        if wanted in (None, cluster)
        for name in sorted(names)
        for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
    ]


def brokers_text(info: ClusterInfo, states: States, wall_ms: int, wanted: str | None) -> str:
    """Return the table of all brokers. `states`: their own reports, by address."""
    places = broker_places(info, wanted)
    rows = [[*place, *_state_columns(states.get(place[3], {}), wall_ms)] for place in places]
    return lines_of(BROKERS, BROKER_HEADINGS, *rows)


def _state_columns(state: Mapping[str, str], wall_ms: int) -> list[str]:
    oldest_ms = int(state.get("earliestMessageTimeStamp") or 0)
    unknown = "N" if state else ""  # RocketMQ's words for an older broker, and for one without a response
    waits = {
        kind: f"{state.get(f'{kind}ThreadPoolQueueSize', unknown)},"
        f"{state.get(f'{kind}ThreadPoolQueueHeadWaitTimeMills', unknown)}ms"
        for kind in ("send", "pull", "ack")
    }
    behind, left, waiting, stored, due = (
        float(state.get(f"timer{name}") or 0)
        for name in ("ReadBehind", "OffsetBehind", "CongestNum", "EnqueueTps", "DequeueTps")
    )
    return [
        state.get("brokerVersionDesc", ""),
        f"{_rate(state, 'putTps'):9.2f}({waits['send']})",
        f"{_rate(state, 'getTransferredTps'):9.2f}({waits['pull']}|{waits['ack']})",
        f"{behind:.0f}-{left:.0f}({waiting / 10_000:.1f}w, {stored:.1f}, {due:.1f})",
        state.get("pageCacheLockTimeMills", ""),
        f"{(wall_ms - oldest_ms) / HOUR_MS if 'earliestMessageTimeStamp' in state else 0:.2f}",
        f"{float(state.get('commitLogDiskRatio') or 0):.4f}",
        "true" if state.get("brokerActive") == "true" else "false",
    ]


def _rate(state: Mapping[str, str], name: str) -> float:
    """Return the first of three rates, that of the last ten seconds. RocketMQ reports a blank just after its start."""
    return float((state.get(name, "").split() or ["0"])[0])


def totals_text(info: ClusterInfo, states: States, wanted: str | None) -> str:
    """Return the numbers of messages that brokers received and delivered, yesterday and today."""
    rows = []
    for cluster, name, _, address in broker_places(info, wanted):
        state = states.get(address, {})
        morning, before, now = (
            [int(state.get(f"msg{kind}Total{when}") or 0) for kind in ("Put", "Get")]
            for when in ("TodayMorning", "YesterdayMorning", "TodayNow")
        )
        yesterday = [later - earlier for later, earlier in zip(morning, before, strict=True)]
        today = [later - earlier for later, earlier in zip(now, morning, strict=True)]
        rows.append((cluster, name, *yesterday, *today))
    headings = ("#Cluster Name", "#Broker Name", "#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
    return lines_of(TOTALS, headings, *rows)


def sent_text(sent: SendResult) -> str:
    """Return the result of a send."""
    row = (sent.queue.broker_name, sent.queue.queue_id, sent.status.value, sent.message_id)
    return lines_of(SENT, ("#Broker Name", "#QID", "#Send Result", "#MsgId"), row)
