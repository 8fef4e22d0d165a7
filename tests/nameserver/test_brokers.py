"""Brokers come, live and go, over connections and on virtual time."""

import json
import zlib
from typing import Any

import pytest

from staticfire.nameserver.server import Nameserver
from staticfire.nameserver.settings import NameserverSettings
from staticfire.protocol.codecs import JSON
from staticfire.protocol.command import Request
from staticfire.protocol.requests.brokers import (
    BrokerHeartbeat,
    QueryDataVersion,
    UnregisterBroker,
)
from staticfire.protocol.requests.routes import PutKVConfig
from staticfire.protocol.requests.topics import DataVersion
from staticfire.simulation.world.world import SimulatedWorld
from tests.nameserver.asking import Asking, registration
from tests.nameserver.conftest import Connect

pytestmark = pytest.mark.row("H1")

WHO: dict[str, Any] = {"broker_name": "broker-a", "broker_addr": "10.0.0.2:10911", "cluster_name": "DefaultCluster"}
JAVA_REGISTRATION: dict[str, Any] = {
    "brokerName": "broker-a",
    "brokerAddr": "10.0.0.2:10911",
    "clusterName": "DefaultCluster",
    "haServerAddr": "10.0.0.2:10912",
    "brokerId": "0",
    "compressed": "false",
    "enableActingMaster": "false",
    "bodyCrc32": "0",
}
JAVA_BODY = (
    b'{"filterServerList":[],"topicConfigSerializeWrapper":{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":5},'
    b'"mappingDataVersion":{"counter":0,"stateVersion":0,"timestamp":5},"topicConfigTable":{"orders":{"attributes":{},'
    b'"order":false,"perm":6,"readQueueNums":8,"topicFilterType":"SINGLE_TAG","topicName":"orders","topicSysFlag":0,'
    b'"writeQueueNums":8},"bills":{"order":false,"perm":6,"readQueueNums":8,"topicName":"bills","writeQueueNums":8}},'
    b'"topicQueueMappingDetailMap":{},"topicQueueMappingInfoMap":{}}}'
)


async def is_known(client: Asking) -> bool:
    return await client.route("orders") is not None


async def test_a_broker_leaves_with_its_connection(world: SimulatedWorld, connect: Connect, codec: int) -> None:
    broker, client = connect("10.0.0.2", codec), connect()
    await broker.ask(registration())
    assert await is_known(client)
    await broker.close()
    await world.run_for(ms=10)
    assert not await is_known(client)


async def test_a_broker_that_was_killed_leaves_at_once(world: SimulatedWorld, connect: Connect) -> None:
    broker, client = connect("10.0.0.2"), connect()
    await broker.ask(registration())
    world.kill("program-0")
    await world.run_for(ms=10)
    assert not await is_known(client)


async def test_a_broker_that_came_back_is_not_lost_with_its_former_connection(
    world: SimulatedWorld, connect: Connect
) -> None:
    before, again, client = connect("10.0.0.2"), connect("10.0.0.2"), connect()
    await before.ask(registration())
    await again.ask(registration())
    await before.close()
    await world.run_for(ms=10)
    assert await is_known(client)


async def test_a_silent_broker_expires_with_the_next_look(world: SimulatedWorld, connect: Connect) -> None:
    broker, client = connect("10.0.0.2"), connect()
    await broker.ask(registration())
    await world.run_for(seconds=119)
    assert await is_known(client)
    await world.run_for(seconds=7)
    assert not await is_known(client)
    assert broker.pool.addresses == []  # Its connection was closed, so that it notices.


@pytest.mark.parametrize(
    ("settings", "known_s"),
    [
        (NameserverSettings(broker_expiry_ms=30_000), 29),
        (NameserverSettings(broker_expiry_ms=30_000, scan_not_active_broker_interval=55_000), 54),
    ],
    ids=["30 s", "with a rare look"],
)
async def test_after_how_long_a_silent_broker_expires(world: SimulatedWorld, connect: Connect, known_s: int) -> None:
    broker, client = connect("10.0.0.2"), connect()
    await broker.ask(registration())
    await world.run_for(seconds=known_s)
    assert await is_known(client)
    await world.run_for(seconds=7)
    assert not await is_known(client)


