"""What dashboards ask a broker: queues, progress, lateness, counters."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from staticfire.client import ClusterClient
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.offsets import UpdateConsumerOffset
from staticfire.protocol.requests.send_back import SendBack
from staticfire.protocol.requests.statistics import (
    ConsumeStats,
    GetBrokerConsumeStats,
    GetConsumeStats,
    GetRuntimeInfo,
    GetTopicStats,
    GroupOffset,
    QueryConsumeTimeSpan,
    StatsSpans,
    TopicOffset,
    ViewStats,
)
from staticfire.runtime.machine import Bytes
from staticfire.simulation.world.loop import JumpingLoop
from staticfire.simulation.world.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, NAME, BrokerStand


@pytest_asyncio.fixture
async def stand(world: SimulatedWorld) -> AsyncIterator[BrokerStand]:
    stand = BrokerStand(world)
    await stand.start()
    await stand.put_topic("orders", 2)
    yield stand
    await stand.close()


def queue(queue_id: int, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "broker-a", queue_id)


async def progress(stand: BrokerStand, group: str, topic: str | None = None) -> ConsumeStats:
    answer = await stand.ask(GetConsumeStats(group, topic))
    stats: ConsumeStats = answer.body
    return stats


async def commit(stand: BrokerStand, offset: int, topic: str = "orders", group: str = "billing") -> None:
    await stand.put_group(group)
    assert (await stand.ask(UpdateConsumerOffset(group, topic, 0, offset))).code == 0


async def counted(stand: BrokerStand, name: str, key: str) -> StatsSpans:
    answer = await stand.ask(ViewStats(name, key))
    assert answer.code == 0, answer.remark
    spans: StatsSpans = answer.body
    return spans


async def test_an_empty_topic_shows_all_its_queues(stand: BrokerStand) -> None:
    answer = await stand.ask(GetTopicStats("orders"))
    assert answer.body.offset_table == {queue(0): TopicOffset(), queue(1): TopicOffset()}
    answer = await stand.ask(GetTopicStats("nothing"))
    assert (answer.code, answer.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[nothing] not exist")


async def test_a_queue_reports_when_its_newest_message_was_stored(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"a")
    await world.run_for(seconds=5)
    await stand.send("orders", b"b")
    stored_ms = (await stand.stored("orders"))[-1].stored_ms
    answer = await stand.ask(GetTopicStats("orders"))
    assert answer.body.offset_table[queue(0)] == TopicOffset(0, 2, stored_ms)


@pytest.mark.row("F1")
async def test_progress_is_shown_for_every_queue(stand: BrokerStand) -> None:
    for body in (b"a", b"b", b"c"):
        await stand.send("orders", body)
    await commit(stand, 2)
    stored_ms = (await stand.stored("orders"))[1].stored_ms
    expected = {queue(0): GroupOffset(3, 2, 2, stored_ms), queue(1): GroupOffset()}
    assert (await progress(stand, "billing")).offset_table == expected
    assert (await progress(stand, "billing", "orders")).offset_table == expected
    assert (await progress(stand, "nobody")).offset_table == {}
    assert (await progress(stand, "nobody", "nothing")).offset_table == {}


async def test_progress_of_all_groups(stand: BrokerStand) -> None:
    for body in (b"a", b"b", b"c"):
        await stand.send("orders", body)
    await commit(stand, 1)
    body = (await stand.ask(GetBrokerConsumeStats(False))).body
    assert [row for row in body.consume_stats_list if any(row.values())] == [
        {"billing": [await progress(stand, "billing")]}
    ]
    assert (body.total_diff, body.broker_addr) == (2, ADDRESS)
    ordered = (await stand.ask(GetBrokerConsumeStats(True))).body.consume_stats_list
    assert {"billing": []} in ordered


async def test_how_late_a_group_is(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"a")
    await world.run_for(seconds=60)
    await commit(stand, 0)
    spans = (await stand.ask(QueryConsumeTimeSpan("orders", "billing"))).body.consume_time_span_set
    stored_ms = (await stand.stored("orders"))[0].stored_ms
    assert [span.message_queue.queue_id for span in spans] == [0, 1]
    assert (spans[0].min_time_stamp, spans[0].max_time_stamp, spans[0].consume_time_stamp) == (stored_ms,) * 3
    assert 60_000 <= spans[0].delay_time <= 61_000
    assert (spans[1].min_time_stamp, spans[1].delay_time) == (-1, 0)
    assert spans[1].min_time_stamp_str == "1969-12-31#23:59:59:999"


async def test_puts_and_gets_are_counted(world: SimulatedWorld, stand: BrokerStand) -> None:
    for number in range(20):
        await stand.send("orders", b"x", number % 2)
    await stand.stored("orders")
    await world.run_for(seconds=20)
    minute = (await counted(stand, "TOPIC_PUT_NUMS", "orders")).stats_minute
    assert (minute.sum, minute.avgpt) == (20, 1.0)
    assert minute.tps > 0
    assert (await counted(stand, "GROUP_GET_NUMS", "orders@readers")).stats_minute.sum == 10
    assert (await counted(stand, "BROKER_PUT_NUMS", "DefaultCluster")).stats_hour.sum == 20
    size = (await counted(stand, "TOPIC_PUT_SIZE", "orders")).stats_minute.sum
    assert size == stand.broker.state.store.max_position
    answer = await stand.ask(ViewStats("X", "y"))
    assert (answer.code, answer.remark) == (1, "The stats <X> <y> not exist")
    assert (await progress(stand, "readers", "orders")).consume_tps > 0
    assert (await stand.ask(GetTopicStats("orders"))).body.topic_put_tps > 0


async def test_each_of_rocketmqs_counters_that_there_can_be_is_there(world: SimulatedWorld, stand: BrokerStand) -> None:
    """Names and keys are those that a RocketMQ 5.3.3 has after the same messages."""
    for number in range(6):
        await stand.send("orders", b"x", number % 2)
    await stand.send("orders", b"later", DELAY="3")
    found = await stand.stored("orders")
    await stand.put_group("readers")
    for level in (1, -1):
        back = SendBack(found[0].log_position, "readers", level, max_reconsume_times=16)
        assert (await stand.ask(back)).code == 0
    await world.run_for(seconds=20)
    expected = {
        ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@2"): 1,
        ("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@0"): 1,
        ("SNDBCK_PUT_NUMS", "orders@readers"): 2,
        ("SNDBCK2DLQ_TIMES", "null@orders@readers@SEND_BACK_TO_DLQ"): 1,
        ("TOPIC_PUT_NUMS", "%RETRY%readers"): 1,
        ("TOPIC_PUT_LATENCY", "1@orders"): 0,
        ("GROUP_GET_LATENCY", "0@orders@readers"): 0,
        ("BROKER_PUT_NUMS", "DefaultCluster"): 11,
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster"): 9,
        ("BROKER_GET_NUMS", "DefaultCluster"): len(found),
        ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster"): len(found),
        ("CONSUMER_REGISTER_TIME", "DefaultCluster"): 0,
        ("PRODUCER_REGISTER_TIME", "DefaultCluster"): 0,
        ("CHANNEL_ACTIVITY", "CONNECT"): 1,
    }
    sums = {name: (await counted(stand, *name)).stats_minute.sum for name in expected}
    assert sums == expected
    assert (await counted(stand, "QUEUE_PUT_SIZE", "SCHEDULE_TOPIC_XXXX@2")).stats_minute.sum > 0
    for name, key in [
        ("BROKER_PUT_NUMS", "orders"),
        ("TOPIC_PUT_LATENCY", "0@unknown"),
        ("TOPIC_PUT_LATENCY", "orders"),
        ("GROUP_GET_LATENCY", "0@orders@nobody"),
        ("BROKER_ACK_NUMS", "DefaultCluster"),
        ("BROKER_GET_FROM_DISK_NUMS", "DefaultCluster"),
        ("GROUP_GET_FALL_SIZE", "0@orders@readers"),
    ]:
        answer = await stand.ask(ViewStats(name, key))
        assert (answer.code, answer.remark) == (1, f"The stats <{name}> <{key}> not exist")


def slow_log(stand: BrokerStand, read_ms: int = 0, write_ms: int = 0) -> None:
    """From now on, let each read and write of the commit log block the broker that long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    disk = stand.world.disk(NAME)

    def read(path: str, position: int, size: int, is_map: bool) -> int:
        loop.uptime_ns += read_ms * 1_000_000 * ("commitlog" in path)
        return position

    def write(path: str, position: int, data: Bytes) -> None:
        loop.uptime_ns += write_ms * 1_000_000 * ("commitlog" in path)

    disk.on_read, disk.on_write = read, write


