"""`Cluster`: a cluster in one line, from blocking and from asyncio code."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from staticfire import Cluster
from staticfire.client import (
    Admin,
    ConsumeContext,
    ConsumeStatus,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    PushSettings,
    ReceivedMessage,
)
from staticfire.protocol.errors import ClientError, ConnectFailed, TopicNotFound, UsageError
from staticfire.protocol.requests.config import GetBrokerConfig, UpdateBrokerConfig
from tests.cli.commands import call, get

HOUR_MS = 3_600_000
TIMEOUT_MS = 5_000


async def sent_and_read(namesrv: str, topic: str, count: int) -> int:
    """Send messages; return how many can be read."""
    async with Producer("senders", namesrv) as producer:
        await producer.send_many(Message(topic, f"{number}".encode()) for number in range(count))
    return await read(namesrv, topic)


async def read(namesrv: str, topic: str) -> int:
    """Return how many messages a topic has, having read to their end as the group "readers"."""
    async with PullConsumer("readers", namesrv) as consumer:
        queues = await consumer.queues(topic)
        ends = [await consumer.max_offset(queue) for queue in queues]
        for queue, end in zip(queues, ends, strict=True):
            await consumer.pull(queue, 0)
            await consumer.commit(queue, end)
    return sum(ends)


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def refuses(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) != 0


def started_since(before: list[threading.Thread]) -> list[threading.Thread]:
    """Return the running threads that are new. What earlier tests have left may end at any time."""
    return [thread for thread in threading.enumerate() if thread not in before]


async def test_messages_go_through_a_cluster_of_two_brokers() -> None:
    async with Cluster(brokers=2) as cluster:
        await cluster.create_topic("orders", queues=3)
        assert await sent_and_read(cluster.namesrv, "orders", 100) == 100
        async with PullConsumer("readers", cluster.namesrv) as consumer:
            brokers = [queue.broker_name for queue in await consumer.queues("orders")]
    assert brokers == ["broker-a"] * 3 + ["broker-b"] * 3


def test_blocking_test_has_a_cluster_and_nothing_of_it_afterwards() -> None:
    before = threading.enumerate()
    with Cluster() as cluster:
        addresses = [cluster.namesrv, *cluster.addresses.values()]
        directory = cluster.directory
        assert not any(refuses(address) for address in addresses)
    assert all(refuses(address) for address in addresses)
    assert not os.path.exists(directory)
    assert started_since(before) == []


async def test_reset_forgets_messages_topics_and_offsets() -> None:
    async with Cluster(brokers=2) as cluster:
        await cluster.create_topic("orders")
        await sent_and_read(cluster.namesrv, "orders", 10)
        assert await cluster.reset() == {"topics": ["orders"], "groups": ["readers"]}
        with pytest.raises(TopicNotFound):
            await read(cluster.namesrv, "orders")
        assert await sent_and_read(cluster.namesrv, "orders", 5) == 5


async def test_after_a_reset_every_setting_is_as_at_the_start() -> None:
    async with Cluster() as cluster, Admin(cluster.namesrv) as admin:
        await cluster.create_topic("orders", queues=2)
        await admin.create_group("billing")
        await admin.set_consume_mode("orders", "billing", "POP")
        broker = cluster.addresses["broker-a"]
        changed = UpdateBrokerConfig(body=b"maxMessageSize=1000\nbrokerPermission=4\n")
        assert (await admin.client.pool.ask(broker, changed, TIMEOUT_MS)).code == 0
        await admin.put_kv("ORDER_TOPIC_CONFIG", "orders", "broker-a:2")
        ahead = await cluster.clock.advance(hours=5)
        await cluster.clock.freeze()

        await cluster.reset()

        now = await cluster.clock.now()
        assert (now.mode, now.message_ms >= ahead.message_ms) == ("real", True)
        config = (await admin.client.pool.ask(broker, GetBrokerConfig(), TIMEOUT_MS)).body
        assert {b"maxMessageSize=4194304", b"brokerPermission=6"} <= set(config.splitlines())
        assert await sent_and_read(cluster.namesrv, "orders", 3) == 3
        members = PushSettings(client_rebalance=False)
        consumer = PushConsumer("billing", cluster.namesrv, members)
        consumer.subscribe("orders")
        consumer.listener(lambda *_: None)
        async with consumer:
            assert {queue.queue_id for queue in consumer.assignment} == {0, 1, 2, 3}
        assert await admin.get_kv("ORDER_TOPIC_CONFIG", "orders") is None


@pytest.mark.parametrize("kept", [True, False])
def test_only_a_cluster_that_is_kept_waits_for_the_disk(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    with Cluster(directory=tmp_path if kept else None):
        pass
    assert (len(synced) > 0) is kept


def test_control_endpoint_starts_when_it_is_requested() -> None:
    with Cluster() as cluster:
        assert get(f"{cluster.control}/health") == (200, {"healthy": True, "problems": []})
        assert cluster.control == cluster.control


def test_settings_are_given_as_python_values_under_rocketmqs_names() -> None:
    with Cluster(settings={"autoCreateTopicEnable": False, "brokerClusterName": "Apollo"}) as cluster:
        assert get(cluster.control)[1]["cluster"] == "Apollo"


def test_unknown_setting_is_refused_before_anything_starts() -> None:
    before = threading.enumerate()
    with (
        pytest.raises(UsageError, match="did you mean autoCreateTopicEnable"),
        Cluster(settings={"autoCreateTopic": 1}),
    ):
        pass
    assert started_since(before) == []


def test_unknown_broker_and_broker_in_a_thread_are_distinguished() -> None:
    with Cluster() as cluster:
        with pytest.raises(ClientError, match="no broker-z; it has broker-a"):
            cluster.broker("broker-z")
        with pytest.raises(ClientError, match="isolation='process'"):
            cluster.broker("broker-a").kill()


async def test_everything_can_be_awaited() -> None:
    async with Cluster() as cluster:
        await cluster.create_topic("orders", queues=1)
        before = await cluster.clock.freeze()
        assert (await cluster.clock.advance(hours=2)).message_ms == before.message_ms + 2 * HOUR_MS
        assert (await cluster.reset())["topics"] == ["orders"]
        assert (await cluster.clock.run()).mode == "real"
        assert cluster.pids == {"nameserver": os.getpid(), "broker-a": os.getpid()}
        with pytest.raises(ClientError, match="isolation='process'"):
            await cluster.nameserver.kill()


async def test_an_awaited_advance_lets_consumers_of_this_loop_consume() -> None:
    consumed: list[bytes] = []
    async with Cluster() as cluster:
        await cluster.create_topic("orders", queues=1)
        consumer = PushConsumer("billing", cluster.namesrv)
        consumer.subscribe("orders")

        @consumer.listener
        async def bill(messages: tuple[ReceivedMessage, ...], context: ConsumeContext) -> ConsumeStatus:
            consumed.extend(message.body for message in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        async with consumer, Producer("senders", cluster.namesrv) as producer:
            assert [member.client_id for member in await cluster.members("billing")] == [consumer.client.client_id]
            await producer.send(Message("orders", b"in two hours", delay_level=18))
            report = await cluster.clock.advance(hours=2)
            assert (report.delivered, consumed) == (1, [b"in two hours"])
        assert await cluster.members("billing") == await cluster.members("nobody") == []


async def test_advance_that_would_block_its_consumers_names_the_way_out(shared: Cluster) -> None:
    with pytest.raises(ClientError, match=r"await cluster\.aio\.clock\.advance"):
        shared.clock.advance(hours=2)
    assert (await shared.aio.clock.advance(hours=2)).ahead_ms > HOUR_MS


async def test_who_is_cancelled_cancels_the_call(shared: Cluster) -> None:
    advance = asyncio.create_task(shared.aio.clock.advance("1s"))
    await asyncio.sleep(0)
    advance.cancel()
    with pytest.raises(asyncio.CancelledError):
        await advance
    assert (await shared.aio.clock.now()).message_ms > 0  # The next call isn't affected.


def test_cluster_outside_of_with_says_so() -> None:
    cluster = Cluster()
    with pytest.raises(ClientError, match="inside `with cluster:`"):
        cluster.reset()
    with cluster:
        pass
    with pytest.raises(ClientError, match="can be started only once"), cluster:
        pass


def test_two_clusters_live_side_by_side() -> None:
    with Cluster() as first, Cluster() as second:
        first.create_topic("orders")
        assert first.namesrv != second.namesrv
        assert "orders" not in second.reset()["topics"]


@pytest.mark.row("F4")
async def test_killed_broker_has_every_acknowledged_message_when_it_is_back() -> None:
    async with Cluster(brokers=2, isolation="process") as cluster:
        await cluster.create_topic("orders", queues=2)
        assert await sent_and_read(cluster.namesrv, "orders", 1_000) == 1_000
        broker = cluster.broker("broker-b")
        await broker.kill()
        assert refuses(broker.address)
        status, health = get(f"{cluster.control}/health")
        assert status == 503
        assert "broker-b" in health["problems"][0]
        assert "BROKER_AWAY" in [one.kind for one in (await cluster.explain("billing")).causes]
        assert "broker broker-b isn't registered" in str(get(f"{cluster.control}/explain/billing")[1])

        await broker.restart()

        assert get(f"{cluster.control}/health")[0] == 200
        assert await read(cluster.namesrv, "orders") == 1_000
        assert cluster.deaths == []


@pytest.fixture
def processes() -> Iterator[Cluster]:
    with Cluster(isolation="process") as cluster:
        yield cluster


def test_a_killed_nameserver_comes_back_under_its_address(processes: Cluster) -> None:
    before = processes.pids
    assert sorted(before) == ["broker-a", "nameserver"]
    processes.nameserver.kill()
    assert refuses(processes.nameserver.address)
    assert list(processes.pids) == ["broker-a"]
    with pytest.raises(ClientError, match="nameserver isn't running; `restart` starts it"):
        processes.freeze("nameserver")
    processes.nameserver.restart()
    assert processes.nameserver.address == processes.namesrv
    assert processes.nameserver.pid not in (None, before["nameserver"])
    assert processes.pids["broker-a"] == before["broker-a"]
    assert processes.deaths == []


@pytest.mark.slow
@pytest.mark.parametrize("way", ["restart", "rule", "all rules"])
def test_clients_find_all_brokers_at_a_restarted_nameserver(way: str) -> None:
    with Cluster(brokers=2, isolation="process") as cluster:
        rule = cluster.faults.add(broker="nameserver", kill=True)
        threading.Event().wait(1)  # Now brokers try again only every second.
        if way == "restart":
            cluster.nameserver.restart()
        elif way == "rule":
            rule.remove()
        else:
            cluster.faults.clear()
        cluster.create_topic("orders")
        assert [one["name"] for one in cluster.replication()] == ["broker-a", "broker-b"]


def test_a_cluster_is_emptied_and_restored_while_one_of_its_nameservers_is_away() -> None:
    with Cluster(nameservers=2, isolation="process") as cluster:
        cluster.create_topic("orders")
        cluster.snapshot()
        cluster.clock.freeze()
        first, second = cluster.nameservers
        second.kill()
        assert cluster.reset() == {"topics": ["orders"], "groups": []}
        assert cluster.clock.now().mode == "real"
        assert cluster.restore()["topics"] == ["orders"]
        done = call("reset", NAMESRV_ADDR=cluster.namesrv)
        assert (done.stdout, done.stderr) == ("deleted 1 topic and 0 groups on 1 broker\n", "")
        second.restart()
        first.kill()
        with pytest.raises(ConnectFailed):  # It has the message time.
            cluster.reset()


def test_of_several_nameservers_one_may_be_away() -> None:
    with Cluster(nameservers=2, isolation="process") as cluster:
        first, second = cluster.nameservers
        assert cluster.namesrv == f"{first.address};{second.address}"
        first.kill()
        assert sorted(cluster.pids) == ["broker-a", "nameserver-2"]
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", b"1"))
        assert get(f"{cluster.control}/health") == (200, {"healthy": True, "problems": []})
        first.restart()
        assert cluster.reset() == {"topics": ["orders"], "groups": []}
        second.kill()
        assert cluster.deaths == []


def test_a_frozen_broker_answers_nothing_until_it_is_thawed(processes: Cluster) -> None:
    broker = processes.broker("broker-a")
    broker.freeze()
    assert not refuses(broker.address)  # The system still takes connections for it.
    assert get(f"{processes.control}/health")[0] == 503
    broker.thaw()
    assert get(f"{processes.control}/health") == (200, {"healthy": True, "problems": []})


def test_a_cluster_with_frozen_processes_stops_in_order() -> None:
    with Cluster(isolation="process") as cluster:
        cluster.freeze("broker-a")
        cluster.freeze("nameserver")
        pids = cluster.pids.values()
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
    assert cluster.deaths == []


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"brokers": 0}, "a cluster can't have 0 brokers; allowed are 1 to 26"),
        ({"brokers": "2"}, "brokers='2': it must be a whole number"),
        ({"nameservers": 10}, "a cluster can't have 10 nameservers; allowed are 1 to 9"),
        ({"brokers": True}, "brokers=True: it must be a whole number"),
        ({"namesrv_port": -1}, "namesrv_port=-1: ports are 1 to 65535; 0 means any free port"),
        ({"broker_port": 65536}, "broker_port=65536: ports are 1 to 65535"),
        ({"directory": 5}, "directory=5: it must be a path"),
        ({"directory": ""}, "directory= is empty"),
        ({"directory": __file__}, "is a file; choose a folder with directory="),
        ({"directory": "/dev/null/x"}, "choose another with directory="),
        ({"settings": ["autoCreateTopicEnable"]}, "it must be a dictionary"),
        ({"settings": {"autoCreateTopicEnable": "maybe"}}, r"autoCreateTopicEnable=maybe \(settings=\) is not a value"),
        ({"settings": {"brokerId": 1}}, r"brokerId=1 .*a cluster gives its slaves their roles and ids"),
        ({"settings": {"brokerIP1": "###"}}, "brokerIP1='###': clients can't connect to this host"),
        ({"settings": {"listenPort": 1234}}, r"listenPort \(settings=\) can't be set for a whole cluster"),
        ({"settings": {"storePathRootDir": "/x"}}, "storePathRootDir"),
        ({"settings": {"brokerName": "x"}}, "brokerName"),
    ],
)
def test_invalid_parameters_of_a_cluster_are_reported_by_their_names(parameters: dict[str, Any], words: str) -> None:
    before = threading.enumerate()
    with pytest.raises(UsageError, match=words) as refused, Cluster(**parameters):
        pass
    assert "--" not in str(refused.value)
    assert started_since(before) == []


def test_port_in_use_is_reported_in_terms_of_its_parameter(shared: Cluster) -> None:
    taken = int(shared.namesrv.rpartition(":")[2])
    with pytest.raises(UsageError, match="give another namesrv_port=") as refused, Cluster(namesrv_port=taken):
        pass
    assert "--" not in str(refused.value)


def test_folder_may_be_a_path(tmp_path: Path) -> None:
    with Cluster(directory=tmp_path / "data") as cluster:
        assert cluster.directory == str(tmp_path / "data")
    assert sorted(os.listdir(tmp_path / "data")) == ["broker-a", "nameserver"]


def test_topic_that_is_no_text_is_refused(shared: Cluster) -> None:
    with pytest.raises(UsageError, match=r"\['a'\] is not the name of a topic: it must be a str"):
        shared.create_topic(["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("queues", [0, -1, "4", True, 2.5])
def test_topic_without_a_number_of_queues_is_refused(shared: Cluster, queues: Any) -> None:
    with pytest.raises(UsageError, match="the number of queues per broker must be a whole number of at least 1"):
        shared.create_topic("orders", queues)
