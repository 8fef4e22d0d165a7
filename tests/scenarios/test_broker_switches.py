"""Settings of brokers, each with another value than its default: what clients see of it."""

import asyncio
from typing import cast

import pytest

from staticfire.client import Message, Producer, ProducerSettings
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import ConnectFailed
from staticfire.protocol.limits import FRAME_BYTES_MAX
from staticfire.protocol.names import TRACE_TOPIC
from staticfire.protocol.requests.access import ListUsers
from staticfire.protocol.requests.clients import ConsumerData, GetConsumerList, Heartbeat, HeartbeatData
from staticfire.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, FLAG_SUSPEND, LitePullMessage, PullMessage
from staticfire.protocol.requests.routes import DeleteTopicInNameserver, GetRoute
from staticfire.protocol.requests.topics import UpdateTopic
from staticfire.runtime.pool import ConnectionPool
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.broker_stand import ADDRESS, BrokerStand
from tests.scenarios.consuming import TOPIC, Shop
from tests.scenarios.ordering import own
from tests.scenarios.replica_set import MASTER, SLAVE, ReplicaSet, address_of
from tests.scenarios.simulated_cluster import NAMESRV
from tests.scenarios.test_access import NO_KEY, SHOP, judging, refused

FLUSH_DISK_TIMEOUT, NO_PERMISSION, NO_TOPIC = 10, 16, 17
UPDATE_TOPIC = "17"


# -- topics and pulls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("allowed", "wanted", "queues"), [(3, 16, 3), (12, 16, 12), (12, 5, 5)])
async def test_how_many_queues_a_new_topic_gets(world: SimulatedWorld, allowed: int, wanted: int, queues: int) -> None:
    shop = await Shop(world, broker_settings={"default_topic_queue_nums": allowed}).open()
    settings = ProducerSettings(default_topic_queue_nums=wanted)
    async with Producer("other", NAMESRV, settings, world.machine("other", host="10.0.2.9")) as producer:
        await producer.send(Message("bills", b"1"))
    assert len(shop.ends("bills")) == queues
    await shop.close()


@pytest.mark.parametrize("is_on", [True, False])
async def test_the_topic_of_traces_has_the_name_of_the_settings(world: SimulatedWorld, is_on: bool) -> None:
    stand = BrokerStand(world, trace_topic_enable=is_on, msg_trace_topic_name="traces", auto_create_topic_enable=False)
    await stand.start()
    assert (await stand.send("traces", b"x")).code == (0 if is_on else NO_TOPIC)
    assert (await stand.send(TRACE_TOPIC, b"x")).code == NO_TOPIC
    await stand.close()


@pytest.mark.parametrize("is_on", [True, False])
async def test_whether_lite_pull_consumers_may_pull(world: SimulatedWorld, is_on: bool) -> None:
    stand = BrokerStand(world, lite_pull_message_enable=is_on)
    await stand.start()
    await stand.send("orders", b"x")
    answer = await stand.ask(LitePullMessage("billing", "orders", 0, 0, 32, FLAG_SUBSCRIPTION, 0, 0, "*"))
    assert answer.code == (0 if is_on else NO_PERMISSION)
    assert is_on or "for lite pull consumer" in answer.remark
    assert (await stand.pull("billing", "orders", 0)).code == 0
    await stand.close()


@pytest.mark.parametrize(
    ("settings", "hold_ms"),
    [
        ({"hold_ms_max": 3_000}, 3_000),
        ({"hold_ms_max": 50_000}, 50_000),
        ({"long_polling_enable": False}, 1_000),
        ({"long_polling_enable": False, "short_polling_time_mills": 4_000}, 4_000),
    ],
    ids=["shorter", "longer", "short polling", "longer short polling"],
)
async def test_how_long_a_pull_is_held_at_most(world: SimulatedWorld, settings: dict[str, int], hold_ms: int) -> None:
    stand = BrokerStand(world, **settings)
    await stand.start()
    await stand.put_topic("orders")
    client = ConnectionPool(world.machine("other", "10.0.0.8"))
    pull = PullMessage("billing", "orders", 0, 0, 32, FLAG_SUBSCRIPTION | FLAG_SUSPEND, 0, 100_000, "*")
    began_ms = world.uptime_ms
    await client.ask(ADDRESS, pull, 120_000)
    assert hold_ms <= world.uptime_ms - began_ms <= hold_ms + 500
    await client.close()
    await stand.close()


# -- access ------------------------------------------------------------------------------------------------------------


