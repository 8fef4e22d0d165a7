"""`staticfire explain`, the control endpoint's /explain, and `cluster.explain()`: the same words on all roads."""

import json
from collections.abc import Iterator

import pytest

from staticfire import Cluster, Message, Producer
from tests.cli.commands import call, get, one_line


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A topic with a message, and nobody who consumes it."""
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", b"x", keys=["order-1"]))
        yield cluster


@pytest.mark.row("S4")
def test_causes_in_words_and_as_json(cluster: Cluster) -> None:
    shown = call("explain", "billing", "--namesrv", cluster.namesrv)
    assert shown.returncode == 1
    assert "no broker knows a group billing" in shown.stdout
    assert "> start a consumer of billing" in shown.stdout
    told = json.loads(call("explain", "billing", "--json", "--namesrv", cluster.namesrv).stdout)
    assert [one["kind"] for one in told["findings"]] == ["UNKNOWN_GROUP"]
    assert get(f"{cluster.control}/explain/billing")[1] == told == cluster.explain("billing").as_json()


def test_one_message_instead_of_a_group(cluster: Cluster) -> None:
    shown = call("explain", "--message", "order-1", "--namesrv", cluster.namesrv)
    assert shown.returncode == 0
    assert "orders" in shown.stdout


@pytest.mark.parametrize("arguments", [[], ["billing", "--message", "order-1"]])
def test_what_is_asked_must_be_clear(cluster: Cluster, arguments: list[str]) -> None:
    shown = call("explain", *arguments, "--namesrv", cluster.namesrv)
    assert shown.returncode == 2
    assert "give a group or a message" in one_line(shown.stderr)
