"""Pages of clusters with slaves, with users, with TLS: over HTTP."""

import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from staticfire import Admin, Cluster, Message, Producer, ProducerSettings
from staticfire.client import ClientSettings
from staticfire.client.admin.listing import list_topics
from staticfire.control.brokers import brokers_of
from staticfire.dashboard.pages import PAGES
from staticfire.dashboard.views import topics
from staticfire.dashboard.views.overview import copy_of, refused_of
from staticfire.protocol.errors import StaticfireError
from staticfire.protocol.requests.routes import BrokerData
from tests.cli.commands import FREE_PORTS, Up
from tests.dashboard.test_pages import NoRedirect, event, page, words_of

pytestmark = [pytest.mark.row("S9")]

MENU = [one.path for one in PAGES if "{" not in one.path]
SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def copied() -> Iterator[Cluster]:
    with Cluster(replicas=1) as cluster:
        cluster.create_topic("orders", queues=1)
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", b"copied"))
        yield cluster


def test_every_page_of_a_cluster_with_slaves(copied: Cluster) -> None:
    for path in (*MENU, "/topics/orders"):
        assert page(f"{copied.control}/ui{path}").status == 200, path


def test_a_slave_is_no_problem_and_its_copies_arent_counted_again(copied: Cluster) -> None:
    slave = copied.broker("broker-a").replica(1)
    while "Stored today 1 " not in (text := words_of(page(f"{copied.control}/ui/").text)) or "has all" not in text:
        assert "slave 1 127.0.0.1" in text  # It copies.
    assert "it stores nothing" not in text
    assert "Brokers up 2 of 2" in text
    slave.hold()
    assert "held, has all" in words_of(page(f"{copied.control}/ui/").text)
    slave.release()


def test_an_internal_error_is_shown_in_the_live_part(copied: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> str:
        raise KeyError("queue<7>")

    monkeypatch.setattr(topics, "sort_of", broken)
    with urllib.request.urlopen(f"{copied.control}/ui/live?page=/ui/topics", timeout=60) as stream:
        assert "KeyError: &#39;queue&lt;7&gt;&#39;" in event(stream)


def test_brokers_that_arent_registered_stay_in_the_list() -> None:
    known = {"broker-a": "h:1", "broker-b": "h:2", "broker-a-1": "h:3", "broker-b-1": "h:4", "x-9": "h:5"}
    table = {"broker-a": BrokerData("c", "broker-a", {1: "h:3"}), "broker-b": BrokerData("c", "broker-b", {0: "h:2"})}
    assert [(one["name"], one["id"], one["registered"]) for one in brokers_of(table, known)] == [
        ("broker-a", 0, False), ("broker-a", 1, True), ("broker-b", 0, True), ("broker-b", 1, False), ("x-9", 0, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("more", "words", "is_good"),
    [
        ({}, "has all", True),
        ({"behindBytes": 2_048, "inSync": False}, "not in sync, 2.0 KiB behind", False),
        ({"behindBytes": 100, "held": True}, "held, 100 B behind", False),
        ({"problem": "the master is gone"}, "the master is gone; has all", False),
    ],
)
def test_how_far_a_slave_is(more: dict[str, object], words: str, is_good: bool) -> None:
    replica = {"behindBytes": 0, "inSync": True, "held": False, "problem": "", **more}
    assert copy_of(replica) == (words, is_good)
    assert copy_of(None) is None


def test_the_overview_shows_refused_requests() -> None:
    with Cluster(users={"admin": "secret", "shop": "s3cret"}) as cluster:
        cluster.create_topic("orders")
        cluster.users.allow("shop", "Topic:other", "Pub")
        client = ProducerSettings(client=ClientSettings(access_key="shop", secret_key="s3cret"))
        with pytest.raises(StaticfireError), Producer("p", cluster.namesrv, client) as producer:
            producer.send(Message("orders", b"refused"))
        stranger = ProducerSettings(client=ClientSettings(access_key=SCRIPT, secret_key="s3cret"))
        with pytest.raises(StaticfireError), Producer("p", cluster.namesrv, stranger) as producer:
            producer.send(Message("orders", b"refused"))
        for path in (*MENU, "/topics/orders"):
            assert page(f"{cluster.control}/ui{path}").status == 200, path
        html = page(f"{cluster.control}/ui/").text
        keys = {"ROCKETMQ_ACCESS_KEY": "shop", "ROCKETMQ_SECRET_KEY": "s3cret"}
        with Up("dashboard", "--namesrv", cluster.namesrv, "--port", "0", **keys) as up:
            faults = page(f"{up.reported('DASHBOARD')}ui/faults").text
        assert "User:shop has no permission" in faults
        assert "isn&#39;t staticfire" not in faults
    assert SCRIPT not in html
    text = words_of(html)
    assert re.search(r"shop [^ ]+ SEND_\w+ Pub on Topic:orders", text), text
    assert "&lt;script&gt;" in text


def test_the_same_refusal_at_two_brokers_is_one_row() -> None:
    one = {
        "request": "HEART_BEAT", "user": "shop", "client": "c", "group": "billing", "resource": "Group:billing",
        "actions": ["Sub"], "reason": "not permitted",
    }  # fmt: skip
    states = {
        "a": {"refused": [{**one, "count": 2, "lastMs": 5}]},
        "b": {"refused": [{**one, "count": 3, "lastMs": 4}]},
    }
    (row,) = refused_of({"brokers": states})
    assert (row["count"], row["lastMs"]) == (5, 5)
    assert refused_of({"error": "gone"}) == []


def test_a_dashboard_of_a_cluster_with_tls_only() -> None:
    with (
        Cluster(settings={"tls.server.mode": "enforcing"}) as cluster,
        Up("dashboard", "--namesrv", cluster.namesrv, "--port", "0", "--tls") as up,
    ):
        control = up.reported("DASHBOARD").rstrip("/")
        assert "Clients can use the cluster." in page(f"{control}/ui/").text
        for path in MENU:
            assert page(f"{control}/ui{path}").status == 200, path
        assert "respond" not in page(f"{control}/ui/faults").text


def test_the_cookie_of_a_login_through_tls_is_for_tls_only() -> None:
    with Up("up", *FREE_PORTS, "--control-token", "correct-horse") as up:
        control = up.reported("CONTROL").replace("http://", "https://")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        opener = urllib.request.build_opener(NoRedirect, urllib.request.HTTPSHandler(context=context))
        request = urllib.request.Request(f"{control}/ui/login", b"token=correct-horse", {"Origin": control})
        with pytest.raises(urllib.error.HTTPError) as logged, opener.open(request, timeout=60):
            pass
        assert logged.value.code == 303
        assert "; Secure" in logged.value.headers["Set-Cookie"]
        logged.value.close()


def test_a_user_who_may_not_look_at_the_whole_cluster_sees_single_topics() -> None:
    with Cluster(users={"admin": "secret", "shop": "s3cret"}) as cluster:
        cluster.create_topic("orders")
        cluster.create_topic("secrets")
        cluster.users.allow("shop", "Topic:orders", "Pub,Get")
        client = ClientSettings(access_key="shop", secret_key="s3cret")
        with Producer("p", cluster.namesrv, ProducerSettings(client=client)) as producer:
            producer.send(Message("orders", b"seen"))
        with Admin(cluster.namesrv, client) as admin:
            rows = admin.run(lambda one: list_topics(one, names=["orders", "secrets"]))
    assert [(row["topic"], row["messages"]) for row in rows] == [("orders", 1), ("secrets", 0)]
