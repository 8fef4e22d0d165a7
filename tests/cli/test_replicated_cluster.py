"""`Cluster(replicas=1)`, and the same operations over HTTP."""

import json
import urllib.error
import urllib.request
from threading import Event

import pytest

from staticfire import Cluster
from staticfire.cli import main
from staticfire.client import Message, Producer
from staticfire.protocol.errors import BrokerAnswer, ClientError, StaticfireError, UsageError

pytestmark = pytest.mark.row("P7")


def ask(url: str, method: str = "GET") -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_replicated_cluster_in_a_thread() -> None:
    with Cluster(replicas=1) as cluster, Producer("shop", cluster.namesrv) as producer:
        cluster.create_topic("orders", 1)
        slave = cluster.broker("broker-a").replica(1)
        assert slave.name == "broker-a-1"
        assert cluster.replica_addresses == {"broker-a-1": slave.address}
        producer.send(Message("orders", b"1"))
        cluster.snapshot("one")
        slave.hold()
        producer.send(Message("orders", b"2"))
        with pytest.raises(ClientError, match="1 messages behind"):
            cluster.failover("broker-a")
        status, there = ask(f"{cluster.control}/failover/broker-a", "POST")
        assert (status, "1 messages behind" in str(there["error"])) == (409, True)
        status, there = ask(f"{cluster.control}/replication/broker-a-1?hold=false", "POST")
        assert (status, there["held"]) == (200, False)
        assert ask(f"{cluster.control}/replication/broker-z-1?hold=true", "POST")[0] == 404
        slave.lag(100)
        slave.release()
        assert cluster.failover("broker-a").master == slave.address
        status, there = ask(f"{cluster.control}/replication")
        assert next(one["address"] for one in there["replicas"]) == slave.address  # type: ignore[attr-defined]
        with pytest.raises(BrokerAnswer, match="is the master: hold or delay the copy of a slave"):
            slave.hold()
        kinds = [
            (one.kind, one.details.get("role", one.details.get("hold")))
            for one in cluster.journal("roleChanged", "copyControlled")
        ]
        assert {("copyControlled", True), ("roleChanged", "ASYNC_MASTER")} <= set(kinds)
        # What changes all of the cluster goes to the new master.
        assert cluster.snapshot("two")["messages"] == 2
        cluster.reset()
        assert cluster.failover("broker-a").epoch == 3


@pytest.mark.parametrize("way", ["python", "http", "command"])
def test_a_reset_removes_the_rules_of_slaves_and_lets_them_copy(way: str) -> None:
    """A rule that hides all brokers from whoever asks the nameserver is removed first."""
    with Cluster(replicas=1) as cluster:
        cluster.create_topic("orders", 1)
        slave = cluster.broker("broker-a").replica(1)
        slave.hold()
        slave.lag(5_000)
        cluster.faults.add(broker="broker-a-1", code="PULL_MESSAGE", answer="SYSTEM_BUSY")
        cluster.faults.add(broker="nameserver", code="GET_BROKER_CLUSTER_INFO", drop="request")
        if way == "python":
            assert cluster.reset()["topics"] == ["orders"]
        elif way == "http":
            assert ask(f"{cluster.control}/reset", "POST") == (200, {"topics": ["orders"], "groups": []})
        else:
            assert main(["reset", "-n", cluster.namesrv]) == 0
        assert cluster.faults.all() == []
        copies = [(one["held"], one["lagMs"]) for one in cluster.replication() if one["id"]]
        assert copies == [(False, 0)]


@pytest.mark.parametrize("way", ["python", "command"])
def test_a_restore_removes_the_rules_of_slaves(way: str) -> None:
    with Cluster(replicas=1) as cluster:
        cluster.snapshot()
        cluster.faults.add(broker="broker-a-1", code="PULL_MESSAGE", answer="SYSTEM_BUSY")
        cluster.faults.add(broker="nameserver", code="GET_BROKER_CLUSTER_INFO", drop="request")
        if way == "python":
            cluster.restore()
        else:
            assert main(["snapshot", "restore", "-n", cluster.namesrv]) == 0
        assert cluster.faults.all() == []


def test_a_reset_or_snapshot_of_a_cluster_without_a_master_is_refused() -> None:
    with Cluster(brokers=2, replicas=1, isolation="process") as cluster:
        cluster.kill("broker-b")
        cluster.create_topic("orders", 1)
        for change in (cluster.reset, cluster.snapshot, cluster.restore):
            with pytest.raises(ClientError, match=r"broker-b has no master now: .*`staticfire failover broker-b`"):
                change()
        assert main(["reset", "-n", cluster.namesrv]) == 1
        cluster.kill("broker-b-1")
        with pytest.raises(ClientError, match="broker-b has no master now"):
            cluster.reset()
        cluster.restart("broker-b")
        assert cluster.reset()["topics"] == ["orders"]


@pytest.mark.parametrize("replicas", [-1, 5, True, "1"])
def test_a_number_of_slaves_that_cannot_be(replicas: object) -> None:
    with pytest.raises(UsageError, match=r"replicas=|can't have"):
        Cluster(replicas=replicas)  # type: ignore[arg-type]


def test_a_fault_of_a_slave_only() -> None:
    with Cluster(replicas=1) as cluster, Producer("shop", cluster.namesrv) as producer:
        cluster.create_topic("orders", 1)
        with cluster.faults.add(broker="broker-a-1", code="GET_REPLICATION", answer="SYSTEM_BUSY") as busy:
            producer.send(Message("orders", b"1"))
            shown = cluster.replication()
            assert [one["answers"] for one in shown] == [True, False]
            assert busy.hits == {"broker-a-1": 1}


def test_a_slave_takes_over_by_itself() -> None:
    with Cluster(replicas=1, failover="auto", isolation="process") as cluster:
        cluster.create_topic("orders", 1)
        slave = cluster.broker("broker-a").replica(1)
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", b"1"))
            cluster.kill("broker-a")
            for _ in range(1_000):
                try:
                    result = producer.send(Message("orders", b"2"))
                    break
                except StaticfireError:
                    Event().wait(0.05)
            assert result.queue.broker_name == "broker-a"
        assert cluster.replication()[0]["address"] == slave.address
        cluster.restart("broker-a")


def test_a_failover_that_is_unknown() -> None:
    with pytest.raises(UsageError, match="failover='never' is unknown; use 'manual' or 'auto'"):
        Cluster(failover="never")
    with pytest.raises(UsageError, match='failover="auto" needs slaves that can take over: add replicas=1'):
        Cluster(failover="auto")


def test_metrics_are_those_of_the_new_master_after_a_failover() -> None:
    with Cluster(replicas=1) as cluster, Producer("shop", cluster.namesrv) as producer:
        cluster.create_topic("orders", 1)
        cluster.failover("broker-a")
        producer.send(Message("orders", b"1"))
        with urllib.request.urlopen(f"{cluster.control}/metrics") as answer:
            rows = answer.read().decode().splitlines()
    stored = [row for row in rows if row.startswith("rocketmq_messages_in_total") and 'topic="orders"' in row]
    assert [row.split()[-1] for row in stored] == ["1.0"], stored
    assert 'staticfire_up{node_id="broker-a"} 1.0' in rows
