"""A client that isn't ours: PyPI's `rocketmq` (a C++ core: JSON headers, version 63), unchanged.

It sends numbers where others send text, "1" for true, long names (10, not 310), and never asks one-way.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from staticfire.cluster.cluster import Cluster

PROGRAM = Path(__file__).with_name("python_client.py")
TIMEOUT_S = 60

Rows = list[dict[str, Any]]

pytestmark = [
    pytest.mark.row("S6"),
    pytest.mark.skipif(
        importlib.util.find_spec("rocketmq") is None, reason="there is no `rocketmq` wheel for this machine"
    ),
]


class Client:
    """The program `python_client.py`, with a home of its own for the logs of the native code."""

    def __init__(self, namesrv: str, home: Path) -> None:
        self._namesrv = namesrv
        self._environment = {**os.environ, "HOME": str(home)}

    def __call__(self, action: str, topic: str, count: int) -> Rows:
        done = subprocess.run(
            [sys.executable, str(PROGRAM), self._namesrv, action, topic, str(count)],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{action} ended with {done.returncode}: {done.stdout}{done.stderr}"
        rows: Rows = json.loads(done.stdout)
        return rows


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    # A third level of a second: the first retry of a failed message is delayed by level 3.
    with Cluster(settings={"messageDelayLevel": "1s 1s 1s 1s"}) as cluster:
        yield cluster.namesrv


@pytest.fixture
def client(namesrv: str, tmp_path: Path) -> Client:
    return Client(namesrv, tmp_path)


def test_two_hundred_messages_are_sent_and_all_are_read_back(client: Client) -> None:
    sent = client("send", "orders", 200)
    assert {result["status"] for result in sent} == {"OK"}

    received = sorted(client("pull", "orders", 200), key=lambda row: row["number"])

    assert [row["number"] for row in received] == list(range(200))
    assert [row["id"] for row in received] == [result["id"] for result in sent]
    assert [row["offset"] for row in received] == [result["offset"] for result in sent]
    assert [row["keys"] for row in received] == [f"key-{number}" for number in range(200)]
    assert [row["tags"] for row in received[:4]] == ["paid", "refunded", "open", "paid"]
    assert received[7]["body"] == "body 7 é"
    assert received[10]["body"] == "body 10 é" + " and more" * 600
    # The client asked for 4 queues of the default topic's 8, and went round.
    assert {row["queue_id"] for row in received} == {0, 1, 2, 3}


def test_only_messages_of_a_tag_are_pulled(client: Client) -> None:
    client("send", "tagged", 30)
    assert sorted(row["number"] for row in client("pull_paid", "tagged", 10)) == list(range(0, 30, 3))


def test_batches_and_one_way_and_ordered_and_asynchronous_sends_arrive(client: Client) -> None:
    results = client("send_otherwise", "mixed", 10)
    assert [result["status"] for result in results] == ["OK"] * 10
    received = client("pull", "mixed", 40)
    assert sorted(row["number"] for row in received) == list(range(40))
    assert [row["number"] for row in received if row["queue_id"] == 2 and 20 <= row["number"] < 30] == [*range(20, 30)]


def test_a_push_consumer_gets_every_message_once(client: Client) -> None:
    sent = client("send", "pushed", 50)
    received = client("push", "pushed", 50)
    assert sorted(row["id"] for row in received) == sorted(result["id"] for result in sent)
    # It committed what it consumed: the next of its group begins behind that.
    client("send", "pushed", 1)
    assert [row["number"] for row in client("push", "pushed", 1)] == [0]


def test_an_ordered_push_consumer_gets_each_queue_in_order(client: Client) -> None:
    client("send", "in-order", 40)
    received = client("push_orderly", "in-order", 40)
    assert len(received) == 40
    for queue_id in range(4):
        offsets = [row["offset"] for row in received if row["queue_id"] == queue_id]
        assert offsets == sorted(offsets)


def test_a_message_that_failed_comes_again_from_the_retry_topic(client: Client) -> None:
    first, second = client("push_failing", "failing", 2)
    assert (first["reconsume_times"], second["reconsume_times"]) == (0, 1)
    assert (first["id"], first["body"]) == (second["id"], second["body"])
    assert second["topic"] == "failing"