async def test_a_broker_says_itself_how_long_it_may_be_silent(world: SimulatedWorld, connect: Connect) -> None:
    broker, client = connect("10.0.0.2"), connect()
    await broker.ask(registration(heartbeat_timeout_millis=8_000))
    await world.run_for(seconds=7)
    assert await is_known(client)
    await world.run_for(seconds=6.1)
    assert not await is_known(client)


@pytest.mark.parametrize(
    ("sign", "counts"),
    [
        (BrokerHeartbeat(**WHO), True),
        (QueryDataVersion(**WHO, broker_id=0, body=DataVersion(0, 1000, 1)), True),
        (QueryDataVersion(**WHO, broker_id=0, body=DataVersion(0, 1000, 2)), False),
        (PutKVConfig(namespace="n", key="k", value="v"), False),
        (registration(), True),
    ],
    ids=["heartbeat", "same version", "other version", "another request", "registration"],
)
async def test_what_counts_as_a_sign_of_life(
    world: SimulatedWorld, connect: Connect, sign: Request, counts: bool
) -> None:
    broker, client = connect("10.0.0.2"), connect()
    await broker.ask(registration())
    await world.run_for(seconds=100)
    await broker.ask(sign)
    await world.run_for(seconds=100)
    assert await is_known(client) is counts


async def test_a_broker_that_says_goodbye_is_gone_with_the_answer(connect: Connect, codec: int) -> None:
    broker, client = connect("10.0.0.2", codec), connect()
    await broker.ask(registration())
    assert (await broker.ask(UnregisterBroker(**WHO, broker_id=0))).code == 0
    assert not await is_known(client)
    assert (await broker.ask(UnregisterBroker(**WHO, broker_id=0))).code == 0


async def test_a_broker_that_only_listens_is_recognised_by_its_connection(
    world: SimulatedWorld, connect: Connect
) -> None:
    here, there, client = connect("10.0.0.1"), connect("10.0.0.7"), connect()
    declared = WHO | {"broker_addr": "0.0.0.0:10911"}
    await here.ask(registration("here", "0.0.0.0:10911", advertised=False))
    await there.ask(registration("there", "0.0.0.0:10911", advertised=False))
    await there.ask(BrokerHeartbeat(**(declared | {"broker_name": "there"})))
    await there.ask(UnregisterBroker(**(declared | {"broker_name": "there"}), broker_id=0))
    assert await client.addresses("orders") == {"here": {0: "10.0.0.1:10911"}}
    changed = await here.ask(QueryDataVersion(**declared, broker_id=0, body=DataVersion(0, 1000, 1)))
    assert changed.changed is False


async def test_brokers_of_one_name_on_two_machines_follow_the_rule_of_the_id(connect: Connect) -> None:
    first, second, client = connect("10.0.0.7"), connect("10.0.0.8"), connect()
    await first.ask(registration("a", "0.0.0.0:10911", advertised=False, version=DataVersion(1, 1000, 1)))
    await second.ask(registration("a", "0.0.0.0:10911", advertised=False, version=DataVersion(0, 1000, 1)))
    assert await client.addresses("orders") == {"a": {0: "10.0.0.7:10911"}}
    await second.ask(registration("a", "0.0.0.0:10911", advertised=False, version=DataVersion(1, 1000, 1)))
    assert await client.addresses("orders") == {"a": {0: "10.0.0.8:10911"}}


async def test_a_java_broker_registers(connect: Connect) -> None:
    header, body = await connect().raw(103, JAVA_BODY, **JAVA_REGISTRATION)
    assert (header["code"], header["extFields"], body) == (0, {}, b"")


