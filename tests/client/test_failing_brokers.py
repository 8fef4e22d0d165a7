"""Brokers and nameservers that go away: what was acknowledged is there, everything else is an error."""

import asyncio

import pytest

from staticfire.client import ClientSettings, ClusterClient, Message, Producer, ProducerSettings, PullConsumer
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.codes import VERSION
from staticfire.protocol.errors import AnswerTimeout, ClientError, ConnectFailed, NetworkError, UsageError
from staticfire.simulation.world import SimulatedWorld
from staticfire.simulation.world.link import LinkQuality
from tests.client.peers import BOTH_PROTOCOLS, NAMESRV, NAMESRV_PORT, FakeBroker, FakeNameserver, fake_cluster


@BOTH_PROTOCOLS
async def test_nothing_acknowledged_is_lost_when_a_broker_dies_under_load(
    world: SimulatedWorld, settings: ProducerSettings
) -> None:
    cluster = await fake_cluster(world, brokers=2)
    acknowledged: list[bytes] = []

    async def keep_sending(producer: Producer, sender: int) -> None:
        for number in range(50):
            body = b"%d-%d" % (sender, number)
            result = await producer.send(Message("orders", body))
            acknowledged.append(body)
            assert isinstance(result, SendResult)

    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        tasks = [asyncio.create_task(keep_sending(producer, sender)) for sender in range(16)]
        await world.until(lambda: len(cluster.brokers[0].journal.bodies) > 100)
        world.kill("broker-a")
        await asyncio.gather(*tasks)
    stored = {arrival.body for broker in cluster.brokers for queue in broker.stored.values() for arrival in queue}
    assert len(acknowledged) == 800
    assert set(acknowledged) <= stored


@BOTH_PROTOCOLS
async def test_a_broker_that_can_not_be_reached_is_avoided(world: SimulatedWorld, settings: ProducerSettings) -> None:
    cluster = await fake_cluster(world, brokers=2)
    await world.stop("broker-a")
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        for number in range(20):
            result = await producer.send(Message("orders", b"%d" % number))
            assert result.queue.broker_name == "broker-b"
    refusals = [event for event in world.history.events if "was refused" in str(event)]
    assert len(refusals) == 1


