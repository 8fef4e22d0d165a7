"""The rules by which brokers are filed and forgotten, one by one. RocketMQ: RouteInfoManager."""

from typing import Any

import pytest

from staticfire.nameserver.min_broker_ids import MinIdChange
from staticfire.nameserver.route_table import BrokerEntry, Registered, RouteTable
from staticfire.protocol.requests.routes import QueueData
from staticfire.protocol.requests.static_topics import MappingInfo
from staticfire.protocol.requests.topics import DataVersion, TopicConfig
from staticfire.protocol.times import UptimeMs

pytestmark = pytest.mark.row("H1")

START_MS = UptimeMs(50_000)


class Brokers:
    """A route table and brokers that register with it, each address on a channel of its own."""

    def __init__(self) -> None:
        self.table = RouteTable()
        self.channels: dict[str, object] = {}

    def register(
        self,
        name: str = "a",
        address: str = "10.0.0.1:10911",
        broker_id: int = 0,
        topics: dict[str, int] | None = None,
        counter: int = 1,
        state: int = 0,
        **fields: Any,
    ) -> Registered | None:
        """Register; `topics` are permissions by name. Fields: uptime_ms, delete_topics, or of `BrokerEntry`."""
        uptime_ms: UptimeMs = fields.pop("uptime_ms", START_MS)
        delete_topics: bool = fields.pop("delete_topics", False)
        entry = BrokerEntry(
            cluster=fields.pop("cluster", "C"),
            broker_name=name,
            broker_id=broker_id,
            address=address,
            ha_address=f"ha of {address}",
            expiry_ms=fields.pop("expiry_ms", 120_000),
            version=DataVersion(state, 1000, counter),
            **fields,
        )
        given = {"orders": 6, "bills": 6} if topics is None else topics
        configs = {topic: TopicConfig(topic, 8, 8, perm) for topic, perm in given.items()}
        channel = self.channels.setdefault(address, object())
        return self.table.register(entry, configs, channel, uptime_ms, delete_topics)

    def perm(self, topic: str, name: str = "a") -> int | None:
        queues = self.table.topics.get(topic, {}).get(name)
        return None if queues is None else queues.perm

    def addresses(self, name: str = "a") -> dict[int, str]:
        return self.table.brokers[name].broker_addrs


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


# -- registration ------------------------------------------------------------------------------------------------------


def test_a_first_registration_files_cluster_broker_topics_and_life(brokers: Brokers) -> None:
    assert brokers.register() == Registered(is_new=True)
    table = brokers.table
    assert table.clusters == {"C": {"a": None}}
    assert brokers.addresses() == {0: "10.0.0.1:10911"}
    assert table.topics["orders"] == {"a": QueueData("a", 8, 8, 6, 0)}
    assert table.live["C", "10.0.0.1:10911"].seen_ms == START_MS


def test_an_address_under_another_id_moves_there(brokers: Brokers) -> None:
    brokers.register(broker_id=1, address="10.0.0.1:10911")
    brokers.register(broker_id=0, address="10.0.0.1:10911")
    assert brokers.addresses() == {0: "10.0.0.1:10911"}


def test_an_id_held_with_a_newer_state_is_kept_and_the_newcomer_ignored(brokers: Brokers) -> None:
    brokers.register(address="10.0.0.1:10911", state=2)
    assert brokers.register(address="10.0.0.9:10911", state=1, topics={"x": 6, "y": 6}) == Registered(is_outdated=True)
    assert brokers.addresses() == {0: "10.0.0.1:10911"}
    assert brokers.perm("x") is None
    assert list(brokers.table.live) == [("C", "10.0.0.1:10911")]


@pytest.mark.parametrize("state", [2, 3])
def test_a_newcomer_whose_state_is_not_older_takes_the_id_over(brokers: Brokers, state: int) -> None:
    brokers.register(address="10.0.0.1:10911", state=2)
    brokers.register(address="10.0.0.9:10911", state=state)
    assert brokers.addresses() == {0: "10.0.0.9:10911"}


def test_a_holder_that_is_not_alive_keeps_no_other_out(brokers: Brokers) -> None:
    brokers.register(address="10.0.0.1:10911", state=2)
    brokers.table.live.clear()
    brokers.register(address="10.0.0.9:10911", state=1)
    assert brokers.addresses() == {0: "10.0.0.9:10911"}


def test_one_topic_before_the_first_full_registration_is_refused(brokers: Brokers) -> None:
    assert brokers.register(topics={"orders": 6}) is None
    assert brokers.table.clusters == {"C": {"a": None}}
    assert brokers.addresses() == {}  # The name stays, as clients see in the cluster's layout.
    assert not brokers.table.live
    assert not brokers.table.topics


