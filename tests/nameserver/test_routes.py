"""Routes over connections: in both codecs, in the JSON of each kind of client, with the addresses each can use."""

import json
from typing import Any

import pytest

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codecs import JSON
from staticfire.protocol.requests.brokers import GetMemberGroup
from staticfire.protocol.requests.routes import GetClusterInfo, GetRoute, GetSystemTopicsOfNameserver, PutKVConfig
from staticfire.simulation.world.world import SimulatedWorld
from tests.nameserver.asking import NAMESERVER_HOST, registration
from tests.nameserver.conftest import Connect

pytestmark = pytest.mark.row("H1")

BROKER = '"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false'
QUEUES = '{"brokerName":"broker-a","perm":6,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}'
ROUTE = (
    '{"brokerDatas":[{"brokerAddrs":{ID:"10.0.0.2:10911"},' + BROKER + "}],"
    '"filterServerTable":{},"queueDatas":[' + QUEUES + "]}"
)
STANDARD_ROUTE, PLAIN_ROUTE = ROUTE.replace("ID", '"0"').encode(), ROUTE.replace("ID", "0").encode()


async def test_a_client_gets_the_route_that_a_broker_registered(connect: Connect, codec: int) -> None:
    await connect(codec=codec).ask(registration())
    route = await connect(codec=codec).route("orders")
    assert route is not None
    assert [(queues.broker_name, queues.read_queue_nums) for queues in route.queue_datas] == [("broker-a", 8)]
    assert route.broker_datas[0].broker_addrs == {0: "10.0.0.2:10911"}


async def test_an_unknown_topic_is_answered_with_rocketmqs_words(connect: Connect, codec: int) -> None:
    answer = await connect(codec=codec).ask(GetRoute(topic="nope"))
    assert (answer.code, answer.remark) == (
        17,
        "No topic route info in name server for the topic: nope\n"
        "See https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
    )


@pytest.mark.parametrize(
    ("version", "fields", "body"),
    [
        (479, {}, STANDARD_ROUTE),
        (401, {}, STANDARD_ROUTE),
        (399, {}, PLAIN_ROUTE),
        (0, {}, PLAIN_ROUTE),
        (399, {"acceptStandardJsonOnly": "true"}, STANDARD_ROUTE),
        (399, {"acceptStandardJsonOnly": "false"}, PLAIN_ROUTE),
    ],
)
async def test_the_json_of_a_route_suits_the_client(
    connect: Connect, version: int, fields: dict[str, Any], body: bytes
) -> None:
    await connect(codec=JSON).ask(registration())
    header, answered = await connect().raw(105, version=version, topic="orders", **fields)
    assert answered == body
    assert header["code"] == 0
    assert "extFields" not in header


async def test_the_cluster_has_bare_ids_for_every_foreign_client(connect: Connect) -> None:
    await connect(codec=JSON).ask(registration())
    _, body = await connect().raw(106)
    assert body.decode() == (
        '{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"10.0.0.2:10911"},' + BROKER + "}},"
        '"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
    )


async def test_a_member_group_is_rocketmqs(connect: Connect) -> None:
    await connect(codec=JSON).ask(registration())
    _, body = await connect().raw(901, clusterName="DefaultCluster", brokerName="broker-a")
    assert body.decode() == (
        '{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"DefaultCluster"}}'
    )


async def test_a_missing_field_is_named(connect: Connect) -> None:
    header, body = await connect().raw(105)
    assert header["code"] == 1
    assert "topic" in header["remark"]
    assert body == b""


async def test_a_broker_that_only_listens_is_shown_as_each_client_can_reach_it(connect: Connect, codec: int) -> None:
    await connect("10.0.0.1", codec).ask(registration("here", "0.0.0.0:10911", advertised=False))
    await connect("10.0.0.7", codec).ask(registration("there", "0.0.0.0:10921", advertised=False))
    outside, inside = connect("10.0.0.9", codec), connect("10.0.0.1", codec, to="127.0.0.1")
    assert await outside.addresses("orders") == {"here": {0: "10.0.0.1:10911"}, "there": {0: "10.0.0.7:10921"}}
    assert await inside.addresses("orders") == {"here": {0: "127.0.0.1:10911"}, "there": {0: "10.0.0.7:10921"}}


