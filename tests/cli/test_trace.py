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


def test_a_message_is_followed_by_broker_and_traces(namesrv: str) -> None:
    with Producer("shop", namesrv, ProducerSettings(enable_trace=True)) as producer:
        sent = producer.send(Message("orders", b"hello", keys="order-42"))
    done = call("consume", "-n", namesrv, "--group", "billing", "--from", "first", "--max", "1", "orders")
    assert done.returncode == 0, done.stderr
    for text in (sent.message_id, "order-42"):
        done = call("trace", "-n", namesrv, text)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert [line.split("  ")[1].strip() for line in lines] == ["sent", "stored", "delivered"]
        assert " shop " in lines[0]
        assert lines[0].endswith("5 bytes")
        assert lines[2].split("  ")[2].strip().startswith("billing ")
        assert lines[2].endswith(", ok")
    done = call("trace", "-n", namesrv, "--json", sent.message_id)
    first, stored, delivered = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["what"], first["group"], first["success"], first["source"]) == ("sent", "shop", True, "trace")
    assert (stored["topic"], stored["queueOffset"], stored["source"]) == ("orders", sent.queue_offset, "store")
    assert (delivered["group"], delivered["success"], delivered["source"]) == ("billing", True, "journal")
    assert {first["messageId"], delivered["messageId"]} == {sent.message_id}


def test_a_message_that_nobody_knows(namesrv: str) -> None:
    done = call("trace", "-n", namesrv, "nothing")
    assert done.returncode != 0
    assert one_line(done.stderr).startswith(
        "staticfire: no message has the id or key nothing, and no client has traced"
    )