@pytest.mark.parametrize("topics", [{}, {"orders": 6, "bills": 6}])
def test_none_or_two_topics_are_a_full_registration(brokers: Brokers, topics: dict[str, int]) -> None:
    assert brokers.register(topics=topics) is not None
    assert brokers.register(topics={"late": 6}, counter=2) is not None
    assert brokers.perm("late") == 6


def test_topics_of_the_same_data_version_are_not_looked_at_again(brokers: Brokers) -> None:
    brokers.register(topics={"orders": 6, "bills": 6})
    brokers.register(topics={"orders": 4, "bills": 6, "new": 6})
    assert brokers.perm("orders") == 6
    assert brokers.perm("new") == 6  # It has no entry for this broker, so it is written.


def test_topics_of_another_data_version_are_written(brokers: Brokers) -> None:
    brokers.register(topics={"orders": 6, "bills": 6})
    brokers.register(topics={"orders": 4, "bills": 6}, counter=2)
    assert brokers.perm("orders") == 4


def test_topics_that_are_missing_stay_unless_a_flag_says_otherwise(brokers: Brokers) -> None:
    brokers.register(topics={"orders": 6, "bills": 6, "old": 6})
    brokers.register(topics={"orders": 6, "bills": 6}, counter=2)
    assert brokers.perm("old") == 6
    brokers.register(topics={"orders": 6, "bills": 6}, counter=3, delete_topics=True)
    assert "old" not in brokers.table.topics


def test_one_changed_topic_takes_no_others_away(brokers: Brokers) -> None:
    brokers.register(topics={"orders": 6, "bills": 6}, delete_topics=True)
    brokers.register(topics={"orders": 4}, counter=2, delete_topics=True)
    assert (brokers.perm("orders"), brokers.perm("bills")) == (4, 6)


def test_topics_of_two_brokers_leave_one_by_one(brokers: Brokers) -> None:
    brokers.register("a", "10.0.0.1:10911")
    brokers.register("b", "10.0.0.2:10911")
    brokers.register("a", "10.0.0.1:10911", topics={}, counter=2, delete_topics=True)
    assert list(brokers.table.topics["orders"]) == ["b"]


def test_a_slave_of_an_old_broker_publishes_nothing(brokers: Brokers) -> None:
    brokers.register(broker_id=1, enable_acting_master=None)
    assert not brokers.table.topics


def test_the_lowest_slave_publishes_its_topics(brokers: Brokers) -> None:
    brokers.register(broker_id=1, enable_acting_master=False)
    assert brokers.perm("orders") == 6


def test_the_lowest_slave_publishes_them_read_only_where_it_acts_as_master(brokers: Brokers) -> None:
    brokers.register(broker_id=1, enable_acting_master=True)
    assert brokers.perm("orders") == 4


def test_a_slave_that_is_not_the_lowest_publishes_nothing(brokers: Brokers) -> None:
    brokers.register(broker_id=1, address="10.0.0.1:10911", enable_acting_master=True, topics={})
    brokers.register(broker_id=2, address="10.0.0.2:10911", enable_acting_master=True)
    assert not brokers.table.topics


def test_a_master_that_comes_brings_the_write_permission_back(brokers: Brokers) -> None:
    brokers.register(broker_id=1, address="10.0.0.1:10911", enable_acting_master=True)
    brokers.register(broker_id=0, address="10.0.0.2:10911", enable_acting_master=True)
    assert brokers.perm("orders") == 6


def test_a_slave_that_takes_the_id_of_a_master_publishes_its_topics(brokers: Brokers) -> None:
    """Although their version is what it was when it was a slave: the other one may have published something else."""
    slave: dict[str, Any] = {"address": "10.0.0.2:10911", "topics": {"orders": 6}}
    master: dict[str, Any] = {"address": "10.0.0.1:10911"}
    brokers.register(broker_id=0, **master)
    brokers.register(broker_id=1, **slave)
    brokers.register(broker_id=0, topics={"orders": 4}, counter=2, **master)
    assert brokers.perm("orders") == 4
    brokers.register(broker_id=0, **slave)
    assert brokers.perm("orders") == 6


def test_a_slave_learns_where_its_live_master_is(brokers: Brokers) -> None:
    brokers.register(broker_id=0, address="10.0.0.1:10911")
    slave = brokers.register(broker_id=1, address="10.0.0.2:10911")
    assert slave == Registered("10.0.0.1:10911", "ha of 10.0.0.1:10911", is_new=True)
    brokers.table.live.pop(("C", "10.0.0.1:10911"))
    assert brokers.register(broker_id=1, address="10.0.0.2:10911") == Registered()