async def test_what_needs_no_signature(world: SimulatedWorld) -> None:
    asker = await judging(world, authorization_enabled=False, authentication_whitelist=f"38, {UPDATE_TOPIC}")
    assert (await asker.reported(UpdateTopic("orders", 1, 1, 6), None))[0] == 0
    assert await asker.reported(ListUsers(), None) == NO_KEY
    await asker.close()


async def test_what_needs_no_policy(world: SimulatedWorld) -> None:
    asker = await judging(world, authorization_whitelist=UPDATE_TOPIC)
    await asker.user()
    assert (await asker.reported(UpdateTopic("orders", 1, 1, 6), SHOP))[0] == 0
    assert await asker.reported(UpdateTopic("orders", 1, 1, 6), None) == NO_KEY
    assert await asker.reported(GetConsumerList("billing"), SHOP) == refused("Group:billing")
    await asker.close()


# -- connections -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scan_ms", "gone_ms"), [(1_000, 21_000), (50_000, 50_000)])
async def test_when_a_client_without_heartbeats_is_noticed(world: SimulatedWorld, scan_ms: int, gone_ms: int) -> None:
    stand = BrokerStand(world, channel_expired_timeout_ms=20_000, channel_scan_interval_ms=scan_ms)
    began_ms = world.uptime_ms
    await stand.start()
    consumer = ConsumerData("billing", "CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET", [])
    beat = HeartbeatData(client_id="c1", consumer_data_set=[consumer])
    assert (await stand.ask(Heartbeat(body=beat))).code == 0

    async def members_at(ms: int) -> list[str]:
        await world.run_for(ms=ms - (world.uptime_ms - began_ms))
        answer = await stand.ask(GetConsumerList("billing"))
        return list(answer.body.consumer_id_list) if answer.code == 0 else []

    assert await members_at(gone_ms - 1_500) == ["c1"]
    assert await members_at(gone_ms + 1_500) == []
    await stand.close()


@pytest.mark.parametrize("is_on", [True, False])
async def test_whether_the_second_port_is_served(world: SimulatedWorld, is_on: bool) -> None:
    stand = BrokerStand(world, vip_port_enable=is_on)
    await stand.start()
    client = ConnectionPool(world.machine("other", "10.0.0.8"))
    if is_on:
        assert (await client.ask("10.0.0.2:10909", GetConsumerList("billing"))).code == 1
    else:
        with pytest.raises(ConnectFailed):
            await client.ask("10.0.0.2:10909", GetConsumerList("billing"))
    await client.close()
    await stand.close()


class Sender(asyncio.Protocol):
    """A connection that sends the beginning of a frame."""

    def __init__(self) -> None:
        self.is_closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True


async def began_frame(world: SimulatedWorld, host: str, port: int, size: int) -> Sender:
    sender = Sender()
    await world.machine("attacker", "10.0.0.66").network.connect(lambda: sender, host, port, 5_000)
    sender.transport.write((FRAME_BYTES_MAX - 100).to_bytes(4, "big") + bytes([0, 0, 0, 64]) + bytes(size))
    return sender


async def start_server(world: SimulatedWorld, kind: str, **settings: int) -> tuple[str, int]:
    """Start a broker or a nameserver with these settings. Return its address."""
    if kind == "broker":
        await BrokerStand(world, **settings).start()
        return "10.0.0.2", 10911
    machine = world.machine("namesrv", "10.0.0.1")
    await world.start("namesrv", Nameserver(machine, NameserverSettings(**settings)))  # type: ignore[arg-type]
    return "10.0.0.1", 9876