async def test_latencies_are_counted_from_the_first_millisecond_on(world: SimulatedWorld, stand: BrokerStand) -> None:
    """The disk blocks two sends for 3 ms each, and then one pull for 5 ms; those before and after take no time."""
    await stand.send("orders", b"x")
    await stand.pull("readers", "orders", 0)
    slow_log(stand, write_ms=3)
    for _ in range(2):
        await stand.send("orders", b"x")
    slow_log(stand)
    await stand.send("orders", b"x")
    await stand.pull("readers", "orders", 1)
    slow_log(stand, read_ms=5)
    assert (await stand.pull("readers", "orders", 2)).code == 0
    slow_log(stand)
    await stand.pull("readers", "orders", 3)
    await world.run_for(seconds=20)
    put = (await counted(stand, "TOPIC_PUT_LATENCY", "0@orders")).stats_minute
    assert (put.sum, put.avgpt) == (6, 2.0)
    got = (await counted(stand, "GROUP_GET_LATENCY", "0@orders@readers")).stats_minute
    assert (got.sum, got.avgpt) == (5, 2.5)


async def test_connections_that_go_are_counted_too(world: SimulatedWorld, stand: BrokerStand) -> None:
    async with ClusterClient("10.9.9.9:1", machine=world.machine("guest")) as guest:
        await guest.pool.ask(ADDRESS, GetRuntimeInfo())
    await world.run_for(seconds=300)
    assert (await counted(stand, "CHANNEL_ACTIVITY", "CONNECT")).stats_hour.sum >= 2
    assert (await counted(stand, "CHANNEL_ACTIVITY", "CLOSE")).stats_hour.sum >= 1


