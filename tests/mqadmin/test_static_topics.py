"""Static topics as RocketMQ's own tool and client use them, over three brokers: StaticTopics.java says what for."""

import subprocess
from pathlib import Path

import pytest

from staticfire.cluster.cluster import Cluster
from tests.mqadmin.java import java

pytestmark = [pytest.mark.row("H1"), pytest.mark.foreign]

PATIENCE_S = 300


def test_the_tool_maps_logical_queues_and_clients_follow(tmp_path: Path) -> None:
    with Cluster(brokers=3) as cluster:
        brokers = ",".join(sorted(cluster.addresses))
        arguments = [cluster.namesrv, "DefaultCluster", brokers]
        command = java("StaticTopics.java", *arguments, folder=str(tmp_path), namesrv=cluster.namesrv)
        played = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S)
    failed = [line for line in played.stdout.splitlines() if line.startswith("FAILED ")]
    assert not failed, "\n".join(failed)
    assert "static topics: as expected" in played.stdout, played.stdout[-4_000:] + played.stderr[-2_000:]
