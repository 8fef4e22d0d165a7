"""The pages in a real browser while a cluster, its dashboard, or what they show goes away and comes back."""

from urllib.parse import quote, urlsplit

import pytest

from staticfire import Cluster, Message, Producer
from tests.cli.commands import FREE_PORTS, Up, get
from tests.dashboard.browser import Browser
from tests.dashboard.members import Members
from tests.dashboard.test_pages import act

pytestmark = [pytest.mark.foreign, pytest.mark.row("S9")]

ODD = "<b>\"desk\"/'ü日本' &amp; %41"


def port_of(url: str) -> str:
    return str(urlsplit(url).port)


def test_a_cluster_that_is_gone_and_another_one_at_its_address(tab: Browser) -> None:
    with Up("up", *FREE_PORTS) as first:
        namesrv = first.reported("NAMESRV_ADDR")
        ports = ["--namesrv-port", namesrv.rpartition(":")[2], "--broker-port", "0", "--control-port", "0", "--no-grpc"]
        with Up("dashboard", "--namesrv", namesrv, "--port", "0") as up:
            dashboard = up.reported("DASHBOARD")
            tab.open(f"{dashboard}ui/topics")
            tab.wait("document.querySelector('#live').innerText.includes('There is no topic yet')")
            tab.run("window.notLoadedAgain = true")
            first.stop()
            tab.wait("document.querySelector('#live [role=alert]')")
            with Up("up", *ports) as second:
                act(second.reported("CONTROL"), "create-topic", topic="returned")
                tab.wait("document.querySelector('#live').innerText.includes('returned')")
            assert tab.run("window.notLoadedAgain")
            # What is opened meanwhile shows the page as soon as the cluster is there.
            tab.open(f"{dashboard}ui/groups")
            assert "doesn't respond" in tab.text()
            with Up("up", *ports):
                tab.wait("document.querySelector('#live').innerText.includes('There is no consumer group yet')")
                tab.wait("document.querySelector('h1').innerText === 'Groups'")


def test_a_dashboard_that_is_gone_and_back(tab: Browser) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders")
        command = ("dashboard", "--namesrv", cluster.namesrv, "--port")
        with Up(*command, "0") as up:
            url = up.reported("DASHBOARD")
            tab.open(f"{url}ui/topics")
            tab.wait("document.querySelector('#live').innerText.includes('orders')")
            tab.run("window.notLoadedAgain = true")
        tab.wait("!document.getElementById('connection').hidden")
        cluster.create_topic("refunds")
        with Up(*command, port_of(url)):
            tab.wait("document.getElementById('connection').hidden")
            tab.wait("document.querySelector('#live').innerText.includes('refunds')")
        assert tab.run("window.notLoadedAgain")


def test_a_topic_that_another_person_deletes_while_one_sends(tab: Browser) -> None:
    with Cluster(settings={"autoCreateTopicEnable": "false"}) as cluster:
        control = cluster.control
        cluster.create_topic("orders")
        tab.open(f"{control}/ui/topics/orders")
        assert act(control, "delete-topic", topic="orders").status == 200
        tab.wait("document.querySelector('#live [role=alert]')?.innerText.includes('orders')")
        tab.run("document.querySelector('form.act').requestSubmit()")
        tab.wait("document.querySelector('#send-done [role=alert]')?.innerText.includes('orders')")
        tab.open(f"{control}/ui/do/delete-topic?topic=orders")
        assert tab.text("h1") == "Not found"


def test_a_rule_that_another_person_has_removed(tab: Browser) -> None:
    with Cluster() as cluster:
        control = cluster.control
        act(control, "add-fault", action="drop", code="PULL_MESSAGE", topic="nothing")
        tab.open(f"{control}/ui/faults")
        tab.run("document.querySelector('#live td a').click()")
        tab.wait("document.querySelector('h1').innerText === 'Remove a fault?'")
        assert act(control, "clear-faults").status == 200
        tab.run("document.querySelector('form.acts').requestSubmit()")
        tab.wait("document.querySelector('h1').innerText === 'Not found'")
        assert "there is no fault rule" in tab.text()
        tab.open(f"{control}/ui/faults")
        assert "There is no fault rule." in tab.text()


def test_odd_names_are_shown_as_they_are_and_their_links_lead_to_them(tab: Browser) -> None:
    with Cluster() as cluster:
        control = cluster.control
        cluster.create_topic("orders", queues=1)
        with Members(cluster, "billing", "orders") as members, Producer("shop", cluster.namesrv) as producer:
            members.join(ODD)
            producer.send(Message("orders", ODD.encode(), keys=["a/b", "ü\"<b>'"], tags="日本"))
            (member,) = get(f"{control}/group/billing")[1]["members"]
            tab.open(f"{control}/ui/groups/billing")
            tab.run("document.querySelector('a[href*=\"/members/\"]').click()")
            tab.wait("document.querySelector('h1').innerText.includes('desk')")
            assert ODD in member["clientId"]
            assert ODD in tab.text()
            for key in ("a/b", "ü\"<b>'"):
                tab.open(f"{control}/ui/messages?key={quote(key, safe='')}")
                tab.wait("document.querySelector('td a.id')")
                tab.open(f"{control}/ui/messages/{quote(key, safe='')}")
                assert ODD in tab.text()
                assert (tab.complaints, tab.run("!document.querySelector('main b')")) == ([], True)
