"""`staticfire message`: what it shows of a message, to people and to programs."""

import json
from collections.abc import Iterator

import pytest

from staticfire import Cluster, Message, Producer, SendResult
from tests.cli.commands import call, one_line

pytestmark = pytest.mark.row("F3")


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with Cluster(brokers=2) as cluster:
        yield cluster.namesrv


@pytest.fixture(scope="module")
def sent(namesrv: str) -> SendResult:
    message = Message("orders", b"hello", tags="paid", keys=("order-42",), properties={"price": "12", "odd": "a\tb"})
    with Producer("shop", namesrv) as producer:
        return producer.send(message)


@pytest.mark.parametrize("flags", [[], ["--protocol", "rocketmq"], ["--topic", "orders"]])
def test_a_message_is_shown_with_all_that_is_known_of_it(namesrv: str, sent: SendResult, flags: list[str]) -> None:
    for text in ("order-42", sent.message_id, str(sent.offset_message_id)):
        done = call("message", "-n", namesrv, *flags, text)
        assert done.returncode == 0, done.stderr
        first, *lines = done.stdout.splitlines()
        assert first == sent.message_id
        assert f"  where       orders {sent.queue.broker_name}/{sent.queue.queue_id}, offset 0" in lines
        assert "  property    KEYS = order-42" in lines
        assert "  property    odd = a\\tb" in lines
        assert "  body        5 bytes: hello" in lines
        assert lines[-3:-1] == [
            "  no group consumes it: no group has an offset in its topic, or is online there",
            f"life of {sent.message_id}",
        ]
        assert lines[-1].endswith(f"stored  -  orders {sent.queue.broker_name}/{sent.queue.queue_id} @0")


def test_groups_are_shown_by_how_far_they_are(namesrv: str) -> None:
    with Producer("shop", namesrv) as producer:
        sent = producer.send(Message("bills", b"hello", keys=("bill-7",), properties={"price": "12"}))
    done = call("consume", "-n", namesrv, "--group", "billing", "--from", "first", "--max", "1", "bills")
    assert done.returncode == 0, done.stderr
    done = call("message", "-n", namesrv, "bill-7")
    lines = done.stdout.splitlines()
    assert "  consumed    billing (next offset 1, offline)" in lines
    assert "delivered  billing" in lines[-1]
    assert lines[-1].endswith(" @0, ok")
    (shown,) = [json.loads(line) for line in call("message", "-n", namesrv, "--json", "bill-7").stdout.splitlines()]
    assert shown["groups"] == [{"group": "billing", "state": "consumed", "committed": 1, "online": False}]
    assert (shown["messageId"], shown["offsetMessageId"]) == (sent.message_id, sent.offset_message_id)
    assert (shown["body"], shown["properties"]["price"]) == ("hello", "12")
    assert [event["what"] for event in shown["life"]] == ["stored", "delivered"]


def test_one_that_waits_is_shown_by_its_life(namesrv: str) -> None:
    with Producer("shop", namesrv) as producer:
        sent = producer.send(Message("orders", b"later", delay_ms=3_600_000))
    done = call("message", "-n", namesrv, sent.message_id)
    assert done.returncode == 0, done.stderr
    first, waits = done.stdout.splitlines()
    assert first == f"life of {sent.message_id}"
    assert "waits  -  rmq_sys_wheel_timer" in waits
    assert waits.endswith("for orders")
    done = call("message", "-n", namesrv, "--json", sent.message_id)
    assert json.loads(done.stdout)["life"][0]["what"] == "waits"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "staticfire: no message in any topic has the id or key nothing"),
        (["nothing", "--topic", "orders"], "staticfire: no message in orders has the id or key nothing"),
        (
            ["order-42", "--from", "2100-01-01T00:00:00Z"],
            "staticfire: no message in any topic has the id or key order-42",
        ),
    ],
)
def test_what_is_not_there_is_reported_in_one_line(
    namesrv: str, sent: SendResult, arguments: list[str], words: str
) -> None:
    done = call("message", "-n", namesrv, *arguments)
    assert (done.returncode, one_line(done.stderr)) == (1, words)


def test_a_topic_that_is_not_there_is_named(namesrv: str) -> None:
    done = call("message", "-n", namesrv, "--topic", "nowhere", "x")
    assert done.returncode == 1
    assert "nowhere" in one_line(done.stderr)
