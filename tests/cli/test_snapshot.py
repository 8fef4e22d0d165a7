"""Snapshots as people reach them: `staticfire snapshot`, `Cluster.snapshot`; in processes that are restarted."""

from pathlib import Path

import pytest

from staticfire import Cluster, Message, Producer
from tests.cli.commands import call, one_line

pytestmark = pytest.mark.row("S8")


def test_a_cluster_of_processes_is_put_back_also_after_a_restart(tmp_path: Path) -> None:
    with Cluster(brokers=2, isolation="process", directory=tmp_path) as cluster:
        cluster.create_topic("orders", queues=2)
        with Producer("shop", cluster.namesrv) as producer:
            for number in range(8):
                producer.send(Message("orders", b"%d" % number))
            flag = ("-n", cluster.namesrv)
            assert "no snapshots" in call("snapshot", "list", *flag).stdout
            assert "saved filled: 1 topic, 0 groups, 8 messages" in call("snapshot", "save", "filled", *flag).stdout
            producer.send(Message("orders", b"later"))
            cluster.create_topic("later")
            cluster.kill("broker-a")
            cluster.restart("broker-a")
            done = call("snapshot", "restore", "filled", *flag)
            assert done.stdout == "restored filled: 1 topic, 0 groups, 8 messages; removed: later\n"
            assert [(one["name"], one["messages"]) for one in cluster.snapshots()] == [("filled", 8)]
            producer.send(Message("orders", b"again"))
            assert cluster.snapshot("other")["messages"] == 9
        for verb in ("restore", "remove"):
            refused = call("snapshot", verb, "nope", *flag)
            assert refused.returncode == 1
            assert "no snapshot nope" in one_line(refused.stderr)
        assert "not a valid name of a snapshot" in one_line(call("snapshot", "save", "a/b", *flag).stderr)
