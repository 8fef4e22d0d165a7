"""`staticfire trace`: the life of a message, for people and programs."""

import json
from collections.abc import Iterator

import pytest

from staticfire import Cluster, Message, Producer, ProducerSettings
from staticfire.cli import main
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


def test_traces_in_a_topic_of_their_own(namesrv: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Producer("shop", namesrv, ProducerSettings(enable_trace=True, trace_topic="shop-traces")) as producer:
        producer.send(Message("invoices", b"hello", keys="order-43"))
    line = ["trace", "-n", namesrv, "order-43", "--json"]

    def shown(*flags: str) -> list[str]:
        assert main([*line, *flags]) == 0
        events = [json.loads(one) for one in capsys.readouterr().out.splitlines()]
        return [event["what"] for event in events if event["what"] in ("sent", "stored")]

    assert shown("--trace-topic", "shop-traces") == ["sent", "stored"]
    assert "sent" not in shown()
    assert main([*line, "--trace-topic", "shop-trces"]) == 0
    assert one_line(capsys.readouterr().err) == "there is no topic shop-trces, did you mean shop-traces?"
    assert main([*line, "--trace-topic", ""]) == 2
    assert "blank" in one_line(capsys.readouterr().err)


def test_an_unknown_message(namesrv: str) -> None:
    done = call("trace", "-n", namesrv, "nothing")
    assert done.returncode != 0
    assert one_line(done.stderr).startswith(
        "staticfire: no message has the id or key nothing, and no client has traced"
    )
