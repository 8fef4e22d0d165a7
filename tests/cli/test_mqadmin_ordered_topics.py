"""`mqadmin updateTopic -o true` sets which queues of an ordered topic are valid; `updateTopicPerm` keeps attributes."""

import asyncio
from collections.abc import Iterator

import pytest

from staticfire.client import Admin
from staticfire.cluster.cluster import Cluster
from tests.cli.commands import call, mqadmin, one_line

pytestmark = pytest.mark.row("E2")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


def order_conf(cluster: Cluster, topic: str) -> str:
    (line,) = mqadmin(cluster, "updateOrderConf", "-m", "get", "-t", topic)
    return line.rstrip().removeprefix(f"get orderConf success. topic=[{topic}], orderConf=[").removesuffix("]")


def create(cluster: Cluster, topic: str, address: str, queues: int) -> list[str]:
    return mqadmin(cluster, "updateTopic", "-b", address, "-t", topic, "-w", str(queues), "-o", "true")


def test_brokers_are_added_to_the_order_conf_one_after_another(cluster: Cluster) -> None:
    first, second = cluster.addresses["broker-a"], cluster.addresses["broker-b"]
    lines = create(cluster, "Steps", first, 2)
    assert lines[:2] == [
        f"create topic to {first} success.",
        "set broker orderConf. isOrder=true, orderConf=[broker-a:2]",
    ]
    create(cluster, "Steps", second, 1)
    assert order_conf(cluster, "Steps") == "broker-a:2;broker-b:1"
    create(cluster, "Steps", first, 3)
    assert order_conf(cluster, "Steps") == "broker-a:3;broker-b:1"
    mqadmin(cluster, "updateTopic", "-c", "DefaultCluster", "-t", "Steps", "-w", "4", "-o", "true")
    assert order_conf(cluster, "Steps") == "broker-a:4;broker-b:4"


def test_a_broker_is_recognized_under_another_address(cluster: Cluster) -> None:
    port = cluster.addresses["broker-b"].rpartition(":")[2]
    create(cluster, "Elsewhere", cluster.addresses["broker-a"], 2)
    assert "orderConf=[broker-b:1]" in create(cluster, "Elsewhere", f"localhost:{port}", 1)[1]
    assert order_conf(cluster, "Elsewhere") == "broker-a:2;broker-b:1"


def test_a_broker_of_another_cluster_gets_no_ordered_topic(cluster: Cluster) -> None:
    with Cluster(brokers=3) as other:
        address = other.addresses["broker-c"]
        arguments = ["updateTopic", "-b", address, "-t", "Foreign", "-o", "true"]
        refused = call("mqadmin", *arguments, NAMESRV_ADDR=cluster.namesrv)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "broker-c, isn't registered; registered brokers: broker-a, broker-b" in one_line(refused.stderr)
        assert "Foreign" not in mqadmin(other, "topicList")


def test_a_new_permission_keeps_the_attributes(cluster: Cluster) -> None:
    attributes = {"cleanup.policy": "DELETE", "queue.type": "SimpleCQ", "message.type": "FIFO"}
    words = ",".join(f"+{name}={value}" for name, value in attributes.items())
    mqadmin(cluster, "updateTopic", "-c", "DefaultCluster", "-t", "Kept", "-a", words)
    changed = mqadmin(cluster, "updateTopicPerm", "-c", "DefaultCluster", "-t", "Kept", "-p", "4")
    assert changed == [f"update topic perm from 6 to 4 in {one} success." for one in cluster.addresses.values()]

    async def now() -> tuple[int, dict[str, str]]:
        async with Admin(cluster.namesrv) as each:
            config = await each.topic_config("Kept", "broker-b")
            return config.perm, config.attributes

    assert asyncio.run(now()) == (4, attributes)
