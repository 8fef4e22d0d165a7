"""Lists, a search by key, and a message, over HTTP."""

import re
from collections.abc import Iterator

import pytest

from staticfire import Admin, Cluster, Message, Producer
from tests.cli.commands import get
from tests.dashboard.test_pages import page

pytestmark = [pytest.mark.row("S9")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=1)
        yield cluster


def test_a_message_that_waits_is_found_by_its_key(cluster: Cluster) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        sent = producer.send(Message("orders", b"later", keys=["later-1"], delay_ms=3_600_000))
    while not (found := get(f"{cluster.control}/messages/later-1")[1].get("lives")):
        pass  # The broker's index gets it after it is stored.
    assert set(found) == {sent.message_id}
    assert f"/ui/messages/{sent.message_id}" in page(f"{cluster.control}/ui/messages?key=later-1").text
    assert "no message has the id" in page(f"{cluster.control}/ui/messages?key=later-1&topic=orders").text


def test_a_search_doesnt_follow_each_message(cluster: Cluster) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        producer.send(Message("orders", b"sought", keys=["sought-1"]))
    while (answer := get(f"{cluster.control}/messages/sought-1?lives=false"))[0] != 200:
        pass
    assert (len(answer[1]["messages"]), answer[1]["lives"]) == (1, {})
    assert "sought" in page(f"{cluster.control}/ui/messages?key=sought-1").text


@pytest.mark.parametrize("path", ["/topics", "/groups"])
def test_a_page_after_the_last_one_leads_to_the_first(cluster: Cluster, path: str) -> None:
    with Admin(cluster.namesrv) as admin:
        admin.create_group("billing")
    shown = page(f"{cluster.control}/ui{path}?page=7").text
    assert "This page of the table is empty now." in shown
    assert "There is no" not in shown


def test_the_time_of_sending_is_the_producers_own(cluster: Cluster) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        producer.send(Message("orders", b"sent", keys=["sent-1"]))
    while "<dt>Sent</dt>" not in (shown := page(f"{cluster.control}/ui/messages/sent-1").text):
        pass  # The broker's index gets it after it is stored.
    assert re.search(r'<dt>Sent</dt><dd><time data-ms="\d+" data-clock="real">', shown)
    assert re.search(r'<dt>Stored</dt><dd><time data-ms="\d+" data-clock="message">', shown)