async def test_every_answer_with_an_address_follows_the_client(connect: Connect) -> None:
    await connect(NAMESERVER_HOST, to="127.0.0.1").ask(registration("here", "127.0.0.1:10911", advertised=False))
    client = connect("10.0.0.9")
    cluster = (await client.ask(GetClusterInfo())).body
    group = (await client.ask(GetMemberGroup(cluster_name="DefaultCluster", broker_name="here"))).body
    system = (await client.ask(GetSystemTopicsOfNameserver())).body
    slave = await client.ask(registration("here", "10.0.0.9:10911", 1, ha_address="10.0.0.9:10912"))
    reported = {0: f"{NAMESERVER_HOST}:10911"}
    assert cluster.broker_addr_table["here"].broker_addrs == reported
    assert group.broker_member_group.broker_addrs == reported
    assert system.broker_addr == reported[0]
    assert slave.master_addr == reported[0]


async def test_a_new_group_gets_its_retry_queues_before_any_broker_has_them(connect: Connect, codec: int) -> None:
    await connect(codec=codec).ask(registration("a", "10.0.0.2:10911", auto_create_groups=True))
    await connect(codec=codec).ask(registration("b", "10.0.0.3:10911", auto_create_groups=True))
    assert await connect(codec=codec).addresses("%RETRY%new") == {
        "a": {0: "10.0.0.2:10911"},
        "b": {0: "10.0.0.3:10911"},
    }


async def test_a_foreign_broker_promises_no_retry_queues(connect: Connect) -> None:
    body = json.dumps({"topicConfigSerializeWrapper": {"topicConfigTable": {}, "dataVersion": {}}}).encode()
    fields = {"brokerName": "b", "brokerAddr": "b:1", "clusterName": "C", "haServerAddr": "b:2", "brokerId": "0"}
    header, _ = await connect().raw(103, body, 479, **fields)
    assert header["code"] == 0
    assert await connect().route("%RETRY%new") is None


@pytest.mark.parametrize(
    ("settings", "wait_s"),
    [
        (NameserverSettings(need_wait_for_service=True), 45),
        (NameserverSettings(need_wait_for_service=True, wait_seconds_for_service=70), 70),
    ],
    ids=["default", "longer"],
)
async def test_routes_are_refused_until_brokers_had_time_to_register(
    world: SimulatedWorld, connect: Connect, wait_s: int
) -> None:
    client = connect()
    await client.ask(registration())
    await world.run_for(seconds=wait_s - 1)
    answer = await client.ask(GetRoute(topic="orders"))
    assert (answer.code, answer.remark) == (1, "name server not ready")
    await world.run_for(seconds=1)
    assert await client.route("orders") is not None


@pytest.mark.parametrize("settings", [NameserverSettings(order_message_enable=True)])
async def test_the_order_of_a_topic_comes_with_its_route_where_that_is_wanted(connect: Connect) -> None:
    client = connect()
    await client.ask(registration())
    await client.ask(PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4"))
    orders, bills = await client.route("orders"), await client.route("bills")
    assert orders is not None
    assert bills is not None
    assert (orders.order_topic_conf, bills.order_topic_conf) == ("broker-a:4", None)


@pytest.mark.parametrize("settings", [NameserverSettings(support_acting_master=True)])
async def test_a_slave_acts_as_master_where_that_is_wanted(connect: Connect) -> None:
    client = connect()
    await client.ask(registration("broker-a", "10.0.0.2:10911", 1, enable_acting_master=True))
    assert await client.addresses("orders") == {"broker-a": {0: "10.0.0.2:10911"}}


async def test_an_unknown_request_is_answered(connect: Connect, nameserver: Nameserver) -> None:
    header, _ = await connect().raw(10, topic="orders")
    assert header["code"] == 3
    assert header["remark"].startswith(" request type 10 not supported")