@pytest.mark.parametrize("kind", ["broker", "nameserver"])
@pytest.mark.parametrize(("bytes_max", "closed"), [(FRAME_BYTES_MAX, 1), (2 * FRAME_BYTES_MAX, 0)])
async def test_how_many_bytes_of_incomplete_frames_are_kept(
    world: SimulatedWorld, kind: str, bytes_max: int, closed: int
) -> None:
    host, port = await start_server(world, kind, unfinished_frame_bytes_max=bytes_max)
    senders = [await began_frame(world, host, port, FRAME_BYTES_MAX * 3 // 5) for _ in range(2)]
    await world.run_for(seconds=1)
    assert [sender.is_closed for sender in senders] == [bool(closed), False]
    for sender in senders:
        sender.transport.abort()


@pytest.mark.parametrize("kind", ["broker", "nameserver"])
async def test_how_long_a_frame_may_take(world: SimulatedWorld, kind: str) -> None:
    host, port = await start_server(world, kind, unfinished_frame_ms_max=200_000)
    sender = await began_frame(world, host, port, 1)
    await world.run_for(seconds=195)
    assert not sender.is_closed
    await world.run_for(seconds=15)
    assert sender.is_closed


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("timeout_ms", "code"), [(2_000, FLUSH_DISK_TIMEOUT), (9_000, 0)])
async def test_how_long_a_send_waits_for_the_disk(world: SimulatedWorld, timeout_ms: int, code: int) -> None:
    stand = BrokerStand(world, flush_disk_type="SYNC_FLUSH", sync_flush_timeout=timeout_ms)
    await stand.start()
    assert (await stand.send("orders", b"1")).code == 0
    world.disk("broker-a").sync_ms = 6_000
    began_ms = world.uptime_ms
    assert (await stand.send("orders", b"2")).code == code
    assert world.uptime_ms - began_ms <= (timeout_ms if code else 6_000) + 200
    world.disk("broker-a").sync_ms = 0
    await stand.close()


@pytest.mark.parametrize(("interval_ms", "is_written"), [(2_000, True), (60_000, False)])
async def test_how_often_queues_are_written(world: SimulatedWorld, interval_ms: int, is_written: bool) -> None:
    stand = BrokerStand(world, flush_interval_consume_queue=interval_ms)
    await stand.start()
    await stand.send("orders", b"1")
    await world.run_for(seconds=5)
    paths = [path for path in world.disk("broker-a").files if "/consumequeue/" in path and "orders" in path]
    assert bool(paths) is is_written
    await stand.close()


@pytest.mark.parametrize(("interval_ms", "kept"), [(2_000, 1), (60_000, -1)])
async def test_how_often_offsets_are_saved(world: SimulatedWorld, interval_ms: int, kept: int) -> None:
    stand = BrokerStand(world, flush_consumer_offset_interval=interval_ms)
    await stand.start()
    await stand.put_group("billing")
    await stand.send("orders", b"1")
    await world.run_for(seconds=9)
    assert (await stand.ask(UpdateConsumerOffset("billing", "orders", 0, 1))).code == 0
    await world.run_for(seconds=3)
    await stand.kill_and_start()
    answer = await stand.ask(QueryConsumerOffset("billing", "orders", 0, set_zero_if_not_found=False))
    assert (answer.offset if answer.code == 0 else -1) == kept
    await stand.close()


# -- copies ------------------------------------------------------------------------------------------------------------


async def test_a_slave_starts_with_the_lag_of_its_settings(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await pair.restart(SLAVE, replication_lag_ms=7_000)
    await pair.until_caught_up()
    await pair.send(b"x")
    await world.run_for(ms=6_500)
    assert pair.end(SLAVE) < pair.end(MASTER)
    await world.run_for(ms=1_000)
    assert pair.end(SLAVE) == pair.end(MASTER)
    await pair.close()


async def test_a_slave_without_a_nameserver_copies_from_the_address_of_its_settings(world: SimulatedWorld) -> None:
    pair = await ReplicaSet(world).open()
    await world.stop(SLAVE)
    await pair.start(SLAVE, namesrv_addr="", ha_master_address=address_of(MASTER))
    await pair.send(b"x")
    await pair.until_caught_up()
    assert await pair.bodies(SLAVE) == [b"x"]
    await pair.close()


# -- nameservers and groups --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("period_ms", [10_000, 90_000])
async def test_how_often_a_broker_registers_all_its_topics(world: SimulatedWorld, period_ms: int) -> None:
    """A nameserver that has forgotten a topic knows it again."""
    shop = await Shop(world, broker_settings={"register_name_server_period": period_ms}).open()
    await world.run_for(ms=period_ms)
    pool = shop.producer.client.pool
    assert (await pool.ask(NAMESRV, DeleteTopicInNameserver(TOPIC))).code == 0
    deleted_ms = world.uptime_ms

    async def is_known() -> bool:
        return bool((await pool.ask(NAMESRV, GetRoute(TOPIC))).code == 0)

    assert not await is_known()
    while not await is_known():
        await world.run_for(ms=1_000)
    assert period_ms / 2 < world.uptime_ms - deleted_ms <= period_ms + 1_000
    await shop.close()


@pytest.mark.parametrize(("is_on", "shares"), [(True, [2, 2, 2]), (False, [4, 4, 2])])
async def test_whether_members_are_notified_of_each_other(
    world: SimulatedWorld, is_on: bool, shares: list[int]
) -> None:
    """Without it, a member notices another one when it rebalances by itself, every 20 s."""
    shop = await Shop(world, broker_settings={"notify_consumer_ids_changed_enable": is_on}).open()
    one = await shop.start("one")
    await world.run_for(seconds=3)
    await shop.start("two")
    found = []
    for seconds in (1, 14, 6):
        await world.run_for(seconds=seconds)
        found.append(len(own(one)))
    assert found == shares
    await shop.close()