async def test_a_broker_that_came_back_gets_messages_again(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send_many([Message("orders", b"1") for _ in range(8)])
        world.kill("broker-a")
        await producer.send_many([Message("orders", b"2") for _ in range(8)])
        again = await world.start("broker-a", FakeBroker(world.machine("broker-a"), "broker-a", "10.0.1.1"))
        await world.run_for(seconds=3)
        await producer.send_many([Message("orders", b"3") for _ in range(8)])
    assert len(again.journal.bodies) == 4


async def test_no_broker_at_all_is_reported_after_three_attempts(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    await world.stop("broker-a")
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(ConnectFailed, match=r"attempts: 3 in \d+ ms: broker-a: connect to 10.0.1.1:10911 failed"):
            await producer.send(Message("orders", b"one"))


async def test_a_silent_broker_costs_the_whole_timeout(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].hold = True
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        began = world.uptime_ms
        with pytest.raises(AnswerTimeout, match=r"was not confirmed and may be stored, attempts: 1 in 30\d\d ms"):
            await producer.send(Message("orders", b"one"))
        assert 3000 <= world.uptime_ms - began < 3100


async def test_a_time_out_per_attempt_leaves_time_for_the_next(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    cluster.brokers[0].hold = True
    settings = ProducerSettings(send_msg_max_timeout_per_request_ms=500)
    async with Producer("shop", NAMESRV, settings, cluster.machine) as producer:
        results = await producer.send_many([Message("orders", b"%d" % number) for number in range(8)])
    assert {result.queue.broker_name for result in results} == {"broker-b"}
    assert cluster.brokers[0].journal.bodies, "one of the first attempts was there"


async def test_a_message_under_way_when_the_connection_breaks_goes_to_another_broker(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    for broker in cluster.brokers:
        broker.hold = True
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        send = asyncio.create_task(producer.send(Message("orders", b"one")))
        await world.until(lambda: cluster.bodies)
        first = next(broker for broker in cluster.brokers if broker.journal.bodies)
        other = next(broker for broker in cluster.brokers if broker is not first)
        other.release()
        world.kill(first.name)
        assert (await send).queue.broker_name == other.name


async def test_closing_waits_for_what_is_under_way(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    broker = cluster.brokers[0]
    broker.hold = True
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        sends = [producer.post(Message("orders", b"%d" % number)) for number in range(3)]
        world.loop.call_later(1, broker.release)
    assert [send.result().queue_offset for send in sends] == [0, 0, 0]
    assert world.uptime_ms >= 1000


async def test_closing_ends_in_time_without_an_answer(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    cluster.brokers[0].hold = True
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        send = producer.post(Message("orders", b"one"))
    with pytest.raises(NetworkError):
        await send
    assert world.uptime_ms < 3200


async def test_the_next_nameserver_is_queried_when_one_is_gone(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    machine = world.machine("namesrv-2", host="10.0.0.2")
    second = await world.start("namesrv-2", FakeNameserver(machine, "10.0.0.2"))
    second.routes = cluster.nameserver.routes
    async with Producer("shop", f"{NAMESRV};10.0.0.2:{NAMESRV_PORT}", machine=cluster.machine) as producer:
        for gone, topic in (("namesrv", "orders"), ("namesrv-2", "bills")):
            cluster.route(topic)
            await world.stop(gone)
            assert (await producer.send(Message(topic, b"one"))).queue_offset == 0
            back = world.machine(gone)
            fresh = await world.start(gone, FakeNameserver(back, back.identity.host_ip))
            fresh.routes = cluster.nameserver.routes


async def test_a_client_sticks_to_the_nameserver_that_answers(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    machine = world.machine("namesrv-2", host="10.0.0.2")
    second = await world.start("namesrv-2", FakeNameserver(machine, "10.0.0.2"))
    second.routes = cluster.nameserver.routes
    async with Producer("shop", [NAMESRV, f"10.0.0.2:{NAMESRV_PORT}"], machine=cluster.machine) as producer:
        await producer.send(Message("orders", b"one"))
        await world.run_for(minutes=5, seconds=1)
    requested = (len(cluster.nameserver.requested), len(second.requested))
    assert min(requested) == 0
    assert max(requested) == 11


async def test_no_nameserver_is_reported_with_the_addresses_that_were_tried(world: SimulatedWorld) -> None:
    machine = world.machine("client", host="10.0.2.1")
    world.machine("namesrv", host="10.0.0.1")
    async with Producer("shop", NAMESRV, machine=machine) as producer:
        with pytest.raises(ConnectFailed, match=r"no nameserver responds .*10\.0\.0\.1:9876.*staticfire up"):
            await producer.send(Message("orders", b"one"))


async def test_a_route_with_a_damaged_address_is_fetched_again(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=1)
    [route] = cluster.nameserver.routes.values()
    [broker] = route.broker_datas
    broker.broker_addrs[0] = "10.0.1.1>10911"
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        with pytest.raises(ConnectFailed, match=r"10\.0\.1\.1>10911' is not an address"):
            await producer.send(Message("orders", b"one"))
        broker.broker_addrs[0] = cluster.brokers[0].address
        await world.run_for(seconds=2)
        await producer.send(Message("orders", b"two"))
    assert cluster.brokers[0].journal.bodies == [b"two"]


@pytest.mark.parametrize("ms_before", [0, 100])
async def test_a_call_that_waits_for_a_connection_ends_when_its_client_is_closed(
    world: SimulatedWorld, ms_before: int
) -> None:
    cluster = await fake_cluster(world, brokers=1)
    world.set_link("client", "broker-a", LinkQuality(delay_ms=60_000))
    async with PullConsumer("report", NAMESRV, machine=cluster.machine) as consumer:
        [queue, *_] = await consumer.queues("orders")
        asking = asyncio.ensure_future(consumer.max_offset(queue))
        if ms_before:
            await world.run_for(ms=ms_before)
        else:
            await asyncio.sleep(0)  # The attempt to connect hasn't begun.
        assert not asking.done()
    with pytest.raises(ConnectFailed, match=r"10\.0\.1\.1:10911: this client is closed"):
        await asking


def test_a_nameserver_address_is_needed() -> None:
    with pytest.raises(ClientError, match='namesrv="host:port"'):
        Producer("shop")
    with pytest.raises(UsageError, match="is not an address"):
        ClusterClient("nowhere")


async def test_heartbeats_tell_brokers_of_the_producer_at_once_and_every_30_s(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world, brokers=2)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send_many([Message("orders", b"one") for _ in range(8)])
        await world.run_for(seconds=65)
        client_id = producer.client.client_id
        assert producer.client.broker_versions == {broker.address: VERSION for broker in cluster.brokers}
    for broker in cluster.brokers:
        assert len(broker.journal.heartbeats) == 3
        assert {beat.client_id for beat in broker.journal.heartbeats} == {client_id}
        assert [group.group_name for group in broker.journal.heartbeats[0].producer_data_set] == ["shop"]
        assert broker.journal.goodbyes == ["shop"]


async def test_heartbeats_connect_again_to_a_broker_that_came_back(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with Producer("shop", NAMESRV, machine=cluster.machine) as producer:
        await producer.send(Message("orders", b"one"))
        world.kill("broker-a")
        again = await world.start("broker-a", FakeBroker(world.machine("broker-a"), "broker-a", "10.0.1.1"))
        await world.run_for(seconds=2)
        assert len(again.journal.heartbeats) == 1
        await world.run_for(seconds=29)
    assert len(again.journal.heartbeats) == 2


async def test_producers_can_share_a_client(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    client = ClusterClient(NAMESRV, ClientSettings(instance_name="app"), cluster.machine)
    with pytest.raises(ClientError, match="isn't open"):
        await Producer("shop", client=client).__aenter__()
    async with client:
        async with Producer("shop", client=client) as one, Producer("bar", client=client) as other:
            with pytest.raises(ClientError, match="has been created before"):
                await Producer("shop", client=client).__aenter__()
            await one.send(Message("orders", b"one"))
            await other.send(Message("orders", b"two"))
        assert client.client_id == "10.0.2.1@app"
        assert len(client.pool.addresses) == 2
        assert cluster.brokers[0].journal.goodbyes == ["bar", "shop"]


async def test_a_failed_join_leaves_the_other_producer_alone(world: SimulatedWorld) -> None:
    cluster = await fake_cluster(world)
    async with ClusterClient(NAMESRV, machine=cluster.machine) as client, Producer("shop", client=client) as producer:
        with pytest.raises(ClientError, match="has been created before"):
            await Producer("shop", client=client).__aenter__()
        await producer.send(Message("orders", b"one"))
        assert cluster.brokers[0].journal.goodbyes == []
