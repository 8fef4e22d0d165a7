"""What a cluster consists of, before anything runs."""

import pytest

from staticfire.launch.copies import missing_copies
from staticfire.launch.plan import (
    ClusterPlan,
    GivenSettings,
    broker_names,
    broker_ports,
    nameserver_names,
    nameserver_ports,
    plan_cluster,
)
from staticfire.protocol.errors import UsageError


def planned(*ports: int, environment: dict[str, str] | None = None, **settings: str) -> ClusterPlan:
    return plan_cluster("/data", [9876], ports, GivenSettings(settings, environment or {}))


def test_brokers_are_named_and_numbered_as_in_the_official_compose_files() -> None:
    plan = planned(*broker_ports(10911, 3))
    assert plan.addresses == {
        "broker-a": "127.0.0.1:10911",
        "broker-b": "127.0.0.1:10931",
        "broker-c": "127.0.0.1:10951",
    }
    assert {broker.broker_cluster_name for broker in plan.brokers} == {"DefaultCluster"}
    assert plan.broker("broker-b").namesrv_addr == plan.namesrv == "127.0.0.1:9876"


def test_every_process_has_a_folder_of_its_own() -> None:
    plan = planned(10911, 10931)
    folders = [plan.nameservers[0].folder, *(broker.store_path_root_dir for broker in plan.brokers)]
    assert folders == ["/data/nameserver", "/data/broker-a", "/data/broker-b"]


def test_several_nameservers_are_numbered_and_everybody_gets_the_list() -> None:
    plan = plan_cluster("/data", nameserver_ports(9876, 3), [10911], GivenSettings({}, {}), grpc_port=8081)
    assert plan.namesrv == "127.0.0.1:9876;127.0.0.1:9877;127.0.0.1:9878"
    assert plan.nameserver_addresses["nameserver-3"] == "127.0.0.1:9878"
    assert plan.settings_of("nameserver-2") is plan.nameservers[1]
    assert [one.folder for one in plan.nameservers] == ["/data/nameserver", "/data/nameserver-2", "/data/nameserver-3"]
    assert plan.brokers[0].namesrv_addr == plan.namesrv
    assert plan.proxy is not None
    assert plan.proxy.namesrv_addr == plan.namesrv


@pytest.mark.parametrize("count", [0, 10])
def test_number_of_nameservers_has_limits(count: int) -> None:
    with pytest.raises(UsageError, match=f"a cluster can't have {count} nameservers"):
        nameserver_names(count)


def test_any_free_port_stays_any_free_port() -> None:
    assert broker_ports(0, 3) == [0, 0, 0]


def test_setting_goes_to_whoever_knows_it() -> None:
    plan = planned(1, 2, autoCreateTopicEnable="false", brokerExpiryMs="1s")
    assert [broker.auto_create_topic_enable for broker in plan.brokers] == [False, False]
    assert plan.nameservers[0].broker_expiry_ms == 1_000


@pytest.mark.parametrize(
    "variable", ["LISTEN_PORT", "LISTEN_HOST", "BROKER_NAME", "NAMESRV_ADDR", "FOLDER", "GRPC_SERVER_PORT"]
)
def test_place_of_a_process_is_not_taken_from_the_environment(variable: str) -> None:
    with pytest.raises(
        UsageError, match=rf"^STATICFIRE_{variable} \(the environment\) can't be set for a whole cluster"
    ):
        planned(10911, environment={f"STATICFIRE_{variable}": "1"})


def test_number_of_brokers_has_limits() -> None:
    assert len(broker_names(26)) == 26
    for count in (0, 27):
        with pytest.raises(UsageError, match=f"a cluster can't have {count} brokers"):
            broker_names(count)


@pytest.mark.parametrize(
    ("replicas", "settings", "words"),
    [
        (1, {"inSyncReplicas": "2"}, ""),
        (
            1,
            {"inSyncReplicas": "3"},
            "inSyncReplicas=3: with --replicas 1, a broker has 2; all sends wait for slaveTim",
        ),
        (
            0,
            {"minInSyncReplicas": "2"},
            "minInSyncReplicas=2: with --replicas 0, a broker has 1; all sends are refused",
        ),
        (1, {"inSyncReplicas": "3", "enableAutoInSyncReplicas": "true"}, ""),
        (1, {"inSyncReplicas": "3", "brokerRole": "ASYNC_MASTER"}, ""),
    ],
)
def test_copies_that_no_machine_can_have_are_announced(replicas: int, settings: dict[str, str], words: str) -> None:
    [broker] = planned(10911, environment={}, **{"brokerRole": "SYNC_MASTER", **settings}).brokers
    said = missing_copies(broker, replicas)
    assert said.startswith(words)
    assert bool(said) is bool(words)


@pytest.mark.parametrize(("mode", "enable"), [("enforcing", "false"), ("disabled", "true")])
def test_brokers_that_could_not_reach_their_nameservers_are_refused(mode: str, enable: str) -> None:
    with pytest.raises(
        UsageError, match=f"tls.enable={enable} with tls.server.mode={mode}: .* leave STATICFIRE_TLS_ENA"
    ):
        planned(10911, environment={"STATICFIRE_TLS_ENABLE": enable}, **{"tls.server.mode": mode})
