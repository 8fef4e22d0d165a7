"""`staticfire trace`: the life of a message, for people and programs."""

import json
from collections.abc import Iterator

import pytest

from staticfire import Cluster, Message, Producer, ProducerSettings
from tests.cli.commands import call, one_line


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with Cluster() as cluster:
        yield cluster.namesrv


def test_a_traced_message_is_shown(namesrv: str) -> None:
    with Producer("shop", namesrv, ProducerSettings(enable_trace=True)) as producer:
        sent = producer.send(Message("orders", b"hello", keys="order-42"))
    for text in (sent.message_id, "order-42"):
        done = call("trace", "-n", namesrv, text)
        assert done.returncode == 0, done.stderr
        [line] = done.stdout.splitlines()
        assert line.split("  ")[1] == "sent"
        assert " shop " in line
        assert line.endswith("5 bytes")
    done = call("trace", "-n", namesrv, "--json", sent.message_id)
    event = json.loads(done.stdout)
    assert (event["what"], event["group"], event["success"]) == ("sent", "shop", True)


def test_a_message_that_nobody_traced(namesrv: str) -> None:
    done = call("trace", "-n", namesrv, "nothing")
    assert done.returncode != 0
    assert one_line(done.stderr).startswith("staticfire: nobody has traced a message nothing to RMQ_SYS_TRACE_TOPIC")
