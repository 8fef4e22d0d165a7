"""Lists of topics and changes of routes, over connections, as tools ask for them."""

import json

import pytest

from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.requests.routes import (
    AddWritePerm,
    DeleteTopicInNameserver,
    GetAllTopics,
    GetTopicsByCluster,
    QueueData,
    RegisterTopicInNameserver,
    TopicRouteData,
    WipeWritePerm,
)
from tests.nameserver.asking import registration
from tests.nameserver.conftest import Connect


async def test_topics_are_listed(connect: Connect, codec: int) -> None:
    client = connect(codec=codec)
    await client.ask(registration())
    assert (await client.ask(GetAllTopics())).body.topic_list == ["orders", "bills"]
    assert (await client.ask(GetTopicsByCluster(cluster="DefaultCluster"))).body.topic_list == ["orders", "bills"]
    assert (await client.ask(GetTopicsByCluster(cluster="unknown"))).body.topic_list == []


async def test_lists_are_rocketmqs_json(connect: Connect) -> None:
    await connect().ask(registration())
    client = connect()
    assert (await client.raw(206))[1] == b'{"topicList":["orders","bills"]}'
    assert (await client.raw(304))[1] == (b'{"brokerAddr":"10.0.0.2:10911","topicList":["DefaultCluster","broker-a"]}')
    for code in (311, 312, 313):
        assert (await client.raw(code))[1] == b'{"topicList":[]}'


@pytest.mark.parametrize("settings", [NameserverSettings(enable_topic_list=False, enable_all_topic_list=False)])
@pytest.mark.parametrize("code", [206, 224, 311, 312, 313])
async def test_lists_that_are_switched_off_are_refused(connect: Connect, code: int) -> None:
    header, _ = await connect().raw(code, cluster="DefaultCluster")
    assert (header["code"], header["remark"]) == (1, "disable")


async def test_a_broker_is_taken_from_producers_and_given_back(connect: Connect, codec: int) -> None:
    client = connect(codec=codec)
    await client.ask(registration())
    wiped = await client.ask(WipeWritePerm(broker_name="broker-a"))
    assert wiped.wipe_topic_count == 2
    route = await client.route("orders")
    assert route is not None
    assert route.queue_datas[0].perm == 4
    added = await client.ask(AddWritePerm(broker_name="broker-a"))
    assert added.add_topic_count == 2
    route = await client.route("orders")
    assert route is not None
    assert route.queue_datas[0].perm == 6


async def test_an_unknown_broker_is_taken_from_nothing(connect: Connect) -> None:
    header, _ = await connect().raw(205, brokerName="unknown")
    assert (header["code"], header["extFields"]) == (0, {"wipeTopicCount": "0"})
    header, _ = await connect().raw(327, brokerName="unknown")
    assert (header["code"], header["extFields"]) == (0, {"addTopicCount": "0"})


async def test_a_topic_is_deleted_and_deleted_again(connect: Connect, codec: int) -> None:
    client = connect(codec=codec)
    await client.ask(registration())
    for _ in range(2):
        assert (await client.ask(DeleteTopicInNameserver(topic="orders"))).code == 0
        assert await client.route("orders") is None


async def test_a_topic_is_added_for_known_brokers(connect: Connect, codec: int) -> None:
    client = connect(codec=codec)
    await client.ask(registration())
    await client.ask(RegisterTopicInNameserver(topic="made", body=TopicRouteData([QueueData("broker-a", 4, 4, 6)])))
    await client.ask(RegisterTopicInNameserver(topic="lost", body=TopicRouteData([QueueData("unknown", 4, 4, 6)])))
    assert await client.addresses("made") == {"broker-a": {0: "10.0.0.2:10911"}}
    assert await client.route("lost") is None


async def test_a_topic_is_added_as_java_tools_do(connect: Connect) -> None:
    client = connect()
    await client.ask(registration())
    queues = {"brokerName": "broker-a", "perm": 6, "readQueueNums": 8, "topicSysFlag": 0, "writeQueueNums": 8}
    body = json.dumps({"queueDatas": [queues], "brokerDatas": []}).encode()
    assert (await client.raw(217, body, topic="made"))[0]["code"] == 0
    assert (await client.raw(217, topic="empty"))[0]["code"] == 0
    assert await client.addresses("made") == {"broker-a": {0: "10.0.0.2:10911"}}
    assert await client.route("empty") is None