async def test_a_registration_whose_body_was_damaged_on_its_way_changes_no_route(connect: Connect) -> None:
    fields = JAVA_REGISTRATION | {"bodyCrc32": str(zlib.crc32(JAVA_BODY) & 0x7FFFFFFF)}
    damaged = JAVA_BODY.replace(b'"readQueueNums":8', b'"readQueueNums":9')
    header, _ = await connect().raw(103, damaged, **fields)
    assert header["code"] == 1
    assert "crc32 not match" in header["remark"]
    header, _ = await connect().raw(103, JAVA_BODY, **fields)
    assert header["code"] == 0


async def test_a_java_broker_asks_whether_its_topics_are_known(connect: Connect) -> None:
    await connect(codec=JSON).ask(registration(version=DataVersion(0, 1000, 1)))
    fields = {key: JAVA_REGISTRATION[key] for key in ("brokerName", "brokerAddr", "clusterName", "brokerId")}
    known = b'{"counter":1,"stateVersion":0,"timestamp":1000}'
    header, body = await connect().raw(322, known, **fields)
    assert (header["extFields"], body) == ({"changed": "false"}, known)
    header, body = await connect().raw(322, b'{"counter":2,"stateVersion":0,"timestamp":1000}', **fields)
    assert (header["extFields"], body) == ({"changed": "true"}, known)
    header, body = await connect().raw(322, known, **(fields | {"brokerAddr": "10.0.0.3:1"}))
    assert (header["extFields"], body) == ({"changed": "true"}, b"")


async def test_one_topic_of_an_unknown_broker_is_refused(connect: Connect, codec: int) -> None:
    answer = await connect(codec=codec).ask(registration("broker-a", "10.0.0.2:10911", 0, "orders"))
    assert (answer.code, answer.remark) == (1, "register broker failed")


async def test_a_broker_without_id_is_refused_by_name(connect: Connect) -> None:
    fields = {key: value for key, value in JAVA_REGISTRATION.items() if key != "brokerId"}
    header, _ = await connect().raw(103, JAVA_BODY, **fields)
    assert header["code"] == 1
    assert "brokerId" in header["remark"]


async def test_a_body_that_is_no_json_is_refused(connect: Connect) -> None:
    header, _ = await connect().raw(103, b'{"topicConfig', **JAVA_REGISTRATION)
    assert header["code"] == 1
    assert header["remark"].startswith("REGISTER_BROKER")


async def test_a_registration_is_answered_with_the_ordered_topics(connect: Connect) -> None:
    client = connect()
    assert (await client.ask(registration())).body is None
    await client.ask(PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4"))
    assert (await client.ask(registration())).body.table == {"orders": "broker-a:4"}
    _, body = await client.raw(103, JAVA_BODY, **JAVA_REGISTRATION)
    assert json.loads(body) == {"table": {"orders": "broker-a:4"}}


@pytest.mark.parametrize("settings", [NameserverSettings(return_order_topic_config_to_broker=False)])
async def test_the_ordered_topics_are_kept_back_where_that_is_wanted(connect: Connect) -> None:
    client = connect()
    await client.ask(PutKVConfig(namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:4"))
    assert (await client.ask(registration())).body is None


@pytest.mark.parametrize("settings", [NameserverSettings(delete_topic_with_broker_registration=True)])
async def test_topics_leave_with_a_registration_where_that_is_wanted(connect: Connect) -> None:
    client = connect()
    await client.ask(registration("broker-a", "10.0.0.2:10911", 0, "orders", "bills"))
    await client.ask(registration("broker-a", "10.0.0.2:10911", 0, "bills", "mails", version=DataVersion(0, 1000, 2)))
    assert not await is_known(client)


async def test_routes_are_gone_after_a_restart_until_brokers_register_again(
    world: SimulatedWorld, connect: Connect, nameserver: Nameserver
) -> None:
    await connect("10.0.0.2").ask(registration())
    await world.stop("nameserver")
    await world.start("nameserver", Nameserver(world.machine("nameserver"), NameserverSettings()))
    client = connect()
    assert not await is_known(client)
    await client.ask(registration())
    assert await is_known(client)
