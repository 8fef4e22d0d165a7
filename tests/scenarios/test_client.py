"""The client against real nameservers and brokers, in a simulated world, over both protocols."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from staticfire.broker.server import Broker
from staticfire.broker.settings import BrokerSettings
from staticfire.client import Admin, ClientSettings, ClusterClient, Message, Producer, PullConsumer, PullStatus
from staticfire.client.cluster.queues import MessageQueue
from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.errors import ClientError, GroupNotFound, StaticfireError, TopicNotFound
from staticfire.protocol.requests.groups import SubscriptionGroupConfig
from staticfire.runtime.machine import Machine
from staticfire.simulation.world import SimulatedWorld
from tests.protocols import in_both_protocols

NAMESRV = "10.0.0.1:9876"
BOTH_PROTOCOLS = in_both_protocols("settings", indirect=False)


async def start_broker(world: SimulatedWorld, name: str, host: str | None = None) -> Broker:
    machine = world.machine(name, host=host)
    settings = BrokerSettings(broker_name=name, namesrv_addr=NAMESRV, store_path_root_dir="/store")
    return await world.start(name, Broker(machine, settings))


async def cluster(world: SimulatedWorld, brokers: int = 1) -> Machine:
    """Start a nameserver and brokers; return the machine for clients."""
    namesrv = world.machine("namesrv", host="10.0.0.1")
    await world.start("namesrv", Nameserver(namesrv, NameserverSettings()))
    for number in range(brokers):
        await start_broker(world, f"broker-{'abc'[number]}", f"10.0.1.{number + 1}")
    return world.machine("client", host="10.0.2.1")


@asynccontextmanager
async def programs(machine: Machine, settings: ClientSettings) -> AsyncIterator[tuple[Producer, PullConsumer]]:
    """A producer and a consumer that share a client."""
    async with (
        ClusterClient(NAMESRV, settings, machine) as client,
        Producer("shop", client=client) as producer,
        PullConsumer("report", client=client) as consumer,
    ):
        yield producer, consumer


async def read_all(consumer: PullConsumer, topic: str) -> list[bytes]:
    """Return the bodies of all queues, queue by queue."""
    bodies: list[bytes] = []
    for queue in await consumer.queues(topic):
        offset = await consumer.min_offset(queue)
        while (result := await consumer.pull(queue, offset)).status is PullStatus.FOUND:
            bodies += [message.body for message in result.messages]
            offset = result.next_offset
    return bodies


@BOTH_PROTOCOLS
@pytest.mark.row("F5")
async def test_what_is_sent_is_read_back(world: SimulatedWorld, settings: ClientSettings) -> None:
    machine = await cluster(world, brokers=2)
    async with programs(machine, settings) as (producer, consumer):
        sent = [Message("orders", b"%d" % n, tags=f"t{n % 3}", keys=f"k{n}") for n in range(500)]
        results = await producer.send_many(sent)
        result = results[123]
        [found] = (await consumer.pull(result.queue, result.queue_offset, max_messages=1)).messages
        bodies = await read_all(consumer, "orders")
    assert sorted(bodies) == sorted(message.body for message in sent)
    assert (found.body, found.tags, found.keys) == (b"123", "t0", ["k123"])
    assert found.message_id == result.message_id
    assert found.offset_message_id == result.offset_message_id


@BOTH_PROTOCOLS
async def test_batches_and_ordered_messages_are_stored_as_sent(world: SimulatedWorld, settings: ClientSettings) -> None:
    machine = await cluster(world)
    async with programs(machine, settings) as (producer, consumer):
        queue = (await producer.queues("orders"))[2]
        batch = await producer.send_batch([Message("orders", b"%d" % n) for n in range(3)], queue=queue)
        await asyncio.gather(*[producer.send(Message("orders", b"%d" % n), queue=queue) for n in range(3, 6)])
        result = await consumer.pull(queue, 0)
    assert [message.body for message in result.messages] == [b"%d" % n for n in range(6)]
    assert [message.message_id for message in result.messages[:3]] == batch.message_id.split(",")
    assert [message.offset_message_id for message in result.messages[:3]] == batch.offset_message_id.split(",")


@BOTH_PROTOCOLS
@pytest.mark.row("P5")
async def test_a_held_pull_is_answered_by_the_message_it_waits_for(
    world: SimulatedWorld, settings: ClientSettings
) -> None:
    machine = await cluster(world)
    async with programs(machine, settings) as (producer, consumer):
        result = await producer.send(Message("orders", b"first"))
        pull = asyncio.create_task(consumer.pull(result.queue, 1, "paid", wait_ms=20_000))
        await world.run_for(seconds=5)
        await producer.send(Message("orders", b"other", tags="sent"), queue=result.queue)
        await producer.send(Message("orders", b"second", tags="paid"), queue=result.queue)
        found = await pull
        assert [message.body for message in found.messages] == [b"second"]
        assert 5_000 <= world.uptime_ms < 5_200


@BOTH_PROTOCOLS
@pytest.mark.row("F1")
async def test_a_group_continues_where_it_committed(world: SimulatedWorld, settings: ClientSettings) -> None:
    machine = await cluster(world)
    queue = MessageQueue("orders", "broker-a", 0)
    async with Admin(NAMESRV, settings, machine) as admin:
        await admin.create_topic("orders", queues=1)
        await admin.create_group("report")
        async with PullConsumer("report", client=admin.client) as consumer:
            await consumer.commit(queue, 7)
        async with PullConsumer("report", client=admin.client) as consumer:
            assert await consumer.committed(queue) == 7
        async with PullConsumer("nobody", client=admin.client) as consumer:
            with pytest.raises(GroupNotFound):
                await consumer.commit(queue, 7)


@BOTH_PROTOCOLS
async def test_offsets_of_a_queue(world: SimulatedWorld, settings: ClientSettings) -> None:
    machine = await cluster(world)
    queue = MessageQueue("orders", "broker-a", 0)
    async with programs(machine, settings) as (producer, consumer):
        times = []
        for number in range(3):
            await producer.send(Message("orders", b"%d" % number), queue=queue)
            times.append(machine.clock.wall_ms())
            await world.run_for(seconds=10)
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 3)
        assert await consumer.search_offset(queue, times[0] + 1000) == 1
        assert await consumer.search_offset(queue, times[1] + 1000, upper=True) == 1
        async with Admin(client=producer.client) as admin:
            assert await admin.max_offset(queue) == 3
            assert (await admin.offsets.earliest_stored_ms(queue) or 0) <= times[0]


@BOTH_PROTOCOLS
async def test_an_admin_sees_the_cluster_and_changes_it(world: SimulatedWorld, settings: ClientSettings) -> None:
    machine = await cluster(world, brokers=2)
    async with Admin(NAMESRV, settings, machine) as admin:
        info = await admin.cluster_info()
        assert sorted(info.broker_addr_table) == ["broker-a", "broker-b"]
        assert await admin.masters() == {"broker-a": "10.0.1.1:10911", "broker-b": "10.0.1.2:10911"}
        await admin.create_topic("orders", queues=3, cluster="DefaultCluster")
        await admin.create_topic("bills", queues=2, write_queues=1, perm=4, broker_name="broker-b")
        assert {"orders", "bills"} <= set(await admin.topics())
        assert "orders" in await admin.topics("DefaultCluster")
        route = await admin.route("orders")
        assert [(each.broker_name, each.read_queue_nums) for each in route.queue_datas] == [
            ("broker-a", 3),
            ("broker-b", 3),
        ]
        config = await admin.topic_config("bills", "broker-b")
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (2, 1, 4)
        await admin.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            await admin.route("orders")
        with pytest.raises(ClientError, match=r"no master of broker gone .* registered"):
            await admin.create_topic("orders", broker_name="gone")


@BOTH_PROTOCOLS
async def test_an_admin_keeps_groups_and_values(world: SimulatedWorld, settings: ClientSettings) -> None:
    machine = await cluster(world)
    async with Admin(NAMESRV, settings, machine) as admin:
        await admin.create_group(SubscriptionGroupConfig(group_name="billing", retry_max_times=3))
        assert (await admin.group_config("billing", "broker-a")).retry_max_times == 3
        assert await admin.get_kv("ns", "key") is None
        assert await admin.list_kv("ns") == {}
        await admin.put_kv("ns", "key", "value")
        assert await admin.get_kv("ns", "key") == "value"
        assert await admin.list_kv("ns") == {"key": "value"}
        await admin.delete_kv("ns", "key")
        assert await admin.get_kv("ns", "key") is None


@BOTH_PROTOCOLS
async def test_everything_acknowledged_survives_a_broker_killed_under_load(
    world: SimulatedWorld, settings: ClientSettings
) -> None:
    machine = await cluster(world, brokers=2)
    acknowledged: list[bytes] = []

    async def keep_sending(producer: Producer, sender: int) -> None:
        for number in range(200):
            body = b"%d-%d" % (sender, number)
            try:
                await producer.send(Message("orders", body))
            except StaticfireError:
                continue
            acknowledged.append(body)

    async with programs(machine, settings) as (producer, consumer):
        await producer.send_many([Message("orders", b"first") for _ in range(8)])
        tasks = [asyncio.create_task(keep_sending(producer, sender)) for sender in range(8)]
        await world.run_for(ms=20)
        world.kill("broker-a")
        await world.run_for(ms=500)
        await start_broker(world, "broker-a")
        await asyncio.gather(*tasks)
        await world.run_for(seconds=40)
        stored = await read_all(consumer, "orders")
    assert len(acknowledged) == 1600
    assert set(acknowledged) <= set(stored)
