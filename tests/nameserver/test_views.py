"""What is shown of the route table: routes, lists, and the queues of groups that nobody has heard of yet."""

from typing import Any

import pytest

from staticfire.nameserver import views
from staticfire.nameserver.route_table import BrokerEntry, RouteTable
from staticfire.protocol.requests.brokers import MemberGroup
from staticfire.protocol.requests.routes import BrokerData, ClusterInfo, QueueData
from staticfire.protocol.requests.topics import DataVersion, TopicConfig
from staticfire.protocol.times import UptimeMs

pytestmark = pytest.mark.row("H1")

RETRY_QUEUES = [QueueData("a", 1, 1, 6), QueueData("b", 1, 1, 6)]


def as_filed(address: str) -> str:
    return address


@pytest.fixture
def table() -> RouteTable:
    return RouteTable()


def register(table: RouteTable, name: str, broker_id: int = 0, *topics: TopicConfig, **fields: Any) -> None:
    entry = BrokerEntry(
        cluster=str(fields.pop("cluster", "C")),
        broker_name=name,
        broker_id=broker_id,
        address=f"{name}-{broker_id}:10911",
        ha_address="",
        expiry_ms=120_000,
        version=DataVersion(),
        **fields,
    )
    given = topics or (TopicConfig("orders", 8, 8), TopicConfig("bills", 8, 8))
    table.register(entry, {topic.topic_name: topic for topic in given}, object(), UptimeMs(0))


# -- routes ------------------------------------------------------------------------------------------------------------


def test_a_route_shows_queues_and_brokers_in_the_order_of_registration(table: RouteTable) -> None:
    register(table, "b")
    register(table, "a")
    register(table, "a", 1)
    route = views.topic_route(table, "orders", as_filed)
    assert route is not None
    assert route.queue_datas == [QueueData("b", 8, 8, 6), QueueData("a", 8, 8, 6)]
    assert route.broker_datas == [
        BrokerData("C", "b", {0: "b-0:10911"}),
        BrokerData("C", "a", {0: "a-0:10911", 1: "a-1:10911"}),
    ]
    assert route.filter_server_table == {}


def test_ids_of_replicas_come_sorted(table: RouteTable) -> None:
    for broker_id in (2, 0, 1):
        register(table, "a", broker_id)
    route = views.topic_route(table, "orders", as_filed)
    assert route is not None
    assert list(route.broker_datas[0].broker_addrs) == [0, 1, 2]


def test_a_topic_without_queues_has_no_route(table: RouteTable) -> None:
    register(table, "a")
    assert views.topic_route(table, "unknown", as_filed) is None


def test_every_address_is_shown(table: RouteTable) -> None:
    register(table, "a", filter_servers=["10.0.0.1:7001"])
    route = views.topic_route(table, "orders", str.upper)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: "A-0:10911"}
    assert route.filter_server_table == {"A-0:10911": ["10.0.0.1:7001"]}
    assert views.cluster_info(table, str.upper).broker_addr_table["a"].broker_addrs == {0: "A-0:10911"}
    assert views.member_group(table, "C", "a", str.upper).broker_addrs == {0: "A-0:10911"}
    assert views.system_topics(table, str.upper).broker_addr == "A-0:10911"


def test_what_is_shown_can_be_changed_without_changing_the_table(table: RouteTable) -> None:
    register(table, "a", 1, enable_acting_master=True)
    views.topic_route(table, "orders", as_filed, acting_masters=True)
    assert table.brokers["a"].broker_addrs == {1: "a-1:10911"}


@pytest.mark.parametrize(("acting_masters", "shown"), [(False, {1: "a-1:10911"}), (True, {0: "a-1:10911"})])
def test_the_lowest_slave_is_shown_as_master_where_that_is_wanted(
    table: RouteTable, acting_masters: bool, shown: dict[int, str]
) -> None:
    register(table, "a", 1, enable_acting_master=True)
    route = views.topic_route(table, "orders", as_filed, acting_masters)
    assert route is not None
    assert route.broker_datas[0].broker_addrs == shown


