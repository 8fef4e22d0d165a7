"""What the control endpoint can be asked: metrics, topics, groups, messages; its description; refusals in words."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from staticfire import Cluster, Message, Producer
from tests.cli.commands import FREE_PORTS, Up, call, get, one_line

TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        cluster.create_topic("orders", queues=2)
        with Producer("shop", cluster.namesrv) as producer:
            for number in range(5):
                producer.send(Message("orders", b"%d" % number, tags="paid", keys=[f"order-{number}"]))
        yield cluster


@pytest.fixture(scope="module")
def control(cluster: Cluster) -> str:
    return cluster.control


def text_of(url: str, **headers: str) -> tuple[str, str]:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def posted(url: str, body: bytes, method: str = "POST") -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, method=method), timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, json.loads(refused.read())


# -- metrics -----------------------------------------------------------------------------------------------------------


@pytest.mark.row("S5")
def test_prometheus_reads_the_metrics_of_all_brokers(control: str) -> None:
    kind, text = text_of(f"{control}/metrics")
    assert kind == "text/plain; charset=utf-8"
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    stored = [one for one in samples if one.name == "rocketmq_messages_in_total" and one.labels["topic"] == "orders"]
    assert sum(one.value for one in stored) >= 5  # Other tests send, too.
    assert {one.labels["node_id"] for one in samples if one.name == "rocketmq_broker_permission"} == {
        "broker-a", "broker-b",
    }  # fmt: skip
    up = {one.labels["node_id"]: one.value for one in samples if one.name == "staticfire_up"}
    assert up == {"broker-a": 1, "broker-b": 1, "nameserver": 1}


def test_a_broker_that_is_gone_is_missing_and_the_scrape_continues() -> None:
    with Cluster(brokers=2, isolation="process") as cluster:
        cluster.kill("broker-b")
        _, text = text_of(f"{cluster.control}/metrics")
    assert 'staticfire_up{node_id="broker-b"} 0.0' in text
    assert 'rocketmq_broker_permission{cluster="DefaultCluster",node_id="broker-a",node_type="broker"} 6.0' in text


def test_a_nameserver_that_is_gone_is_reported_and_the_brokers_metrics_are_there() -> None:
    with Cluster(isolation="process") as cluster:
        control = cluster.control
        cluster.nameserver.kill()
        _, text = text_of(f"{control}/metrics")
    assert 'staticfire_up{node_id="nameserver"} 0.0' in text
    assert 'staticfire_up{node_id="broker-a"} 1.0' in text
    assert "\nstaticfire_message_time_seconds " not in text


# -- topics, groups, messages ------------------------------------------------------------------------------------------


def test_topics_and_groups_are_listed(control: str) -> None:
    assert get(f"{control}/topics") == (
        200, {"topics": [{"topic": "orders", "brokers": 2, "queues": 4, "messages": 5}]},
    )  # fmt: skip
    assert get(f"{control}/groups")[1] == {"groups": []}
    assert len(get(f"{control}/topics?all=1")[1]["topics"]) > 1


def test_messages_are_peeked_at_and_looked_up(control: str) -> None:
    status, shown = get(f"{control}/peek/orders?max=2&last=true")
    assert (status, len(shown["messages"])) == (200, 2)
    assert get(f"{control}/peek/orders?tags=refunded")[1]["messages"] == []
    newest = shown["messages"][1]
    for text in (newest["messageId"], newest["offsetMessageId"], f"order-{newest['body']}"):
        status, found = get(f"{control}/messages/{text}?topic=orders")
        assert (status, [one["queueOffset"] for one in found["messages"]]) == (200, [newest["queueOffset"]])
        assert newest["messageId"] in found["lives"]
    assert get(f"{control}/groups")[1] == {"groups": []}  # Looking has created none.


def test_a_cluster_is_put_away_and_put_back(cluster: Cluster) -> None:
    control = cluster.control
    assert posted(f"{control}/snapshots/base", b"")[1]["messages"] == 5
    with Producer("shop", cluster.namesrv) as producer:
        producer.send(Message("orders", b"too many"))
    assert posted(f"{control}/snapshots/base/restore", b"")[0] == 200
    assert get(f"{control}/topics")[1]["topics"][0]["messages"] == 5
    assert [one["name"] for one in get(f"{control}/snapshots")[1]["snapshots"]] == ["base"]
    assert posted(f"{control}/snapshots/base", b"", "DELETE") == (200, {"removed": 1})
    assert posted(f"{control}/snapshots/base", b"", "DELETE")[0] == 404
    assert "there is no snapshot base" in posted(f"{control}/snapshots/base/restore", b"")[1]["error"]


def test_a_request_while_another_changes_the_same_snapshot_is_refused(cluster: Cluster) -> None:
    there = f"{cluster.control}/snapshots/contended"
    calls = [(there, "POST"), (f"{there}/restore", "POST"), (there, "DELETE"), (f"{cluster.control}/snapshots", "GET")]
    with ThreadPoolExecutor(len(calls)) as threads:
        answers = list(threads.map(lambda call: posted(call[0], b"", call[1]), calls * 15))
    posted(there, b"", "DELETE")  # It may be there in the end, and other tests list the snapshots of this cluster.
    assert {status for status, _ in answers} <= {200, 400, 404, 409}, answers


REFUSALS = [
    ("GET", "peek/order", b"", 404, "did you mean orders?"),
    ("GET", "peek/orders?max=0", b"", 400, "max=0: a whole number is needed, 1 to 1000"),
    ("GET", "peek/orders?lats=1", b"", 400, "there are broker, last, max, offset, queue, tags: did you mean last?"),
    ("GET", "peek/orders?last=maybe", b"", 400, "last=maybe: true or false is needed"),
    ("GET", "peek/orders?last=1&offset=0", b"", 400, "last and offset exclude each other"),
    ("GET", "peek/orders?queue=9", b"", 400, "there is no such queue; there are broker-a/0"),
    ("GET", "peek/orders?max=1&max=2", b"", 400, "'max' is given more than once"),
    ("GET", "peek/orders?offset=99999999999999999999", b"", 400, "a whole number is needed"),
    ("GET", "messages/nothing", b"", 404, "no message has the id or key nothing"),
    ("GET", "messages/order-1?from=yesterday", b"", 400, "'yesterday' is not a time; write 2026-"),
    (
        "GET", "groups?al=1", b"", 400,
        "'al' is unknown here; there are all, match, max, skip, sort, survey: did you mean all?",
    ),
    ("GET", "group/nobody", b"", 404, "no broker knows group nobody"),
    ("POST", "reset", b"{}", 400, "it takes no body"),
    ("POST", "reset?topic=orders", b"", 400, "'topic' is unknown here; it takes no parameters"),
    ("POST", "clock", b'{"mode": "frozen"', 400, "the body can't be used: Input data was truncated"),
    ("POST", "clock", b'{"mod": "frozen"}', 400, "'mod' is unknown here; there are mode, rate: did you mean mode?"),
    ("POST", "clock", b"\xff\xfe", 400, "the body can't be used"),
    ("POST", "clock/advance", b"", 400, "an advance needs ?by=2h or ?to="),
    ("POST", "clock/advance?by=soon", b"", 400, "'soon' is not a duration; write 2h"),
    ("POST", "faults", b"[]", 400, "Expected `object`, got `array`"),
    ("POST", "faults?anwser=SYSTEM_BUSY", b"", 400, "anwser is unknown; did you mean answer?"),
    ("DELETE", "faults/first", b"", 400, "first isn't the number of a rule"),
    ("DELETE", "faults/99", b"", 404, "there is no fault rule 99"),
    ("POST", "snapshots/a%20b", b"", 400, "'a b' is not a valid name of a snapshot"),
    ("PUT", "reset", b"", 405, "use POST"),
    ("GET", "metric", b"", 404, "did you mean /metrics?"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "status", "words"), REFUSALS, ids=lambda value: str(value)[:40])
def test_what_makes_no_sense_is_refused_in_one_line(
    control: str, method: str, path: str, body: bytes, status: int, words: str
) -> None:
    answered, reported = posted(f"{control}/{path}", body, method)
    assert answered == status, reported
    assert words in reported["error"]
    assert "\n" not in reported["error"]


# -- the description ---------------------------------------------------------------------------------------------------


def test_the_description_has_every_route_and_every_parameter(control: str) -> None:
    described = get(f"{control}/openapi.json")[1]
    paths = get(control)[1]["paths"]
    assert {f"{method.upper()} {path}" for path, methods in described["paths"].items() for method in methods} == set(
        paths
    )
    peek = described["paths"]["/peek/{topic}"]["get"]
    assert [one["name"] for one in peek["parameters"]] == ["topic", "max", "last", "broker", "queue", "offset", "tags"]
    assert peek["parameters"][1]["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000}
    body = described["paths"]["/clock"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["mode"]
    assert "security" not in described


def test_people_have_a_page(control: str) -> None:
    kind, text = text_of(f"{control}/docs")
    assert kind == "text/html; charset=utf-8"
    assert f"curl -X POST &#x27;{control}/clock/advance&#x27;" in text
    assert "<script" not in text


# -- who may ask -------------------------------------------------------------------------------------------------------


def test_with_a_token_it_listens_elsewhere_and_refuses_all_others() -> None:
    flags = [*FREE_PORTS, "--control-address", "0.0.0.0"]
    with Up("up", *flags, STATICFIRE_CONTROL_TOKEN=TOKEN) as up:
        control = up.reported("CONTROL")
        status, reported = get(f"{control}/topics")
        assert (status, reported["error"]) == (
            401, "GET /topics: a token is needed: Authorization: Bearer TOKEN (our own commands take "
            "STATICFIRE_CONTROL_TOKEN)",
        )  # fmt: skip
        assert get(f"{control}/reset", "POST", Authorization="Bearer wrong-horse")[0] == 401
        assert get(f"{control}/topics", Authorization=f"Bearer {TOKEN}")[0] == 200
        assert get(f"{control}/topics", Authorization=f"bearer {TOKEN}", Host="stand.example")[0] == 200
        assert get(f"{control}/health")[0] == 200  # A health check has no token.
        described = get(f"{control}/openapi.json", Authorization=f"Bearer {TOKEN}")[1]
        assert described["security"] == [{"token": []}]
        listed = call("fault", "list", "--control", control, STATICFIRE_CONTROL_TOKEN=TOKEN)
        assert listed.returncode == 0, listed.stderr
        assert up.stop()[0] == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ["--control-address", "0.0.0.0"],
            "could be used by anyone who reaches it, also to reset the cluster: set a",
        ),
        (["--control-address", "::"], "set a token (--control-token, or STATICFIRE_CONTROL_TOKEN)"),
        (["--control-token", "short"], "is too short: 8 characters or more"),
        (["--control-token", "two words here"], "is sent in a header"),
    ],
)
def test_an_endpoint_that_everybody_could_use_is_not_started(flags: list[str], words: str) -> None:
    refused = call("up", *FREE_PORTS, *flags)
    assert refused.returncode == 2
    assert words in one_line(refused.stderr)
