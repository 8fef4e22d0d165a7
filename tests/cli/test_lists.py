"""`staticfire topics` and `staticfire groups`, and the mqadmin commands that change what they show."""

import json
from collections.abc import Iterator

import pytest

from staticfire import Cluster, ConsumeFromWhere, ConsumeStatus, Message, Producer, PushConsumer, PushSettings
from tests.cli.commands import call


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A topic with four messages, and a group that has consumed them."""
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=2)
        with Producer("shop", cluster.namesrv) as producer:
            for number in range(4):
                producer.send(Message("orders", b"%d" % number))
        settings = PushSettings(consume_from_where=ConsumeFromWhere.FIRST_OFFSET)
        consumer = PushConsumer("billing", cluster.namesrv, settings)
        consumer.subscribe("orders")
        consumed: list[bytes] = []

        @consumer.listener
        def listen(messages: tuple[object, ...], context: object) -> ConsumeStatus:
            consumed.extend(b"" for _ in messages)
            return ConsumeStatus.CONSUME_SUCCESS

        with consumer:
            cluster.clock.advance(seconds=1)  # It waits until they are consumed.
        assert len(consumed) == 4
        yield cluster


def lines(cluster: Cluster, *arguments: str) -> list[dict[str, object]]:
    done = call(*arguments, "--json", "--namesrv", cluster.namesrv)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def mqadmin(cluster: Cluster, *arguments: str) -> str:
    done = call("mqadmin", *arguments, "-n", cluster.namesrv)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_lists(cluster: Cluster) -> None:
    assert lines(cluster, "topics") == [{"topic": "orders", "brokers": 1, "queues": 2, "messages": 4}]
    assert "%RETRY%billing" in {one["topic"] for one in lines(cluster, "topics", "--all")}
    (billing,) = lines(cluster, "groups")
    assert (billing["group"], billing["members"], billing["lag"]) == ("billing", 0, 0)
    assert "billing" in call("groups", "--namesrv", cluster.namesrv).stdout


def test_a_group_is_moved_back_and_ahead(cluster: Cluster) -> None:
    said = mqadmin(cluster, "resetOffsetByTime", "-g", "billing", "-t", "orders", "-s", "0")
    assert said.splitlines()[0].startswith(
        "start reset consumer offset by specified, group[billing], topic[orders], force[true], timestamp(string)[0], "
    )
    assert [line.split() for line in said.splitlines()[1:]] == [
        ["#brokerName", "#queueId", "#offset"], ["broker-a", "0", "0"], ["broker-a", "1", "0"],
    ]  # fmt: skip
    assert lines(cluster, "groups")[0]["lag"] == 4
    mqadmin(cluster, "skipAccumulatedMessage", "-g", "billing", "-t", "orders")
    assert lines(cluster, "groups")[0]["lag"] == 0
    one_queue = ["-g", "billing", "-t", "orders", "-s", "now", "-b", cluster.addresses["broker-a"], "-q", "0"]
    assert mqadmin(cluster, "resetOffsetByTime", *one_queue, "-o", "0").endswith("reset consumer offset to 0\n")
    assert mqadmin(cluster, "resetOffsetByTime", *one_queue).endswith("reset consumer offset to 2\n")
    assert lines(cluster, "groups")[0]["lag"] == 0
    refused = call("mqadmin", "resetOffsetByTime", "-g", "nobody", "-t", "orders", "-s", "0", "-n", cluster.namesrv)
    assert refused.returncode == 1
    assert "no broker knows group nobody" in refused.stderr


def test_without_server_side_resets_one_queue_is_moved_and_the_others_stay() -> None:
    with Cluster(settings={"useServerSideResetOffset": False}) as cluster:
        cluster.create_topic("orders", queues=2)
        with Producer("shop", cluster.namesrv) as producer:
            for number in range(4):
                producer.send(Message("orders", b"%d" % number))
        mqadmin(cluster, "updateSubGroup", "-c", "DefaultCluster", "-g", "billing")
        one_queue = ["-g", "billing", "-t", "orders", "-b", cluster.addresses["broker-a"]]
        for queue_id in ("0", "1"):
            first = [*one_queue, "-q", queue_id, "-s", "0", "-o", "0"]
            assert mqadmin(cluster, "resetOffsetByTime", *first).endswith("reset consumer offset to 0\n")
        mqadmin(cluster, "resetOffsetByTime", *one_queue, "-q", "0", "-s", "now")
        assert lines(cluster, "groups")[0]["lag"] == 2


def test_settings_and_permissions(cluster: Cluster) -> None:
    address = cluster.addresses["broker-a"]
    said = mqadmin(cluster, "updateTopicPerm", "-c", "DefaultCluster", "-t", "orders", "-p", "4")
    assert said == f"update topic perm from 6 to 4 in {address} success.\n"
    mqadmin(cluster, "updateTopicPerm", "-b", address, "-t", "orders", "-p", "6")
    assert mqadmin(cluster, "topicClusterList", "-t", "orders") == "DefaultCluster\n"
    said = mqadmin(cluster, "updateBrokerConfig", "-b", address, "-k", "fileReservedTime", "-v", "48")
    assert said == f"update broker config success, {address}\n"
    shown = mqadmin(cluster, "getBrokerConfig", "-b", address)
    assert shown.startswith(f"============{address}============\n")
    assert f"{'fileReservedTime'.ljust(50)}=  48" in shown
    assert "=  billing\n" in mqadmin(cluster, "getConsumerConfig", "-g", "billing")
    mqadmin(cluster, "updateKvConfig", "-s", "ns", "-k", "name", "-v", "text")
    mqadmin(cluster, "deleteKvConfig", "-s", "ns", "-k", "name")
    assert "listenPort" in mqadmin(cluster, "getNamesrvConfig")
    refused = call(
        "mqadmin", "updateBrokerConfig", "-b", address, "-k", "fileReservedTime", "-v", "x", "-n", cluster.namesrv
    )
    assert refused.returncode == 1
