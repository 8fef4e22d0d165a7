"""Brokers that die while Spark reads; a Spark of several processes; a Spark that has to find the source by itself."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from staticfire import Cluster
from staticfire.client import Message, MessageQueue
from staticfire.pipeline.rows import ROW_ID
from tests.pipeline.stand import bodies, frame, messages, rows, send, send_to

pytestmark = pytest.mark.spark

LARGE_BYTES = 20_000
# So large that what is read ahead is a small part of the queue, and the broker dies before the rest was asked for.

MESSAGES = 600


def fill(cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=1)
    send(
        cluster.namesrv, [Message("orders", os.urandom(LARGE_BYTES), keys=[str(number)]) for number in range(MESSAGES)]
    )


def test_broker_that_dies_in_the_middle_of_a_read_and_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    with Cluster(isolation="process") as cluster:
        fill(cluster)
        begun, mended = tmp_path / "begun", tmp_path / "mended"

        def hold(batches):  # type: ignore[no-untyped-def]
            """Keep the first batch until the broker has been killed and is on its way back."""
            for number, batch in enumerate(batches):
                if number == 0:
                    begun.touch()
                    _wait_for(mended)
                yield batch

        def break_and_mend() -> None:
            _wait_for(begun)
            broker = cluster.broker("broker-a")
            broker.kill()
            mended.touch()
            broker.restart()

        breaking = threading.Thread(target=break_and_mend)
        breaking.start()
        read = frame(spark, cluster.namesrv, "orders").select("keys", "queueOffset")
        seen = read.mapInArrow(hold, read.schema).collect()
        breaking.join()
    assert [row.queueOffset for row in sorted(seen, key=lambda row: row.queueOffset)] == list(range(MESSAGES))


def _wait_for(file: Path) -> None:
    for _ in range(6_000):
        if file.exists():
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"{file} never came")


def test_broker_that_stays_away_is_named(spark: SparkSession) -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("orders", queues=1)
        send_to(cluster.namesrv, MessageQueue("orders", "broker-a", 0), [b"1"])
        query = frame(spark, cluster.namesrv, "orders", reconnectTimeoutMs=200)
        query.explain()  # Spark plans the partitions here: what follows is the read.
        cluster.broker("broker-a").kill()
        with pytest.raises(
            PySparkException, match=r"SourceUnreachable: .*reconnectTimeoutMs|subscribe=orders: no route"
        ):
            query.collect()


LOCAL_CLUSTER = """
import sys
from staticfire.pipeline import session
with session("cluster", "local-cluster[2,1,1024]") as spark:
    read = spark.read.format("staticfire").option("subscribe", "orders").load()
    from pyspark.sql.functions import col
    print("read", read.count(), read.select("brokerName").distinct().count())
"""


def _of_its_own(cluster: Cluster) -> dict[str, str]:
    """Return the environment of a Spark that isn't this process's."""
    environment = os.environ | {"NAMESRV_ADDR": cluster.namesrv}
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYTHONPATH"):
        environment.pop(name, None)
    return environment


def test_local_cluster_reads_in_its_own_processes(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.namesrv, [Message("orders", b"%d" % number) for number in range(500)])
    # From another folder: a checkout that is installed is found as well as a wheel.
    done = subprocess.run(
        [sys.executable, "-c", LOCAL_CLUSTER],
        cwd=tmp_path,
        env=_of_its_own(cluster),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["read", "500", "2"], done.stderr[-3_000:]


def test_readers_hold_no_connections_so_that_spark_can_send_them(spark: SparkSession, cluster: Cluster) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.namesrv, [Message("orders", b"%d" % number) for number in range(10)])
    read = frame(spark, cluster.namesrv, "orders")
    assert bodies(read.repartition(3).collect()) == bodies(rows(spark, cluster.namesrv, "orders")) == list(range(10))


KILLED_WRITE = f"""
import os, signal, sys
from pathlib import Path
from threading import Event
from pyspark import TaskContext
from staticfire.pipeline import session

what, begun, sent = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])

def parent(pid):
    return int(Path(f"/proc/{{pid}}/stat").read_text().rsplit(")", 1)[1].split()[1])

def die_once(batches):
    for number, batch in enumerate(batches):
        if number == 5 and not begun.exists():
            begun.write_text(f"-{{TaskContext.get().partitionId()}}-")
            while not sent.exists():
                Event().wait(0.01)
            # The worker's parent is PySpark's daemon, and that one's is the executor.
            os.kill(os.getpid() if what == "task" else parent(parent(os.getpid())), signal.SIGKILL)
        yield batch

with session("killed write", "local-cluster[2,1,1024]") as spark:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
    frame = spark.range(0, {MESSAGES * 10}, 1, 2).selectExpr("repeat(concat(id, ' '), 200) AS value")
    writing = frame.mapInArrow(die_once, frame.schema).write.format("staticfire").mode("append")
    writing.option("topic", "out").option("rowsPerSend", "50").save()
"""


def _has_sent(cluster: Cluster, task: str) -> bool:
    """Return whether a task has rows here, of which there will be copies. `task`: the middle of its row ids."""
    return bool(task) and any(task in one.properties[ROW_ID] for one in messages(cluster, "out"))


@pytest.mark.row("E4")
@pytest.mark.parametrize("what", ["task", "executor"])
def test_a_killed_writer_writes_again_and_its_copies_can_be_recognized(
    cluster: Cluster, tmp_path: Path, what: str
) -> None:
    cluster.create_topic("out", queues=2)
    begun, sent = tmp_path / "begun", tmp_path / "sent"
    command = [sys.executable, "-c", KILLED_WRITE, what, str(begun), str(sent)]
    reported = tmp_path / "told"
    with (
        reported.open("w") as words,
        subprocess.Popen(command, cwd=tmp_path, env=_of_its_own(cluster), stderr=words) as writing,
    ):
        while writing.poll() is None and not (begun.exists() and _has_sent(cluster, begun.read_text())):
            threading.Event().wait(0.05)
        sent.touch()
    assert writing.returncode == 0, reported.read_text()[-3_000:]
    found = messages(cluster, "out")
    row_of = {one.properties[ROW_ID]: one.body for one in found}
    assert sorted(int(body.split()[0]) for body in row_of.values()) == list(range(MESSAGES * 10))
    assert len(found) > len(row_of)
    assert all(row_of[one.properties[ROW_ID]] == one.body for one in found)
