"""`staticfire copy` and `cluster.copy`, from one cluster to another. From a real one: tests/oracle/own_copy.py."""

import json
from collections.abc import Iterator

import pytest

from staticfire import Cluster, Message, Producer
from staticfire.cli import main
from staticfire.protocol.codecs import JSON, NATIVE
from tests.cli.commands import call, one_line
from tests.cli.test_family import NOWHERE
from tests.cli.test_family_flags import SERIALIZE_TYPE, Listener

pytestmark = pytest.mark.row("S8")


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


def test_a_topic_is_copied_once_by_command_and_in_python() -> None:
    with Cluster() as production, Cluster() as stand:
        production.create_topic("orders", queues=2)
        with Producer("shop", production.namesrv) as producer:
            for number in range(20):
                producer.send(Message("orders", b"%d" % number))
        flags = ("--from", production.namesrv, "--topic", "orders", "-n", stand.namesrv)
        reported = json.loads(call("copy", *flags, "--limit", "3", "--json").stdout)
        assert (reported["copied"], reported["thereAlready"], reported["offsets"]) == (6, 0, {})
        assert "could only be appended after it" in one_line(call("copy", *flags).stderr)
        stand.reset()
        assert call("copy", *flags).stdout == "copied 20 messages of orders, 2 queues\n"
        assert call("copy", *flags, "--limit", "5").stdout == (
            "copied 0 messages of orders, 2 queues; 10 existed already\n"
        )
        report = stand.copy(production.namesrv, "orders", protocol="staticfire")
        assert (report.copied, report.there_already) == (0, 20)
        for more, words in (
            (("--topic", "nope"), "no route to topic nope"),
            (("--group", "nope"), "there is no group nope"),
            (("--since", "yesterday"), "yesterday"),
            (("--from", "127.0.0.1:1"), "127.0.0.1:1"),
        ):
            assert words in one_line(call("copy", *flags, *more).stderr)


def test_messages_that_were_stored_in_some_time_and_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster() as production, Cluster() as stand:
        first_ms = production.clock.freeze().message_ms
        with Producer("shop", production.namesrv) as producer:
            producer.send(Message("orders", b"1"))
            later_ms = production.clock.advance(days=1).message_ms
            producer.send(Message("orders", b"2"))
        flags = ["--from", production.namesrv, "--topic", "orders", "-n", stand.namesrv, "--json"]
        copied = []
        for choice in (
            f"--until {first_ms}",
            f"--since {later_ms}",
            f"--until {later_ms}",
            "--since 2026-01-01T00:00:00Z",
        ):
            assert main(["copy", *flags, *choice.split()]) == 0
            copied.append(json.loads(capsys.readouterr().out)["copied"])
        assert copied == [0, 1, 1, 0]
        assert main(["create", "--group", "billing", "-n", production.namesrv]) == 0
        assert main(["copy", *flags, "--group", "billing"]) == 0
        capsys.readouterr()
        assert main(["groups", "-n", stand.namesrv, "--json"]) == 0
        assert [json.loads(line)["group"] for line in capsys.readouterr().out.splitlines()] == ["billing"]


def test_the_source_is_queried_by_its_protocol(listener: Listener, capsys: pytest.CaptureFixture[str]) -> None:
    firsts = []
    for flags in ([], ["--protocol", "staticfire"]):
        listener.firsts.clear()
        assert main(["copy", "--from", listener.address, "--topic", "orders", "-n", NOWHERE, *flags]) == 1
        assert listener.address in one_line(capsys.readouterr().err)
        firsts.append(listener.firsts[0][SERIALIZE_TYPE])
    assert firsts == [JSON, NATIVE]
