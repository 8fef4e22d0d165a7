"""GET /metrics: the metrics of RocketMQ 5's Prometheus exporter, under the same names.

Each scrape queries every broker, which reads its tables then (broker/metrics.py). A broker that doesn't respond is left
out and has `staticfire_up` 0; the scrape doesn't fail. prometheus_client writes the text; the first scrape loads it.
"""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from staticfire.control.controlled_cluster import ControlledCluster
from staticfire.control.routes import TEXT, ControlCall, Reply, Route
from staticfire.protocol.errors import NetworkError, StaticfireError, broker_answer
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.requests.statistics import GetMetrics, MetricRow

if TYPE_CHECKING:
    from prometheus_client import Metric

TIMEOUT_MS = 5_000
METRICS = {
    "rocketmq_messages_in_total": "messages stored, by topic",
    "rocketmq_throughput_in_total": "bytes stored, by topic",
    "rocketmq_messages_out_total": "messages given to consumers, by group and topic",
    "rocketmq_throughput_out_total": "bytes given to consumers, by group and topic",
    "rocketmq_send_to_dlq_messages_total": "dead letters, by group",
    "rocketmq_consumer_lag_messages": "messages that a group hasn't committed, or has popped and not acknowledged",
    "rocketmq_consumer_lag_latency_milliseconds": "how old the first of them is, in message time",
    "rocketmq_consumer_inflight_messages": "those of them that it has pulled or popped",
    "rocketmq_consumer_queueing_latency_milliseconds": "how old the first message is that a group hasn't taken",
    "rocketmq_consumer_ready_messages": "those of them that it hasn't",
    "rocketmq_producer_connections": "producers that are connected",
    "rocketmq_consumer_connections": "members of a group that are connected",
    "rocketmq_half_messages": "transactions that aren't ended",
    "rocketmq_timing_messages": "messages that wait for their time",
    "rocketmq_storage_size_bytes": "size of the log",
    "rocketmq_storage_flush_behind_bytes": "the end of the log that isn't safe from a loss of power yet",
    "rocketmq_storage_dispatch_behind_bytes": "the end of the log that no queue has yet",
    "rocketmq_storage_message_reserve_time_milliseconds": "how old the oldest message is, in message time",
    "rocketmq_broker_permission": "6: read and write, 4: read only, 2: write only",
    "rocketmq_topic_number": "topics of a broker",
    "rocketmq_consumer_group_number": "consumer groups of a broker",
    "staticfire_up": "whether a server answers; this one and the next are staticfire's own",
    "staticfire_message_time_seconds": "what the clock of message time shows",
}
"""All metrics with their descriptions. RocketMQ: BrokerMetricsConstant."""


async def metrics(call: ControlCall) -> Reply:
    """Respond to a scrape."""
    from prometheus_client.exposition import generate_latest

    families = list(families_of(await _rows(call.cluster)))
    return Reply(generate_latest(Scrape(families)).decode(), kind=TEXT)


async def _rows(cluster: ControlledCluster) -> list[MetricRow]:
    """Query every broker, and the clock."""
    addresses = await _addresses(cluster)
    of_brokers = await asyncio.gather(*(_broker_rows(cluster, name, addresses[name]) for name in addresses))
    rows = [row for rows in of_brokers for row in rows]
    try:
        message_ms = (await cluster.clock.now()).message_ms
    except StaticfireError:
        return [*rows, _up("nameserver", False)]
    return [*rows, _up("nameserver", True), MetricRow("staticfire_message_time_seconds", message_ms / 1000)]


async def _addresses(cluster: ControlledCluster) -> dict[str, str]:
    """Return the address of each broker's master now; where none is registered, the address at the cluster's start."""
    if not cluster.known_brokers.may_change:
        return dict(cluster.view.addresses)
    try:
        sets = await cluster.replicas.registered()
    except StaticfireError:
        return dict(cluster.view.addresses)
    masters = {name: members[MASTER_ID] for name, members in sets.items() if MASTER_ID in members}
    return {**cluster.view.addresses, **masters}


async def _broker_rows(cluster: ControlledCluster, name: str, address: str) -> list[MetricRow]:
    try:
        answer = await cluster.pool.ask(address, GetMetrics(), TIMEOUT_MS)
    except NetworkError:
        return [_up(name, False)]
    if answer.code != 0:
        raise broker_answer(answer.code, answer.remark, f"metrics of {name}")
    return [_up(name, True), *(answer.body or ())]


def _up(name: str, is_so: bool) -> MetricRow:
    return MetricRow("staticfire_up", float(is_so), {"node_id": name})


def families_of(rows: Iterable[MetricRow]) -> "Iterator[Metric]":
    """Yield rows as prometheus_client's families, one per name. Unknown names are left out."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    by_name: dict[str, list[MetricRow]] = {name: [] for name in METRICS}
    for row in rows:
        if row.name in by_name:
            by_name[row.name].append(row)
    for name, of_name in by_name.items():
        kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
        family = kind(name, METRICS[name])
        for row in of_name:
            family.add_sample(name, row.labels, row.value)
        yield family


class Scrape:
    """A registry for prometheus_client, with the families of one scrape."""

    def __init__(self, families: "list[Metric]") -> None:
        self._families = families

    def collect(self) -> "Iterable[Metric]":
        """Return all families."""
        return self._families


ROUTES = (Route("GET", "/metrics", "for Prometheus: RocketMQ 5's names and labels", metrics, kind=TEXT),)
