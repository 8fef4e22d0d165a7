"""`staticfire mqadmin` shows masters and slaves as RocketMQ's own does."""

from collections.abc import Iterator

import pytest

from staticfire.cli.mqadmin.replication import master_text, slave_text
from staticfire.client import Message, Producer, SendStatus
from staticfire.cluster.cluster import Cluster
from staticfire.protocol.requests.upkeep import CopyRuntime, HighAvailability, ReplicaState
from tests.cli.commands import call, mqadmin

pytestmark = pytest.mark.row("P7")


SAFE = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
"""A message that was sent is at the slave."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(replicas=1, isolation="process", settings=SAFE) as cluster:
        cluster.create_topic("orders")
        with Producer("shop", cluster.namesrv) as producer:
            sent = producer.send(Message("orders", b"1 book"))
        assert sent.status is SendStatus.SEND_OK
        yield cluster


def test_a_master_reports_its_slaves_under_rocketmqs_headings() -> None:
    slaves = [
        ReplicaState("127.0.0.1:59410", 39096, 0, True, 2048, 39096),
        ReplicaState("127.0.0.1:59411", 100, 38996, False, 0, 100),
    ]
    assert master_text("127.0.0.1:10911", HighAvailability(True, 39096, 1, slaves)).splitlines() == [
        "",
        "#MasterAddr\t127.0.0.1:10911",
        "#MasterCommitLogMaxOffset\t39096",
        "#SlaveNum\t2",
        "#InSyncSlaveNum\t1",
        "#SlaveAddr                        #SlaveAckOffset             #Diff #TransferSpeed(KB/s)          #Status "
        "#TransferFromWhere",
        "127.0.0.1:59410                   39096                           0             2.00               OK"
        "            39096",
        "127.0.0.1:59411                   100                         38996             0.00      Fall Behind"
        "              100",
    ]


def test_a_slave_reports_its_copy() -> None:
    reported = slave_text(CopyRuntime(0, 0, "127.0.0.1:30912", 7, 39096, 512)).splitlines()
    assert [line.partition("\t")[0] for line in reported] == [
        "", "#MasterAddr", "#CommitLogMaxOffset", "#TransferSpeed(KB/s)", "#LastReadTime", "#LastWriteTime",
        "#MasterFlushOffset",
    ]  # fmt: skip
    assert reported[1:4] == ["#MasterAddr\t127.0.0.1:30912", "#CommitLogMaxOffset\t39096", "#TransferSpeed(KB/s)\t0.50"]


def test_masters_and_slaves_are_shown_also_without_a_master(cluster: Cluster) -> None:
    lines = mqadmin(cluster, "clusterList")[1:]
    assert [(line.split()[2], line.split()[-1]) for line in lines] == [("0", "true"), ("1", "false")]
    shown = mqadmin(cluster, "haStatus", "-c", "DefaultCluster")
    assert shown[3:5] == ["#SlaveNum\t1", "#InSyncSlaveNum\t1"]
    slave = lines[1].split()[3]
    assert mqadmin(cluster, "haStatus", "-b", slave)[1].startswith("#MasterAddr\t127.0.0.1:")
    in_sync = mqadmin(cluster, "getSyncStateSet", "-b", "broker-a", "-a", "ignored:1")
    assert in_sync[1:3] == ["#brokerName\tbroker-a", "#MasterBrokerId\t0"]
    assert in_sync[6] == "#SyncStateSetNums\t2"
    identity = f"ReplicaIdentity{{brokerName='broker-a', brokerId=1, brokerAddress='{slave}', alive=true}}"
    assert in_sync[-1] == f"InSyncReplica:\t{identity}"
    cluster.broker("broker-a").kill()
    (left,) = mqadmin(cluster, "clusterList")[1:]
    assert left.split()[2:4] == ["1", slave]
    assert mqadmin(cluster, "topicRoute", "-t", "TBW102")
    assert len(mqadmin(cluster, "topicStatus", "-t", "TBW102")) > 4
    assert "TBW102" in "".join(mqadmin(cluster, "topicList", "-c"))
    refused = call("mqadmin", "updateTopic", "-c", "DefaultCluster", "-t", "bills", NAMESRV_ADDR=cluster.namesrv)
    assert refused.returncode == 1
    assert "only slaves are left of broker-a" in refused.stderr
    assert mqadmin(cluster, "getSyncStateSet", "-c", "DefaultCluster")[-1] == f"NotInSyncReplica:\t{identity}"
    elected = mqadmin(cluster, "electMaster", "-c", "DefaultCluster", "-bn", "broker-a", "-b", "1")
    assert elected[3:5] == [f"#BrokerMasterAddr\t{slave}", "#MasterEpoch\t2"]
    assert elected[-1] == f"\t#Broker\t0\t{slave}"


def test_settings_of_slaves_are_shown_and_changed(cluster: Cluster) -> None:
    master, slave = (line.split()[3] for line in mqadmin(cluster, "clusterList")[1:])
    change = ["updateBrokerConfig", "-c", "DefaultCluster", "-k", "maxMessageSize", "-v"]
    assert mqadmin(cluster, *change, "1000000") == [f"update broker config success, {master}"]
    assert mqadmin(cluster, *change, "1000000", "-a", "false") == [f"update broker config success, {master}"]
    assert mqadmin(cluster, *change, "2000000", "-a", "true") == [
        f"update broker config success, {one}" for one in (master, slave)
    ]
    shown = mqadmin(cluster, "getBrokerConfig", "-c", "DefaultCluster")
    titles = [
        f"============Master: {master}============",
        f"============My Master: {master}=====Slave: {slave}============",
    ]
    assert [line for line in shown if line.startswith("=")] == titles
    sizes = [line.split("=")[1].strip() for line in shown if line.startswith("maxMessageSize ")]
    assert sizes == ["2000000", "2000000"]
    figures = mqadmin(cluster, "brokerStatus", "-c", "DefaultCluster")
    assert {line.split()[0] for line in figures} == {master, slave}
    cluster.broker("broker-a").kill()
    shown = mqadmin(cluster, "getBrokerConfig", "-c", "DefaultCluster")
    titles = [
        "============Master: NO_MASTER============",
        f"============My Master: NO_MASTER=====Slave: {slave}============",
    ]
    assert [line for line in shown if line.startswith("=")] == titles
