"""`mqadmin`: RocketMQ's commands, flags and output, as quick starts and scripts use them."""

import asyncio
import json
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


def test_a_topic_comes_is_seen_and_goes(cluster: Cluster) -> None:
    created = mqadmin(cluster, "updatetopic", "-c", "DefaultCluster", "-t", "Flights", "-r", "4", "-w", "4")
    assert created[:-1] == [f"create topic to {address} success." for address in cluster.addresses.values()]
    assert created[-1].startswith("TopicConfig [topicName=Flights, readQueueNums=4, writeQueueNums=4, perm=RW-, ")
    assert "Flights" in mqadmin(cluster, "topicList")
    route = json.loads("".join(mqadmin(cluster, "topicRoute", "-t", "Flights")))
    assert {broker["brokerName"]: broker["brokerAddrs"]["0"] for broker in route["brokerDatas"]} == cluster.addresses
    assert (
        len([line for line in mqadmin(cluster, "topicStatus", "-t", "Flights") if line.startswith("broker-")]) == 2 * 4
    )
    deleted = mqadmin(cluster, "deleteTopic", "-c", "DefaultCluster", "-t", "Flights")
    assert deleted == [
        "delete topic [Flights] from cluster [DefaultCluster] success.",
        "delete topic [Flights] from NameServer success.",
    ]
    assert "Flights" not in mqadmin(cluster, "topicList")


@pytest.mark.row("G2")
def test_a_group_is_set_to_pop(cluster: Cluster) -> None:
    place = ["-c", "DefaultCluster", "-t", "Popped"]
    mqadmin(cluster, "updateTopic", *place)
    reported = mqadmin(cluster, "setConsumeMode", *place, "-g", "poppers", "-m", "POP", "-q", "2")
    assert reported == [
        *[f"set consume mode to {address} success." for address in cluster.addresses.values()],
        "topic[Popped] group[poppers] consume mode[POP] popShareQueueNum[2]",
    ]


def test_a_topic_on_one_broker(cluster: Cluster) -> None:
    address = cluster.addresses["broker-b"]
    assert mqadmin(cluster, "updateTopic", "-b", address, "-t", "Solo")[0] == f"create topic to {address} success."
    route = json.loads("".join(mqadmin(cluster, "topicRoute", "-t", "Solo")))
    assert [queues["brokerName"] for queues in route["queueDatas"]] == ["broker-b"]


def test_the_queues_of_an_ordered_topic_are_set_shown_and_removed(cluster: Cluster) -> None:
    conf = "broker-a:2;broker-b:1"
    assert mqadmin(cluster, "updateOrderConf", "-m", "put", "-t", "Ordered", "-v", conf) == [
        f"update orderConf success. topic=[Ordered], orderConf=[{conf}]"
    ]
    shown = mqadmin(cluster, "updateOrderConf", "-m", "get", "-t", "Ordered")
    assert [line.rstrip() for line in shown] == [f"get orderConf success. topic=[Ordered], orderConf=[{conf}]"]
    assert mqadmin(cluster, "updateOrderConf", "-m", "delete", "-t", "Ordered") == [
        "delete orderConf success. topic=[Ordered]"
    ]
    for arguments, words in (
        (("-m", "get"), "topic Ordered has no orderConf"),
        (("-m", "put", "-v", "broker-a"), "must be written as broker:count;broker:count"),
    ):
        done = call("mqadmin", "updateOrderConf", "-t", "Ordered", *arguments, NAMESRV_ADDR=cluster.namesrv)
        assert done.returncode != 0
        assert words in one_line(done.stderr)


def test_a_group_and_how_far_it_has_come(cluster: Cluster) -> None:
    mqadmin(cluster, "updateTopic", "-c", "DefaultCluster", "-t", "Orders")
    created = mqadmin(cluster, "updateSubGroup", "-c", "DefaultCluster", "-g", "Billing", "-r", "3")
    assert created[0].startswith("create subscription group to 127.0.0.1:")
    assert "groupName=Billing, consumeEnable=true" in created[-1]
    sent = mqadmin(
        cluster, "sendMessage", "-t", "Orders", "-p", "hello", "-k", "k1", "-c", "paid", "-b", "broker-a", "-i", "2"
    )
    assert sent[0].split() == ["#Broker", "Name", "#QID", "#Send", "Result", "#MsgId"]
    assert sent[1].split()[:3] == ["broker-a", "2", "SEND_OK"]
    flags = ["--group", "Billing", "--from", "first", "--max", "1", "--timeout", "20s"]
    assert "hello" in one_line(call("consume", "Orders", *flags, NAMESRV_ADDR=cluster.namesrv).stdout)
    progress = mqadmin(cluster, "consumerProgress", "-g", "Billing", "-t", "Orders")
    assert "Orders broker-a 2 1 1 0 0" in [" ".join(line.split()[:7]) for line in progress]
    assert "Consume Diff Total: 0" in progress
    mqadmin(cluster, "updateSubGroup", "-c", "DefaultCluster", "-g", "Idle")
    assert "Consume Diff Total: 0" in mqadmin(cluster, "consumerProgress", "-g", "Idle")
    deleted = mqadmin(cluster, "deleteSubGroup", "-c", "DefaultCluster", "-g", "Billing", "-r", "true")
    assert all(line.startswith("delete subscription group [Billing] from broker [") for line in deleted)


