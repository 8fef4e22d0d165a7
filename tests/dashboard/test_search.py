"""Lists, a search by key, and a message, over HTTP."""

import re
import urllib.parse
from collections.abc import Iterator

import pytest

from staticfire import Admin, Cluster, Message, MessageQueue, Producer
from staticfire.client.admin import letter_search, peek as peeking
from tests.cli.commands import get
from tests.dashboard.test_pages import page, words_of

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


def test_a_search_in_many_dead_letters_continues_with_older_ones(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(letter_search, "SEARCHED_MAX", 20)
    monkeypatch.setattr(letter_search, "SEARCHED_TOGETHER", 8)
    with Admin(cluster.namesrv) as admin, Producer("shop", cluster.namesrv) as producer:
        admin.create_group("sorting")
        admin.create_topic("%DLQ%sorting", queues=1)
        for number in range(50):
            producer.send(Message("%DLQ%sorting", b"rare" if number in (3, 33) else b"%d" % number))
    address = "/ui/dlq/sorting?match=RARE"
    seen = []
    while address:
        shown = page(f"{cluster.control}{address}").text
        text = words_of(shown)
        seen.append((shown.count("brief"), re.findall(r"newest \d+|letters \d+ to \d+|None of these", text)))
        found = re.search(r'href="([^"]*)">Search in older letters', shown)
        address = found[1].replace("&amp;", "&") if found else ""
    assert seen == [(1, ["newest 20"]), (0, ["letters 21 to 40", "None of these"]), (1, ["letters 41 to 50"])]
    reply = get(f"{cluster.control}/dlq/sorting?match=rare&last=1&max=1")[1]
    assert (len(reply["letters"]), reply["searched"], reply["next"]) == (1, 17, 17)
    oldest = get(f"{cluster.control}/dlq/sorting?match=rare&max=1")[1]
    assert (oldest["letters"][0]["body"], oldest["searched"], oldest["next"]) == ("rare", 4, 4)
    assert get(f"{cluster.control}/dlq/sorting?match=rare&skip=40")[1]["next"] is None
    assert "Search in older" not in page(f"{cluster.control}/ui/dlq/sorting").text


def found_bodies(cluster: Cluster, **fields: str | int) -> list[str]:
    """Return the bodies of the messages that the page shows for these fields, or its error."""
    shown = page(f"{cluster.control}/ui/messages?{urllib.parse.urlencode(fields)}").text
    return re.findall(r'<code class="brief">([^<]*)', shown) or re.findall(r'<p class="note bad">([^<]*)', shown)


def test_each_field_of_the_search_counts_in_each_search(cluster: Cluster) -> None:
    cluster.create_topic("many", queues=2)
    with Producer("shop", cluster.namesrv) as producer:
        for number in range(60):
            tags = "paid" if number % 2 else "open"
            producer.send(
                Message("many", b"%d" % number, tags=tags, keys=["same"]), queue=MessageQueue("many", "broker-a", 0)
            )
        producer.send(Message("many", b"other", tags="paid", keys=["same"]), queue=MessageQueue("many", "broker-a", 1))
    place: dict[str, str | int] = {"topic": "many", "broker": "broker-a", "queue": 0}
    # The link of a popped message.
    assert found_bodies(cluster, **place, offset=3)[:2] == ["3", "4"]
    assert found_bodies(cluster, **place, offset=3, tags="paid")[:2] == ["3", "5"]
    assert "An offset belongs to a queue" in found_bodies(cluster, **place, offset=3, key="same")[0]
    since = {"topic": "many", "from": "2020-01-01T00:00:00Z"}
    assert found_bodies(cluster, **since, tags="refunded") == []
    assert len(found_bodies(cluster, **since, tags="paid || open")) == 61
    while len(get(f"{cluster.control}/messages/same?max=64&lives=0")[1].get("messages", [])) < 61:
        pass  # The broker's index gets them after they are stored.
    assert found_bodies(cluster, key="same", topic="many", queue=1) == ["other"]
    assert len(found_bodies(cluster, key="same", tags="paid")) == 31
    assert found_bodies(cluster, key="same", broker="broker-z") == []


def test_a_key_of_more_messages_than_the_limit_says_so_also_if_none_of_those_is_wanted(cluster: Cluster) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        for number in range(70):
            producer.send(Message("orders", b"k", keys=["often"], tags=f"tag-{number}"))
    while len(get(f"{cluster.control}/messages/often?max=64&lives=0")[1].get("messages", [])) < 64:
        pass  # The broker's index gets them after they are stored.
    shown = page(f"{cluster.control}/ui/messages?key=often&tags=none").text
    assert "No message was found of 64 with that key: there may be more" in shown


def test_a_limit_that_leaves_messages_out_is_shown(cluster: Cluster) -> None:
    with Producer("shop", cluster.namesrv) as producer:
        producer.send_batch([Message("orders", b"b") for _ in range(210)])
    shown = page(f"{cluster.control}/ui/messages?topic=orders&from=2020-01-01T00:00:00Z").text
    assert "200 messages, the oldest 200: there may be more" in shown


def test_a_search_for_a_tag_says_how_far_it_looked(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.create_topic("long", queues=1)
    with Producer("shop", cluster.namesrv) as producer:
        for tags, count in (("paid", 1), ("open", 150), ("paid", 1), ("open", 50)):
            producer.send_batch([Message("long", b"one", tags=tags) for _ in range(count)])
    assert get(f"{cluster.control}/peek/long?tags=paid&last=1")[1]["notes"] == []
    monkeypatch.setattr(peeking, "SEARCHED_MAX", 120)
    newest = "the newest 120 messages of each queue"
    reply = get(f"{cluster.control}/peek/long?tags=paid&last=1")[1]
    assert (len(reply["messages"]), reply["notes"]) == (1, [f"only {newest} were looked at"])
    shown = page(f"{cluster.control}/ui/messages?topic=long&tags=paid").text
    assert f"1 message, the newest first; only {newest} were looked at" in shown
    shown = page(f"{cluster.control}/ui/messages?topic=long&tags=piad").text
    assert f"No message was found: none of {newest} has these tags" in shown
    reply = get(f"{cluster.control}/topics/long/messages?tags=piad")[1]
    of_queue = "none of the 120 messages of each queue from offset 0 on has these tags"
    assert (reply["messages"], reply["notes"]) == ([], [f"broker-a/0: {of_queue}"])
    for criteria in ("offset=0", "from=2020-01-01T00:00:00Z"):
        shown = page(f"{cluster.control}/ui/messages?topic=long&tags=piad&{criteria}").text
        assert "messages of each queue from offset 0 on has these tags" in shown
