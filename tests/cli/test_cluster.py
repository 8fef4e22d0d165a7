"""`Cluster`: a cluster in one line, from blocking and from asyncio code."""

import os
import socket
import threading

import pytest

from staticfire import Cluster
from staticfire.client import Message, Producer, PullConsumer
from staticfire.protocol.errors import ClientError, TopicNotFound, UsageError
from tests.cli.commands import get


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


def refuses(address: str) -> bool:
    host, port = address.split(":")
    with socket.socket() as sock:
        return sock.connect_ex((host, int(port))) != 0


async def test_messages_go_through_a_cluster_of_two_brokers() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", queues=3)
        assert await sent_and_read(cluster.namesrv, "orders", 100) == 100
        async with PullConsumer("readers", cluster.namesrv) as consumer:
            brokers = [queue.broker_name for queue in await consumer.queues("orders")]
    assert brokers == ["broker-a"] * 3 + ["broker-b"] * 3


def test_blocking_test_has_a_cluster_and_nothing_of_it_afterwards() -> None:
    before = threading.active_count()
    with Cluster() as cluster:
        addresses = [cluster.namesrv, *cluster.addresses.values()]
        directory = cluster.directory
        assert not any(refuses(address) for address in addresses)
    assert all(refuses(address) for address in addresses)
    assert not os.path.exists(directory)
    assert threading.active_count() == before


async def test_reset_forgets_messages_topics_and_offsets() -> None:
    async with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders")
        await sent_and_read(cluster.namesrv, "orders", 10)
        assert cluster.reset() == {"topics": ["orders"], "groups": ["readers"]}
        with pytest.raises(TopicNotFound):
            await read(cluster.namesrv, "orders")
        assert await sent_and_read(cluster.namesrv, "orders", 5) == 5


def test_control_endpoint_starts_when_it_is_asked_for() -> None:
    with Cluster() as cluster:
        assert get(f"{cluster.control}/health") == (200, {"healthy": True, "problems": []})
        assert cluster.control == cluster.control


def test_settings_are_given_as_python_values_under_rocketmqs_names() -> None:
    with Cluster(settings={"autoCreateTopicEnable": False, "brokerClusterName": "Apollo"}) as cluster:
        assert get(cluster.control)[1]["cluster"] == "Apollo"


def test_unknown_setting_is_refused_before_anything_starts() -> None:
    before = threading.active_count()
    with (
        pytest.raises(UsageError, match="did you mean autoCreateTopicEnable"),
        Cluster(settings={"autoCreateTopic": 1}),
    ):
        pass
    assert threading.active_count() == before


def test_unknown_broker_and_broker_in_a_thread_are_told_apart() -> None:
    with Cluster() as cluster:
        with pytest.raises(ClientError, match="no broker-z; it has broker-a"):
            cluster.broker("broker-z")
        with pytest.raises(ClientError, match="isolation='process'"):
            cluster.broker("broker-a").kill()


def test_cluster_outside_of_with_says_so() -> None:
    cluster = Cluster()
    with pytest.raises(ClientError, match="inside `with cluster:`"):
        cluster.reset()
    with cluster:
        pass
    with pytest.raises(ClientError, match="used once"), cluster:
        pass


def test_two_clusters_live_side_by_side() -> None:
    with Cluster() as first, Cluster() as second:
        first.create_topic("orders")
        assert first.namesrv != second.namesrv
        assert "orders" not in second.reset()["topics"]


@pytest.mark.row("F4")
async def test_killed_broker_has_every_acknowledged_message_when_it_is_back() -> None:
    async with Cluster(brokers=2, isolation="process") as cluster:
        cluster.create_topic("orders", queues=2)
        assert await sent_and_read(cluster.namesrv, "orders", 1_000) == 1_000
        broker = cluster.broker("broker-b")
        broker.kill()
        assert refuses(broker.address)
        status, health = get(f"{cluster.control}/health")
        assert status == 503
        assert "broker-b" in health["problems"][0]

        broker.restart()

        assert get(f"{cluster.control}/health")[0] == 200
        assert await read(cluster.namesrv, "orders") == 1_000
        assert cluster.deaths == []