@pytest.mark.row("H8")
def test_a_groups_attributes_are_set_and_removed(cluster: Cluster) -> None:
    def change(attributes: str) -> None:
        mqadmin(cluster, "updateSubGroup", "-c", "DefaultCluster", "-g", "Calm", "--attributes", attributes)

    async def now() -> dict[str, str]:
        async with Admin(cluster.namesrv) as each:
            return (await each.group_config("Calm", "broker-b")).attributes

    change("+stableTimeMs=30000, +graceTimeMs=10000")
    assert asyncio.run(now()) == {"stableTimeMs": "30000", "graceTimeMs": "10000"}
    change("-stableTimeMs")
    assert asyncio.run(now()) == {"graceTimeMs": "10000"}


def test_each_broker_that_refuses_a_change_is_reported(cluster: Cluster) -> None:
    arguments = ["updateSubGroup", "-c", "DefaultCluster", "-g", "G", "--attributes", "+a=1"]
    refused = call("mqadmin", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert (refused.returncode, refused.stdout) == (1, "")
    for line, address in zip(refused.stderr.splitlines(), cluster.addresses.values(), strict=True):
        assert "unsupported key: a" in line
        assert address in line


def test_the_cluster_is_listed_under_rocketmqs_headings(cluster: Cluster) -> None:
    listed = mqadmin(cluster, "clusterList")
    assert listed[0].split("  ")[0] == "#Cluster Name"
    assert [line.split()[:5] for line in listed[1:]] == [
        ["DefaultCluster", name, "0", address, "V5_3_3"] for name, address in sorted(cluster.addresses.items())
    ]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["topicRoute", "-t", "Nowhere"], 1, "Nowhere"),
        (["consumerProgress", "-g", "Nobody"], 1, "no broker knows group Nobody"),
        (["clusterList", "-c", "Nowhere"], 1, "no broker of a cluster Nowhere is registered"),
        (
            ["updateTopic", "-c", "DefaultCluster", "-t", "Orders", "-r", "-1"],
            2,
            "-1 is not a whole number of at least 1",
        ),
        (["topicList", "-n", ""], 2, "--namesrv is empty; write host:port"),
        (["updateTopic", "-t", "Orders"], 2, "give -c CLUSTER or -b HOST:PORT"),
        (["updateSubGroup", "-c", "DefaultCluster", "-g", "G", "--attributes", "graceTimeMs=1"], 2, "write +KEY="),
        (["updateTopic", "-c", "DefaultCluster"], 2, "Missing option '-t'"),
        (["updateTopic", "-c", "Nowhere", "-t", "Orders"], 1, "no master of cluster Nowhere"),
        (
            ["updateSubGroup", "-c", "DefaultCluster", "-g", "G", "-a", "+a=1"],
            2,
            "write attributes behind --attributes",
        ),
        (["addBroker"], 2, "unknown command addBroker; the commands are updateTopic, "),
        (["topiclst"], 2, "unknown command topiclst, did you mean topicList"),
        (["queryMsgById", "-t", "Orders", "-i", "nothing"], 1, "Orders"),
        (["queryMsgByKey", "-t", "Nowhere", "-k", "k"], 1, "Nowhere"),
        (["queryMsgByOffset", "-t", "Orders", "-b", "broker-a", "-i", "0", "-o", "7"], 1, "Orders"),
        (["consumeMessage", "-t", "Orders", "-i", "0"], 2, "use -b NAME and -i ID together"),
        (["consumerConnection", "-g", "Nobody"], 1, "group Nobody has no consumer now"),
        (["producerConnection", "-g", "Nobody", "-t", "TBW102"], 1, "group Nobody has no producer"),
        (["consumerStatus", "-g", "Nobody"], 1, "group Nobody has no consumer now"),
        (["cloneGroupOffset", "-s", "Nobody", "-d", "G", "-t", "Orders"], 1, "no broker knows group Nobody"),
        (
            ["wipeWritePerm", "-b", "broker-x"],
            1,
            "no broker broker-x is registered; registered brokers: broker-a, broker-b",
        ),
        (["printMsg", "-t", "Orders", "-c", "nosuch"], 2, "unknown character set"),
        (["printMsg", "-t", "Orders", "-b", "yesterday"], 2, "'yesterday' is not a time"),
        (["brokerStatus", "-b", "127.0.0.1:1"], 1, "connect to 127.0.0.1:1 failed"),
        (
            ["brokerStatus", "-b", "127.0.0.1:1", "-c", "DefaultCluster"],
            2,
            "use either -c CLUSTER or -b HOST:PORT, not both",
        ),
        (["checkMsgSendRT", "-t", "Orders", "-a", "1"], 2, "1 is not a whole number of at least 2"),
        (["consumerProgress", "-t", "Orders"], 2, "-t TOPIC needs -g GROUP"),
    ],
)
def test_what_fails_is_one_line_and_an_exit_code(
    cluster: Cluster, arguments: list[str], exit_code: int, words: str
) -> None:
    refused = call("mqadmin", *arguments, NAMESRV_ADDR=cluster.namesrv)
    assert refused.returncode == exit_code
    assert words in one_line(refused.stderr)
