"""Open transactions, popped messages, what is due when, and traces: pages and the calls that they make."""

import re
import urllib.parse
import urllib.request
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from staticfire import (
    ClientSettings,
    Cluster,
    Message,
    ProducerSettings,
    SimpleConsumer,
    SimpleSettings,
    TransactionProducer,
    TransactionState,
)
from staticfire.dashboard.views.journal import is_of_tools
from staticfire.dashboard.views.waiting import timeline
from tests.cli.commands import get
from tests.dashboard.test_pages import act, event, page, words_of

pytestmark = [pytest.mark.row("S9")]

SCRIPT = "<script>alert(1)</script>"
SHOWN = "&lt;script&gt;"
HOUR_MS = 3_600_000


def unknown(*_: object) -> TransactionState:
    return TransactionState.UNKNOWN


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        cluster.clock.freeze()
        cluster.create_topic("orders", queues=1)
        cluster.create_topic("refunds", queues=1)
        settings = ProducerSettings(enable_trace=True)
        with TransactionProducer("shop", cluster.namesrv, settings, check=unknown) as producer:
            producer.send(Message("refunds", b"later", tags=SCRIPT, keys=[SCRIPT], delay_ms=2 * HOUR_MS))
            producer.send(Message("refunds", b"soon", keys=["soon"], delay_ms=HOUR_MS))
            for number in range(4):
                producer.send(Message("orders", b"%d" % number, tags=SCRIPT, keys=[SCRIPT]))
            open_one = Message("orders", b"half", tags=SCRIPT, keys=[SCRIPT, "half-1"])
            producer.send_in_transaction(open_one, unknown)
            yield cluster


@pytest.fixture(scope="module")
def control(cluster: Cluster) -> str:
    return cluster.control


def test_a_transaction_that_waits_for_an_answer(control: str) -> None:
    (one,) = get(f"{control}/waiting?kind=transaction")[1]["messages"]
    assert (one["topic"], one["group"], one["keys"], one["checks"]) == ("orders", "shop", [SCRIPT, "half-1"], 0)
    found = page(f"{control}/ui/transactions")
    assert (found.status, SCRIPT in found.text, SHOWN in found.text) == (200, False, True)
    assert "1 half messages wait" in words_of(found.text)
    assert f"/ui/messages/{one['messageId']}" in found.text


def test_what_is_due_when(control: str) -> None:
    reply = get(f"{control}/waiting?kind=timer")[1]
    assert [one["keys"] for one in reply["messages"]] == [["soon"], [SCRIPT]]
    assert (reply["counts"], reply["known"], reply["isAll"]) == ({"timer": 2}, True, True)
    assert [one["keys"] for one in get(f"{control}/waiting?kind=timer&max=1")[1]["messages"]] == [["soon"]]
    shown = page(f"{control}/ui/clock").text
    assert (SCRIPT in shown, SHOWN in shown) == (False, True)
    text = words_of(shown)
    due = [int(one) for one in re.findall(r'<tr id="due-[^>]*><td class="nowrap"><time data-ms="(\d+)"', shown)]
    assert (len(due), due) == (3, sorted(due))
    assert "1 with check of a transaction" in text
    assert "2 with its own time" in text


def test_popped_messages_until_they_are_acknowledged(cluster: Cluster, control: str) -> None:
    assert "No message is popped" in page(f"{control}/ui/popped").text
    settings = SimpleSettings(client=ClientSettings(instance_name=SCRIPT))
    consumer = SimpleConsumer("tills", cluster.namesrv, settings)
    consumer.subscribe("orders")
    with consumer as till:
        taken: list[Any] = []
        while len(taken) < 4:
            taken += till.receive(4, 600_000)
        reply = get(f"{control}/popped?match=TILL")[1]
        assert (reply["count"], {one["group"] for one in reply["popped"]}) == (4, {"tills"})
        assert get(f"{control}/popped?match=nothing")[1]["popped"] == []
        shown = page(f"{control}/ui/popped").text
        assert (SCRIPT in shown, SHOWN in shown) == (False, True)
        assert "4 messages of" in words_of(shown)
        for message in taken:
            till.ack(message)
        assert get(f"{control}/popped")[1]["count"] == 0


def test_traces_of_all_messages_and_of_one(control: str) -> None:
    while len(get(f"{control}/traces")[1]["events"]) < 7:
        Event().wait(0.05)  # Clients send them from time to time.
    events = get(f"{control}/traces?max=1000")[1]["events"]
    assert {one["what"] for one in events} == {"sent", "transaction: UNKNOWN"}
    assert {one["topic"] for one in events} == {"orders", "refunds"}
    assert [one["timeMs"] for one in events] == sorted(one["timeMs"] for one in events)
    (only,) = get(f"{control}/traces?id={events[0]['messageId']}")[1]["events"]
    assert only == events[0]
    of_key = get(f"{control}/traces?id={urllib.parse.quote(SCRIPT)}")[1]["events"]
    assert len(of_key) >= 5
    shown = page(f"{control}/ui/traces?id={urllib.parse.quote(SCRIPT)}").text
    assert (SCRIPT in shown, SHOWN in shown) == (False, True)
    assert f"/ui/messages/{events[0]['messageId']}" in page(f"{control}/ui/traces").text
    assert "No client has traced" in page(f"{control}/ui/traces?id=nonsense").text
    assert "There is no topic my-traces" in page(f"{control}/ui/traces?topic=my-traces").text


def test_times_between_events_are_those_of_one_message() -> None:
    events: list[dict[str, Any]] = [
        {"messageId": "a", "timeMs": 5, "what": "sent", "success": True},
        {"messageId": "b", "timeMs": 9, "what": "sent", "success": False},
        {"messageId": "a", "timeMs": 25, "what": "consumed", "success": True},
    ]
    assert [(one["gapMs"], one["look"]) for one in timeline(events)] == [(0, "sent"), (0, "failed"), (20, "done")]


