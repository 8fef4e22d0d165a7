"""A machine that is so busy that Spark gives up the Python worker of an ingest's query."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from staticfire import Cluster
from staticfire.pipeline.jobs.late_worker import SPARKS_WORDS, STARTS_MAX, run_query
from tests.cli.commands import ROOT, command, environment
from tests.pipeline.stand import numbered, send

pytestmark = [pytest.mark.spark, pytest.mark.row("E4"), pytest.mark.timeout(300)]

TIMEOUT_S = 250
FIRST_WORKER_IS_LATE = """
import os
import sys
from pathlib import Path

if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv:
    workers = Path(os.environ["WORKERS"])
    with workers.open("a") as file:
        file.write("worker\\n")
    if workers.read_text() == "worker\\n":
        os._exit(0)
"""
"""For Spark, a worker that ends is like one that is late: it waits for the connection all the time that it has."""


def test_an_ingest_whose_worker_is_late_starts_its_query_again(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", queues=2)
    send(cluster.namesrv, numbered("orders", 30))
    (tmp_path / "sitecustomize.py").write_text(FIRST_WORKER_IS_LATE)
    done = subprocess.run(
        command("pipeline", "ingest", "--namesrv", cluster.namesrv, "--topic", "orders", "--to", str(tmp_path / "to")),
        cwd=ROOT,
        env=environment(PYTHONPATH=str(tmp_path), WORKERS=str(tmp_path / "workers")),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("ingest: 30 messages of orders were added to ")
    assert done.stderr.count("query_restarted") == 1
    assert (tmp_path / "workers").read_text() == 2 * "worker\n"


@pytest.mark.parametrize(("words", "starts"), [(SPARKS_WORDS, STARTS_MAX), ("no space left on device", 1)])
def test_what_another_start_does_not_repair_is_the_failure_in_the_end(words: str, starts: int) -> None:
    started: list[object] = []

    def start() -> Any:
        started.append(object())
        return started[-1]

    def follow(query: object) -> None:
        assert query is started[-1]
        raise StreamingQueryException(words)

    with pytest.raises(StreamingQueryException, match=words):
        run_query(start, follow)
    assert len(started) == starts