def test_a_registration_replaces_the_live_entry(brokers: Brokers) -> None:
    brokers.register(expiry_ms=5_000)
    brokers.register(expiry_ms=9_000, counter=2, uptime_ms=UptimeMs(60_000))
    live = brokers.table.live["C", "10.0.0.1:10911"]
    assert (live.seen_ms, live.entry.expiry_ms, live.entry.version.counter) == (60_000, 9_000, 2)


# -- signs of life -----------------------------------------------------------------------------------------------------


def test_a_broker_expires_after_its_own_time(brokers: Brokers) -> None:
    brokers.register("a", "10.0.0.1:10911", expiry_ms=8_000)
    brokers.register("b", "10.0.0.2:10911")
    assert brokers.table.expire(UptimeMs(START_MS + 8_000)) == []
    expired = brokers.table.expire(UptimeMs(START_MS + 8_001))
    assert [live.channel for live in expired] == [brokers.channels["10.0.0.1:10911"]]
    assert list(brokers.table.brokers) == ["b"]
    assert list(brokers.table.topics["orders"]) == ["b"]


def test_a_sign_of_life_defers_the_expiry(brokers: Brokers) -> None:
    brokers.register(expiry_ms=8_000)
    brokers.table.refresh("C", "10.0.0.1:10911", UptimeMs(START_MS + 5_000))
    brokers.table.refresh("C", "10.9.9.9:10911", UptimeMs(START_MS + 5_000))
    assert brokers.table.expire(UptimeMs(START_MS + 13_000)) == []
    assert len(brokers.table.expire(UptimeMs(START_MS + 13_001))) == 1


def test_a_data_version_has_changed_when_it_is_not_the_filed_one(brokers: Brokers) -> None:
    brokers.register(counter=7)
    table = brokers.table
    assert not table.has_changed("C", "10.0.0.1:10911", DataVersion(0, 1000, 7))
    assert table.has_changed("C", "10.0.0.1:10911", DataVersion(0, 1000, 8))
    assert table.has_changed("C", "10.9.9.9:10911", DataVersion(0, 1000, 7))
    assert table.version_of("C", "10.9.9.9:10911") is None


# -- the end of a broker -----------------------------------------------------------------------------------------------


def test_the_last_address_takes_broker_cluster_and_queues_along(brokers: Brokers) -> None:
    brokers.register()
    assert brokers.table.unregister("C", "a", "10.0.0.1:10911")
    table = brokers.table
    assert (table.topics, table.brokers, table.clusters, table.live) == ({}, {}, {}, {})


def test_topics_stay_while_another_replica_is_there(brokers: Brokers) -> None:
    brokers.register(broker_id=0, address="10.0.0.1:10911")
    brokers.register(broker_id=1, address="10.0.0.2:10911")
    brokers.table.unregister("C", "a", "10.0.0.1:10911")
    assert brokers.addresses() == {1: "10.0.0.2:10911"}
    assert brokers.perm("orders") == 6


def test_topics_become_read_only_when_the_master_goes_and_a_slave_acts(brokers: Brokers) -> None:
    brokers.register(broker_id=0, address="10.0.0.1:10911", enable_acting_master=True)
    brokers.register(broker_id=1, address="10.0.0.2:10911", enable_acting_master=True)
    brokers.table.unregister("C", "a", "10.0.0.1:10911")
    assert brokers.perm("orders") == 4


def test_an_unknown_broker_or_address_changes_nothing(brokers: Brokers) -> None:
    brokers.register()
    assert not brokers.table.unregister("C", "b", "10.0.0.1:9")
    assert not brokers.table.unregister("C", "a", "10.0.0.1:9")
    assert brokers.addresses() == {0: "10.0.0.1:10911"}


def test_brokers_leave_with_their_channel(brokers: Brokers) -> None:
    brokers.register("a", "10.0.0.1:10911")
    brokers.register("b", "10.0.0.2:10911")
    assert brokers.table.lose(object()) == []
    lost = brokers.table.lose(brokers.channels["10.0.0.1:10911"])
    assert [live.entry.broker_name for live in lost] == ["a"]
    assert list(brokers.table.brokers) == ["b"]


def test_a_broker_that_was_replaced_takes_nothing_along(brokers: Brokers) -> None:
    brokers.register(address="10.0.0.1:10911")
    brokers.register(address="10.0.0.9:10911")
    brokers.table.lose(brokers.channels["10.0.0.1:10911"])
    assert brokers.addresses() == {0: "10.0.0.9:10911"}
    assert brokers.perm("orders") == 6


