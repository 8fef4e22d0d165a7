"""What Prometheus is told of a broker, beside what a RocketMQ 5.3.3 told it in the same situation."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from staticfire.broker.metrics import version_word
from staticfire.client import Message, MessageModel
from staticfire.control.metrics import METRICS, Scrape, families_of
from staticfire.protocol.requests.clients import ConsumerData, Heartbeat, HeartbeatData, SubscriptionData
from staticfire.protocol.requests.pop import PopMessage
from staticfire.protocol.requests.statistics import GetMetrics, MetricRow
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.consuming import GROUP, TOPIC, Shop, failing, forever, later
from tests.scenarios.receiving import receive_all, simple

ROCKETMQ: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "rocketmq_metrics.json").read_text())
"""Names, kinds and labels that RocketMQ 5.3.3 wrote with metricsExporterType=PROM, after sends, failures, pops."""
NOT_SEEN_THERE = {"rocketmq_send_to_dlq_messages_total", "rocketmq_half_messages"}
WITHOUT_TOPIC = {"rocketmq_timing_messages"}

BROKER = "10.0.1.1:10911"


@pytest_asyncio.fixture
async def shop(world: SimulatedWorld) -> AsyncIterator[Shop]:
    shop = Shop(world)
    yield await shop.open(queues=2)
    await shop.close()


async def scraped(shop: Shop) -> list[MetricRow]:
    answer = await shop.producer.client.pool.ask(BROKER, GetMetrics())
    rows: list[MetricRow] = answer.body
    return rows


def value(rows: list[MetricRow], name: str, **labels: str) -> float:
    found = [row.value for row in rows if row.name == f"rocketmq_{name}" and labels.items() <= row.labels.items()]
    assert len(found) == 1, (name, labels, found)
    return found[0]


@pytest.mark.row("S5")
async def test_a_group_that_lags_behind(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("stuck", forever)
    await shop.send(*[b"0123456789"] * 7, queue=0)
    await world.run_for(seconds=30)
    rows = await scraped(shop)
    billing = {"consumer_group": GROUP, "topic": TOPIC, "is_retry": "false", "is_system": "false"}
    assert value(rows, "consumer_lag_messages", **billing) == 7
    assert value(rows, "consumer_inflight_messages", **billing) == 7
    assert value(rows, "consumer_ready_messages", **billing) == 0
    assert 29_000 <= value(rows, "consumer_lag_latency_milliseconds", **billing) <= 31_000
    assert value(rows, "consumer_queueing_latency_milliseconds", **billing) == 0
    assert value(rows, "messages_in_total", topic=TOPIC, message_type="normal", is_system="false") == 7
    assert value(rows, "messages_out_total", topic=TOPIC, consumer_group=GROUP) == 7
    assert value(rows, "throughput_in_total", topic=TOPIC) > 70
    assert value(rows, "consumer_connections", consumer_group=GROUP, consume_mode="push", language="python") == 1
    assert value(rows, "producer_connections", version="v5_3_3", protocol_type="remoting") >= 1
    assert value(rows, "broker_permission") == 6


async def standing(shop: Shop, is_retry: str = "false") -> list[float]:
    """Return how many messages the group is behind, how many of these are in flight, and how many ready."""
    rows = await scraped(shop)
    names = ("consumer_lag_messages", "consumer_inflight_messages", "consumer_ready_messages")
    return [value(rows, name, consumer_group=GROUP, topic=TOPIC, is_retry=is_retry) for name in names]


@pytest.mark.row("S5")
async def test_a_group_that_pops_is_behind_until_it_acknowledges(world: SimulatedWorld, shop: Shop) -> None:
    taker = await world.start("taker", simple(shop, "taker"))
    await shop.send(*[b"0123456789"] * 10, queue=0)
    taken = await taker.receive(5, invisible_ms=20_000)
    assert await standing(shop) == [10, 5, 5]
    for message in taken[:2]:
        await taker.ack(message)
    assert await standing(shop) == [8, 3, 5]
    await world.run_for(seconds=30)
    assert await standing(shop) == [5, 0, 5]
    assert await standing(shop, is_retry="true") == [3, 0, 3]
    rows = await scraped(shop)
    late_ms = [value(rows, "consumer_lag_latency_milliseconds", is_retry=word) for word in ("false", "true")]
    assert late_ms[0] > 29_000 > 11_000 > late_ms[1] > 9_000, "what came back is as old as its copies"
    await receive_all(taker, 8)
    assert await standing(shop, is_retry="true") == [3, 3, 0]
    rows = await scraped(shop)
    given = [value(rows, "messages_out_total", topic=TOPIC, is_retry=word) for word in ("false", "true")]
    assert given == [10, 3]


async def test_what_is_popped_in_order_is_behind_once(world: SimulatedWorld, shop: Shop) -> None:
    await shop.send(*[b"x"] * 10, queue=0)
    pop = PopMessage(GROUP, TOPIC, 0, 5, 20_000, 0, 0, 0, order=True)
    assert (await shop.producer.client.pool.ask(BROKER, pop)).code == 0
    assert await standing(shop) == [10, 5, 5]
    await world.run_for(seconds=30)
    assert await standing(shop) == [10, 0, 10]


@pytest.mark.parametrize(
    ("consume_type", "mode"), [("CONSUME_POP", "pop"), ("CONSUME_PASSIVELY", "push"), ("CONSUME_ACTIVELY", "pull")]
)
async def test_how_members_consume_is_shown_in_rocketmqs_words(shop: Shop, consume_type: str, mode: str) -> None:
    data = ConsumerData(GROUP, consume_type, "CLUSTERING", None, [SubscriptionData(TOPIC)])
    heartbeat = Heartbeat(body=HeartbeatData(client_id="one", consumer_data_set=[data]))
    assert (await shop.producer.client.pool.ask(BROKER, heartbeat)).code == 0
    assert value(await scraped(shop), "consumer_connections", consumer_group=GROUP, consume_mode=mode) == 1


async def test_what_waits_and_what_is_dead(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("clumsy", later, max_reconsume_times=1)
    await shop.send(b"poison")
    await shop.producer.send(Message(TOPIC, b"in an hour", delay_level=17))
    await shop.producer.send(Message(TOPIC, b"in ten minutes", delay_ms=600_000))
    await world.run_for(seconds=60)
    rows = await scraped(shop)
    assert value(rows, "timing_messages") == 2
    assert value(rows, "send_to_dlq_messages_total", consumer_group=GROUP) == 1
    assert value(rows, "messages_in_total", topic=f"%RETRY%{GROUP}", message_type="delay") == 1
    assert value(rows, "consumer_lag_messages", topic=f"%RETRY%{GROUP}", is_retry="true") == 0
    assert value(rows, "messages_in_total", topic="SCHEDULE_TOPIC_XXXX", is_system="true", message_type="delay") == 2
    assert value(rows, "messages_in_total", topic="rmq_sys_wheel_timer", is_system="true", message_type="delay") == 1


async def test_names_kinds_and_labels_are_those_of_rocketmq(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("clumsy", failing(1))
    await shop.send(b"one", b"two")
    await world.run_for(seconds=60)
    rows = await scraped(shop)
    assert {row.name for row in rows} <= METRICS.keys()
    for row in rows:
        if row.name in NOT_SEEN_THERE:
            continue
        expected = set(ROCKETMQ[row.name]["labels"]) - ({"topic"} if row.name in WITHOUT_TOPIC else set())
        assert set(row.labels) == expected, row
    text = generate_latest(Scrape(list(families_of(rows)))).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert family.type == ROCKETMQ.get(sample.name, {}).get("kind", family.type), sample
    read = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    assert {row.name for row in rows} == read


async def test_broadcasting_groups_and_deleted_topics_have_no_lag(world: SimulatedWorld, shop: Shop) -> None:
    await shop.start("news", message_model=MessageModel.BROADCASTING)
    await shop.send(b"one")
    await world.run_for(seconds=30)
    assert not [row for row in await scraped(shop) if row.name == "rocketmq_consumer_lag_messages"]


@pytest.mark.parametrize(
    ("number", "word"),
    [(479, "v5_3_3"), (478, "v5_3_3_snapshot"), (409, "v4_9_8"), (317, "v4_5_2"), (63, "63"), (-1, "-1")],
)
def test_versions_as_rocketmq_writes_them(number: int, word: str) -> None:
    assert version_word(number) == word
