"""`staticfire copy` and `cluster.copy`, from one cluster to another. From a real one: tests/oracle/own_copy.py."""

import json

import pytest

from staticfire import Cluster, Message, Producer
from tests.cli.commands import call, one_line

pytestmark = pytest.mark.row("S8")


def test_a_topic_is_copied_once_by_command_and_in_python() -> None:
    with Cluster() as production, Cluster() as stand:
        production.create_topic("orders", queues=2)
        with Producer("shop", production.namesrv) as producer:
            for number in range(20):
                producer.send(Message("orders", b"%d" % number))
        flags = ("--from", production.namesrv, "--topic", "orders", "-n", stand.namesrv)
        told = json.loads(call("copy", *flags, "--limit", "3", "--json").stdout)
        assert (told["copied"], told["thereAlready"], told["offsets"]) == (6, 0, {})
        assert call("copy", *flags).stdout == "copied 14 messages of orders, 2 queues; 6 existed already\n"
        report = stand.copy(production.namesrv, "orders", protocol="staticfire")
        assert (report.copied, report.there_already) == (0, 20)
        for more, words in (
            (("--topic", "nope"), "no route to topic nope"),
            (("--group", "nope"), "there is no group nope"),
            (("--since", "yesterday"), "yesterday"),
            (("--from", "127.0.0.1:1"), "127.0.0.1:1"),
        ):
            assert words in one_line(call("copy", *flags, *more).stderr)