def test_a_broker_that_changed_its_name_leaves_under_both(brokers: Brokers) -> None:
    brokers.register("old", "10.0.0.1:10911")
    brokers.register("new", "10.0.0.1:10911")
    brokers.table.lose(brokers.channels["10.0.0.1:10911"])
    assert not brokers.table.brokers
    assert not brokers.table.topics


# -- administration ----------------------------------------------------------------------------------------------------


def test_a_wiped_write_permission_stays_until_the_data_version_changes(brokers: Brokers) -> None:
    brokers.register(topics={"orders": 7, "bills": 6})
    assert brokers.table.wipe_write_permission("a") == 2
    brokers.register(topics={"orders": 7, "bills": 6})
    assert (brokers.perm("orders"), brokers.perm("bills")) == (5, 4)
    brokers.register(topics={"orders": 7, "bills": 6}, counter=2)
    assert (brokers.perm("orders"), brokers.perm("bills")) == (7, 6)


def test_write_permission_is_given_as_read_and_write(brokers: Brokers) -> None:
    brokers.register(topics={"orders": 7, "bills": 2})
    assert brokers.table.add_write_permission("a") == 2
    assert (brokers.perm("orders"), brokers.perm("bills")) == (6, 6)
    assert brokers.table.add_write_permission("unknown") == 0


@pytest.mark.parametrize("cluster", [None, "C"])
def test_a_deleted_topic_has_no_mapping_left(brokers: Brokers, cluster: str | None) -> None:
    brokers.register("a", "10.0.0.1:10911", cluster="C")
    brokers.table.map_queues("a", ["orders"], {"orders": MappingInfo("orders", "a", 1)})
    brokers.table.delete_topic("orders", cluster)
    assert brokers.table.mappings == {}


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(brokers: Brokers) -> None:
    brokers.register("a", "10.0.0.1:10911", cluster="C")
    brokers.register("b", "10.0.0.2:10911", cluster="D")
    brokers.table.delete_topic("orders", "D")
    assert list(brokers.table.topics["orders"]) == ["a"]
    brokers.table.delete_topic("orders", "C")
    assert "orders" not in brokers.table.topics
    brokers.table.delete_topic("bills")
    brokers.table.delete_topic("unknown")
    brokers.table.delete_topic("unknown", "C")
    assert not brokers.table.topics


def test_queues_are_added_for_known_brokers_only(brokers: Brokers) -> None:
    brokers.register()
    queues = [QueueData("a", 4, 4, 6), QueueData("b", 4, 4, 6)]
    assert not brokers.table.add_queues("made", queues)
    assert not brokers.table.add_queues("made", [])
    assert "made" not in brokers.table.topics
    assert brokers.table.add_queues("made", queues[:1])
    assert brokers.table.topics["made"] == {"a": queues[0]}


# -- lowest ids --------------------------------------------------------------------------------------------------------


@pytest.mark.row("P7")
def test_replicas_must_know_when_the_lowest_id_is_lost(brokers: Brokers) -> None:
    for broker_id in range(3):
        brokers.register(broker_id=broker_id, address=f"10.0.0.{broker_id}:10911", enable_acting_master=True)
    assert brokers.table.take_min_id_changes() == []
    brokers.table.lose(brokers.channels["10.0.0.2:10911"])
    assert brokers.table.take_min_id_changes() == []
    brokers.table.lose(brokers.channels["10.0.0.0:10911"])
    left = ["10.0.0.1:10911"]
    assert brokers.table.take_min_id_changes() == [MinIdChange("a", 1, left[0], left, "10.0.0.0:10911")]
    assert brokers.table.take_min_id_changes() == []


@pytest.mark.row("P7")
def test_without_an_acting_master_no_replica_needs_to_know_of_a_loss(brokers: Brokers) -> None:
    for broker_id in range(2):
        brokers.register(broker_id=broker_id, address=f"10.0.0.{broker_id}:10911", enable_acting_master=False)
    brokers.table.lose(brokers.channels["10.0.0.0:10911"])
    assert brokers.table.take_min_id_changes() == []


@pytest.mark.row("P7")
def test_replicas_must_know_when_a_lower_id_arrives(brokers: Brokers) -> None:
    for broker_id in (2, 1):
        brokers.register(broker_id=broker_id, address=f"10.0.0.{broker_id}:10911")
    change = MinIdChange("a", 1, "10.0.0.1:10911", ["10.0.0.2:10911"], ha_address="ha of 10.0.0.1:10911")
    assert brokers.table.take_min_id_changes() == [change]
