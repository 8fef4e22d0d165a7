"""The pages in a real browser: ten thousand topics, servers that are gone and back, scripts in messages."""

from urllib.parse import quote

import pytest

from staticfire import (
    Admin,
    Cluster,
    Message,
    ProducerSettings,
    SimpleConsumer,
    TransactionProducer,
)
from staticfire.dashboard.pages import PAGES
from staticfire.protocol.names import TRACE_TOPIC
from staticfire.protocol.requests.topics import TopicConfig, TopicConfigList, UpdateTopics
from tests.cli.commands import get
from tests.dashboard.browser import Browser
from tests.dashboard.members import unknown
from tests.dashboard.test_pages import act

pytestmark = [pytest.mark.foreign, pytest.mark.row("S9")]

MENU = [one.path for one in PAGES if "{" not in one.path]
SCRIPT = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"


def test_a_cluster_with_ten_thousand_topics(tab: Browser) -> None:
    with Cluster() as cluster:
        many_topics(cluster, 10_000)
        tab.open(f"{cluster.control}/ui/topics")
        tab.wait("document.querySelectorAll('tbody tr').length === 50")
        tab.run("document.querySelector('input[name=match]').value = 'many-9999'")
        tab.run("document.querySelector('input[name=match]').dispatchEvent(new Event('input', {bubbles: true}))")
        tab.wait("document.querySelectorAll('tbody tr').length === 1 && location.search.includes('many-9999')")
        assert tab.complaints == []
        tab.run("history.back()")
        tab.wait("document.querySelectorAll('tbody tr').length === 50 && location.search === ''")
        for path in (*MENU, "/topics/many-77", "/messages?key=nothing", "/topics?sort=-messages"):
            tab.open(f"{cluster.control}/ui{path}")
            assert (tab.complaints, tab.run("!document.querySelector('#live .note.bad')")) == ([], True), path


@pytest.mark.parametrize("server", ["nameserver", "broker-b"])
def test_every_page_while_a_server_is_gone_and_after_it_is_back(tab: Browser, server: str) -> None:
    with Cluster(brokers=2, isolation="process") as cluster:
        control = cluster.control
        cluster.create_topic("orders", queues=2)
        tab.open(f"{control}/ui/")
        tab.wait("document.querySelector('#live .note.good')")
        assert act(control, "add-fault", action="kill", broker=server).status == 200
        tab.wait(f"document.querySelector('#live .note.bad')?.innerText.includes('{server}')")
        for path in MENU:
            tab.open(f"{control}/ui{path}")
            text = tab.text()
            assert text, path
            assert "Traceback" not in text, path
            assert "Error:" not in text, path
        tab.open(f"{control}/ui/topics")
        tab.run("window.notLoadedAgain = true")
        assert act(control, "clear-faults").status == 200
        tab.wait("document.querySelector('#live').innerText.includes('orders')")
        tab.open(f"{control}/ui/")
        tab.wait("document.querySelector('#live .note.good')")


def test_an_overview_without_a_nameserver_shows_what_is_unknown(tab: Browser) -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("orders")
        assert act(cluster.control, "add-fault", action="kill", broker="nameserver").status == 200
        tab.open(f"{cluster.control}/ui/")
        text = tab.text()
        assert "Clients can't use the cluster now." in text
        assert "it responds, but no nameserver does" in text
        assert "unknown" in tab.text(".figures")
        assert "There is no topic yet" not in text
        act(cluster.control, "clear-faults")
        tab.wait("document.querySelector('#live .note.good')")
        tab.wait("!document.querySelector('.figures').innerText.includes('unknown')")


def test_a_message_runs_no_script_wherever_it_is_shown(tab: Browser) -> None:
    with Cluster() as cluster:
        control = cluster.control
        cluster.clock.freeze()
        cluster.create_topic("orders", queues=1)
        settings = ProducerSettings(enable_trace=True)
        message = Message("orders", SCRIPT.encode(), tags="t", keys=[SCRIPT], properties={SCRIPT: SCRIPT})
        with (
            TransactionProducer("shop", cluster.namesrv, settings, check=unknown) as producer,
            SimpleConsumer("tills", cluster.namesrv) as till,
        ):
            till.subscribe("orders")
            sent = producer.send(message)
            producer.send_in_transaction(message, unknown)
            producer.send(Message("orders", SCRIPT.encode(), keys=[SCRIPT], delay_ms=3_600_000))
            producer.send(Message("%DLQ%billing", SCRIPT.encode(), keys=[SCRIPT], properties={SCRIPT: SCRIPT}))
            while not till.receive(1, 3_600_000):
                pass
            with Admin(cluster.namesrv) as admin:
                admin.create_group("billing")
                while not admin.find(sent.message_id, TRACE_TOPIC):
                    pass  # Clients send traces from time to time.
            (letter,) = get(f"{control}/dlq/billing")[1]["letters"]
            shows = (
                "/topics/orders", "/messages?topic=orders", f"/messages?key={quote(SCRIPT)}",
                f"/messages/{sent.message_id}", "/dlq/billing", f"/dlq/billing/{quote(letter['id'], safe='')}",
                "/clock", "/transactions", f"/traces?id={quote(SCRIPT)}",
            )  # fmt: skip
            for path in (*shows, "/popped", "/journal", "/groups/tills", "/traces"):
                tab.open(f"{control}/ui{path}")
                if path in shows:
                    where = "document.querySelector('main').innerText + document.querySelector('[name=id]')?.value"
                    assert "window.stolen" in tab.run(where), path
                assert tab.run("window.stolen === undefined"), path


def many_topics(cluster: Cluster, count: int) -> None:
    """Create topics, a thousand with each request."""

    async def create(admin: Admin) -> None:
        for address in (await admin.masters()).values():
            for first in range(0, count, 1_000):
                configs = [TopicConfig(f"many-{number}", 1, 1) for number in range(first, first + 1_000)]
                answer = await admin.client.pool.ask(address, UpdateTopics(body=TopicConfigList(configs)), 60_000)
                assert answer.code == 0, answer.remark
        while f"many-{count - 1}" not in await admin.topics():
            await admin.pause_for(50)

    with Admin(cluster.namesrv) as admin:
        admin.run(create)