async def test_rates_end_with_the_minute(world: SimulatedWorld, stand: BrokerStand) -> None:
    await stand.send("orders", b"x")
    await world.run_for(seconds=80)
    spans = await counted(stand, "TOPIC_PUT_NUMS", "orders")
    assert (spans.stats_minute.sum, spans.stats_hour.sum, spans.stats_day.sum) == (0, 1, 1)


async def test_the_broker_describes_itself(world: SimulatedWorld, stand: BrokerStand) -> None:
    for _ in range(10):
        await stand.send("orders", b"x")
    await stand.send("orders", b"x", DELAY="3")
    await world.run_for(seconds=30)
    table = (await stand.ask(GetRuntimeInfo())).body.table
    assert len(table["putTps"].split(" ")) == 3
    assert table["msgPutTotalTodayNow"] == "12"
    assert table["scheduleMessageOffset_3"] == "1,1"
    assert table["brokerVersionDesc"] == "V5_3_3"
    assert table["runtime"].startswith("[ 0 days, 0 hours, 0 minutes, 30 seconds")


PUT_TIMES = ["<=0ms", "0~10ms", "10~50ms", "50~100ms", "100~200ms", "200~500ms", "500ms~1s"]
PUT_TIMES += ["1~2s", "2~3s", "3~4s", "4~5s", "5~10s", "10s~"]


async def test_the_times_of_puts_are_reported_minute_by_minute(world: SimulatedWorld, stand: BrokerStand) -> None:
    """The texts are parsed as RocketMQ's exporter parses them: it makes a family of each bucket."""
    assert (await stand.ask(GetRuntimeInfo())).body.table["putMessageDistributeTime"] == "null"
    await stand.send("orders", b"x")
    for write_ms in (3, 9, 10, 700, 12_000):
        slow_log(stand, write_ms=write_ms)
        await stand.send("orders", b"x")
    slow_log(stand)
    await world.run_for(seconds=60)
    table = (await stand.ask(GetRuntimeInfo())).body.table
    words = table["putMessageDistributeTime"].replace("[", "").replace("]", "").split()
    buckets = dict(part.split(":") for part in words)
    assert list(buckets) == PUT_TIMES
    assert {name: count for name, count in buckets.items() if count != "0"} == {
        "<=0ms": "1", "0~10ms": "2", "10~50ms": "1", "500ms~1s": "1", "10s~": "1",
    }  # fmt: skip
    assert (table["putLatency99"], table["putMessageEntireTimeMax"]) == ("12000.00", "12000")
    await world.run_for(seconds=60)
    table = (await stand.ask(GetRuntimeInfo())).body.table
    assert table["putMessageDistributeTime"] == "".join(f"[{name}]:0 " for name in PUT_TIMES), "of the last minute"
    assert (table["putLatency99"], table["putLatency999"]) == ("0.00", "0.00")
    assert table["putMessageEntireTimeMax"] == "12000", "since the broker started"


async def test_pulls_that_find_nothing_have_a_rate(world: SimulatedWorld, stand: BrokerStand) -> None:
    for _ in range(6):
        await stand.send("orders", b"x")
    slow_log(stand, read_ms=7)
    for offset in (0, 3):
        assert (await stand.pull("readers", "orders", offset)).code == 0
    slow_log(stand)
    for _ in range(5):
        assert (await stand.pull("readers", "orders", 6)).code == ResponseCode.PULL_NOT_FOUND
    await world.run_for(seconds=10)
    table = (await stand.ask(GetRuntimeInfo())).body.table
    rates = {name: table[name].split(" ")[0] for name in table if name.startswith("get") and name.endswith("Tps")}
    assert rates == {"getFoundTps": "0.2", "getMissTps": "0.5", "getTotalTps": "0.7", "getTransferredTps": "0.9"}
    assert table["getMessageEntireTimeMax"] == "7"