def test_a_topic_is_changed_after_a_warning(control: str) -> None:
    says = words_of(page(f"{control}/ui/do/change-topic?topic=refunds&queues=3&perm=4&order=yes&kind=DELAY").text)
    for broker in ("broker-a", "broker-b"):
        assert f"{broker}: writeQueues changes from 1 to 3." in says
        assert f"{broker}: perm changes from read and write to read only." in says
        assert f"{broker}: order changes from no to yes." in says
    assert "message.type changes from nothing to DELAY." in says
    assert "Topic refunds was changed." in act(control, "change-topic", topic="refunds", queues="3").text
    (one, other) = get(f"{control}/topics/refunds")[1]["brokers"]
    assert (one["readQueues"], other["writeQueues"], one["perm"]) == (3, 3, 6)
    assert "Nothing changes" in page(f"{control}/ui/do/change-topic?topic=refunds&queues=3").text
    assert "can&#39;t be read" in page(f"{control}/ui/do/change-topic?topic=refunds&queues=1").text
    refused = act(control, "change-topic", topic="refunds", queues=SCRIPT)
    assert (refused.status, SCRIPT in refused.text) == (400, False)
    assert act(control, "change-topic", topic="nowhere", queues="3").status == 404
    assert page(f"{control}/ui/do/change-topic?topic=nowhere&queues=3").status == 404


def test_a_group_is_changed_after_a_warning(control: str) -> None:
    assert "was created" in act(control, "create-group", group="packers", retries="3").text
    says = words_of(page(f"{control}/ui/do/change-group?group=packers&retries=5&consume=no").text)
    assert "broker-b: retries changes from 3 to 5." in says
    assert "broker-a: consume changes from yes to no." in says
    assert "get no messages" in says
    assert "Group packers was changed." in act(control, "change-group", group="packers", retries="5", consume="no").text
    for one in get(f"{control}/groups/packers")[1]["brokers"]:
        assert (one["retries"], one["consume"], one["broadcast"]) == (5, False, True)
    assert "Nothing changes" in page(f"{control}/ui/do/change-group?group=packers").text
    assert get(f"{control}/groups/nobodys")[0] == 404


@pytest.mark.parametrize(
    ("action", "value", "words"),
    [
        ("partition", "broker-a/nameserver", "cut off from"),
        ("bandwidth", "10000", "10,000 bytes per second"),
        ("skew", "-5m", "clock 5m slow"),
        ("duplicate", "", "Rule"),
        ("corrupt", "", "Rule"),
    ],
)
def test_faults_of_the_network_and_of_clocks_by_the_form(control: str, action: str, value: str, words: str) -> None:
    places = {} if action == "partition" else {"broker": "broker-a", "code": "" if action == "skew" else "PULL_MESSAGE"}
    added = act(control, "add-fault", action=action, value=value, lifetime="1s", **places)
    assert (added.status, words in words_of(added.text)) == (200, True), words_of(added.text)
    assert act(control, "clear-faults").status == 200
    assert act(control, "add-fault", action="partition", value="broker-a").status == 400


def test_a_topic_that_is_gone_while_one_looks_and_is_back(control: str) -> None:
    assert act(control, "create-topic", topic="passing", queues="2").status == 200
    with urllib.request.urlopen(f"{control}/ui/live?page=/ui/topics/passing", timeout=60) as stream:
        assert "broker-a/1" in event(stream)
        assert act(control, "delete-topic", topic="passing").status == 200
        while 'role="alert"' not in (part := event(stream)):
            pass  # It was made before the topic was gone.
        assert "passing" in part
        assert act(control, "create-topic", topic="passing", queues="2").status == 200
        while "broker-a/1" not in event(stream):
            pass
    assert page(f"{control}/ui/do/delete-topic?topic=gone").status == 404
    assert act(control, "delete-topic", topic="gone").status == 404


@pytest.mark.parametrize(
    "wrong",
    ["nonsense", "7F" * 16, "F" * 32, "7F00000100002A9F00000000000004D2", "%00", "a/b", "'; DROP TABLE", "ü" * 300],
)
def test_an_id_of_nonsense_is_not_found(control: str, wrong: str) -> None:
    quoted = urllib.parse.quote(wrong, safe="")
    found = page(f"{control}/ui/messages/{quoted}")
    assert (found.status, 'role="alert"' in found.text) == (404, True), found.text
    assert page(f"{control}/ui/messages?key={quoted}").status == 200
    assert page(f"{control}/ui/traces?id={quoted}").status == 200
    assert page(f"{control}/ui/do/consume?group=packers&id={quoted}").status in (200, 404)
    assert act(control, "consume", group="packers", id=wrong).status in (400, 404)


def test_the_journal_leaves_out_what_this_dashboard_read(control: str) -> None:
    assert page(f"{control}/ui/messages?topic=orders").status == 200
    assert "TOOLS_CONSUMER" not in words_of(page(f"{control}/ui/journal").text)
    assert "TOOLS_CONSUMER" in words_of(page(f"{control}/ui/journal?tools=1").text)


@pytest.mark.parametrize(
    ("kind", "group", "key", "is_own"),
    [
        ("delivered", "TOOLS_CONSUMER", "", True), ("keySeen", "", "staticfire", True), ("keySeen", "", "shop", False),
        ("delivered", "billing", "", False),
    ],
)  # fmt: skip
def test_what_tools_did(kind: str, group: str, key: str, is_own: bool) -> None:
    event = {"kind": kind, "group": group, "details": {"accessKey": key} if key else {}}
    assert is_of_tools(event) is is_own
