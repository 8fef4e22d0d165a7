"""A broker that doesn't respond: pages and actions name it, and show no number that isn't known as 0."""

import html
import re
from collections.abc import Iterator

import pytest

from staticfire import Admin, Cluster, Message, Producer
from tests.cli.commands import get
from tests.dashboard.test_pages import page, words_of

pytestmark = [pytest.mark.row("S9")]


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    """A cluster with 2 groups and a dead letter, whose broker-b ends the connection of whoever reads its tables."""
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", queues=2)
        with Admin(cluster.namesrv) as admin, Producer("shop", cluster.namesrv) as producer:
            admin.create_group("billing")
            admin.create_group("mail")
            producer.send(Message("%DLQ%billing", b"dead"))
        for code in ("GET_TOTALS", "GET_BROKER_CONSUME_STATS"):
            cluster.faults.add(code=code, broker="broker-b", close=True)
        yield cluster.control


def shown_at(url: str) -> str:
    found = page(url)
    assert found.status == 200, found.text
    return html.unescape(words_of(found.text))


def test_numbers_that_arent_known_are_null(control: str) -> None:
    _, overview = get(f"{control}/overview")
    assert (overview["groups"], overview["deadLetters"], overview["silent"]) == (None, None, ["broker-b"])


def test_the_overview_names_the_broker_and_shows_no_zeros(control: str) -> None:
    words = shown_at(f"{control}/ui/")
    assert "Incomplete: broker-b doesn't respond." in words
    assert re.search(r"Groups unknown .* Dead letters unknown", words), words
    assert "Groups with dead letters Unknown now." in words


@pytest.mark.parametrize("action", ["reset", "save-snapshot?name=base"])
def test_a_warning_names_the_broker_and_doesnt_promise_that_little_is_lost(control: str, action: str) -> None:
    words = shown_at(f"{control}/ui/do/{action}")
    assert "an unknown number of groups" in words
    assert "broker-b doesn't respond now: the change needs all brokers" in words