# -- retry topics ------------------------------------------------------------------------------------------------------


def test_an_unknown_group_retries_on_every_master_that_would_create_it(table: RouteTable) -> None:
    register(table, "a", auto_create_groups=True)
    register(table, "a", 1, auto_create_groups=True)
    register(table, "b", auto_create_groups=True)
    register(table, "foreign")
    route = views.topic_route(table, "%RETRY%new", as_filed)
    assert route is not None
    assert route.queue_datas == RETRY_QUEUES
    assert [broker.broker_name for broker in route.broker_datas] == ["a", "b"]
    assert "%RETRY%new" not in table.topics


def test_a_group_that_one_broker_has_created_already_retries_on_the_others_too(table: RouteTable) -> None:
    register(table, "a", 0, TopicConfig("orders"), TopicConfig("%RETRY%g", 1, 1), auto_create_groups=True)
    register(table, "b", auto_create_groups=True)
    route = views.topic_route(table, "%RETRY%g", as_filed)
    assert route is not None
    assert route.queue_datas == RETRY_QUEUES


@pytest.mark.parametrize("topic", ["%RETRY%", "%RETRY%not a group", "%DLQ%new", "new"])
def test_nothing_else_gets_queues_that_do_not_exist(table: RouteTable, topic: str) -> None:
    register(table, "a", auto_create_groups=True)
    assert views.topic_route(table, topic, as_filed) is None


def test_brokers_that_do_not_create_groups_get_no_retry_queues(table: RouteTable) -> None:
    register(table, "a")
    assert views.topic_route(table, "%RETRY%new", as_filed) is None


# -- lists -------------------------------------------------------------------------------------------------------------


def test_the_cluster_shows_all_brokers(table: RouteTable) -> None:
    register(table, "a", enable_acting_master=True, zone_name="z")
    register(table, "b", cluster="D")
    assert views.cluster_info(table, as_filed) == ClusterInfo(
        {"a": BrokerData("C", "a", {0: "a-0:10911"}, True, "z"), "b": BrokerData("D", "b", {0: "b-0:10911"})},
        {"C": ["a"], "D": ["b"]},
    )


def test_a_member_group_is_answered_for_unknown_brokers_too(table: RouteTable) -> None:
    register(table, "a")
    assert views.member_group(table, "X", "a", as_filed) == MemberGroup("X", "a", {0: "a-0:10911"})
    assert views.member_group(table, "C", "unknown", as_filed) == MemberGroup("C", "unknown", {})


def test_topics_are_listed_of_all_and_of_one_cluster(table: RouteTable) -> None:
    register(table, "a")
    register(table, "b", 0, TopicConfig("bills"), TopicConfig("mails"), cluster="D")
    assert views.all_topics(table).topic_list == ["orders", "bills", "mails"]
    assert views.topics_of_cluster(table, "D").topic_list == ["bills", "mails"]
    assert views.topics_of_cluster(table, "unknown").topic_list == []


def test_system_topics_are_the_names_of_clusters_and_brokers(table: RouteTable) -> None:
    assert views.system_topics(table, as_filed).broker_addr is None
    register(table, "a")
    register(table, "b")
    system = views.system_topics(table, as_filed)
    assert (system.topic_list, system.broker_addr) == (["C", "a", "b"], "a-0:10911")


def test_unit_topics_are_listed_by_their_flags(table: RouteTable) -> None:
    topics = [TopicConfig(f"flag-{flag}", topic_sys_flag=flag) for flag in range(4)]
    register(table, "a", 0, *topics)
    assert views.unit_topics(table).topic_list == ["flag-1", "flag-3"]
    assert views.unit_subscribed_topics(table).topic_list == ["flag-2", "flag-3"]
    assert views.unit_subscribed_only_topics(table).topic_list == ["flag-2"]
