"""`staticfire send`, `staticfire peek` and `staticfire reset`."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from staticfire import Cluster
from staticfire.cli import peek as peek_command
from staticfire.client.admin import peek as peeking
from tests.cli.commands import call, one_line


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with Cluster(brokers=2) as cluster:
        yield cluster.namesrv


def peeked(namesrv: str, *arguments: str) -> list[dict[str, Any]]:
    done = call("peek", "-n", namesrv, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_message_is_sent_with_all_it_has_and_seen_again(namesrv: str) -> None:
    flags = ["--tag", "paid", "--key", "42", "--key", "eu", "--property", "origin=shop"]
    done = call("send", "-n", namesrv, *flags, "one", "hello")
    assert done.returncode == 0, done.stderr
    (message,) = peeked(namesrv, "one")
    assert one_line(done.stdout).startswith(message["messageId"])
    assert (message["body"], message["tags"], message["keys"]) == ("hello", "paid", ["42", "eu"])
    assert message["properties"]["origin"] == "shop"


def test_both_speak_rocketmqs_protocol_when_set_so(namesrv: str) -> None:
    flags = ["--protocol", "rocketmq"]
    sent = json.loads(call("send", "-n", namesrv, *flags, "--json", "--tag", "paid", "theirs", "hello").stdout)
    (message,) = peeked(namesrv, *flags, "theirs")
    assert (message["messageId"], message["body"], message["tags"]) == (sent["messageId"], "hello", "paid")


def test_a_body_that_is_no_text_is_sent_as_the_bytes_that_it_is(namesrv: str) -> None:
    assert call("send", "-n", namesrv, "bytes", "x\udcff").returncode == 0
    (message,) = peeked(namesrv, "bytes")
    assert message["body"] == "x\\xff"


def test_messages_that_no_slave_has_are_counted() -> None:
    waits = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2, "slaveTimeout": 50}
    with Cluster(settings=waits) as cluster:
        done = call("send", "-n", cluster.namesrv, "--count", "3", "orders", "hello")
    assert (done.returncode, done.stdout) == (0, "sent 3 messages\n")
    words = "3 messages stored with FLUSH_SLAVE_TIMEOUT: too few slaves confirmed in time"
    assert words in one_line(done.stderr)


def test_each_line_of_standard_input_is_a_message(namesrv: str) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    done = call("send", "-n", namesrv, "lines", text="\n".join(lines) + "\n\n")
    assert (done.returncode, done.stdout) == (0, "sent 5000 messages\n")
    assert {message["body"] for message in peeked(namesrv, "lines", "--max", "9999")} == set(lines)


def test_peek_shows_the_oldest_the_newest_or_from_an_offset(namesrv: str) -> None:
    for number in range(4):
        call("send", "-n", namesrv, "--count", "3", f"pages-{number % 2}", f"{number}")
    assert [message["body"] for message in peeked(namesrv, "pages-0", "--max", "3")] == ["0"] * 3
    assert [message["body"] for message in peeked(namesrv, "pages-0", "--last", "--max", "3")] == ["2"] * 3
    (queue, *_) = {f"{message['brokerName']}/{message['queueId']}" for message in peeked(namesrv, "pages-1")}
    assert all(message["queueOffset"] >= 1 for message in peeked(namesrv, "pages-1", "--queue", queue, "--offset", "1"))


def test_peek_prints_a_table_for_people_and_takes_bodies_as_they_are(namesrv: str) -> None:
    call("send", "-n", namesrv, "table", "[bold]not markup[/bold]")
    done = call("peek", "-n", namesrv, "table", COLUMNS="120")
    assert done.stdout.splitlines()[0].split() == ["queue", "offset", "stored", "tag", "keys", "body"]
    assert "[bold]not markup[/bold]" in done.stdout


def test_a_search_for_a_tag_says_that_it_didnt_look_at_older_messages(
    namesrv: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tag, count in (("paid", "2"), ("open", "1000"), ("paid", "1")):
        call("send", "-n", namesrv, "--count", count, "--tag", tag, "rare", "x")
    monkeypatch.setattr(peeking, "SEARCHED_MAX", 30)
    newest = "the newest 30 messages of each queue"
    for tag, flags, words in (("paid", ["--json"], f"only {newest} were looked at"), ("piad", [], "has these tags")):
        done = CliRunner().invoke(peek_command.peek, ["-n", namesrv, "--last", "--tag", tag, *flags, "rare"])
        assert (done.exit_code, len(done.stdout.splitlines())) == (0, len(flags))
        assert one_line(done.stderr).startswith("staticfire: rare: ")
        assert words in one_line(done.stderr)


def test_peek_leaves_no_group_and_no_topic_behind(namesrv: str) -> None:
    refused = call("peek", "-n", namesrv, "never-sent")
    assert refused.returncode == 1
    assert "never-sent" in one_line(refused.stderr)


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["send", "topic with blanks", "x"], 2, "illegal characters"),
        (["send", "--delay-level", "19", "orders", "x"], 2, "from 0 to 18"),
        (["send", "--property", "a", "orders", "x"], 2, "must be written as key=value"),
        (["peek", "--last", "--offset", "3", "orders"], 2, "use either --last or --offset, not both"),
        (["peek", "%DLQ%nobody"], 1, "a broker creates it with the first dead letter of group nobody"),
        (["peek", "a topic"], 1, "the topic name is invalid"),
        (["send", "-n", "127.0.0.1", "orders", "x"], 2, "host:port"),
        (["send", "-n", "127.0.0.1:1", "orders", "x"], 1, "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_reported(namesrv: str, arguments: list[str], exit_code: int, words: str) -> None:
    done = call(*arguments, NAMESRV_ADDR=namesrv)
    assert done.returncode == exit_code
    assert words in done.stderr


@pytest.mark.parametrize("topic", ["%DLQ%nobody", "a topic"])
def test_no_advice_to_create_what_only_brokers_create_or_cant_be(namesrv: str, topic: str) -> None:
    assert "staticfire create" not in call("peek", topic, NAMESRV_ADDR=namesrv).stderr


def test_reset_leaves_nothing_to_peek_at() -> None:
    with Cluster(brokers=2) as cluster:
        assert call("send", "-n", cluster.namesrv, "orders", "x").returncode == 0
        done = call("reset", "-n", cluster.namesrv)
        assert (done.returncode, done.stdout) == (0, "deleted 1 topic and 0 groups on 2 brokers\n")
        assert call("peek", "-n", cluster.namesrv, "orders").returncode == 1
