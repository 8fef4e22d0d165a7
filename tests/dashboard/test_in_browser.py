"""The pages in a real browser: drawn, live, by keyboard, on a small screen, accessible (axe-core), in bad conditions.

`make test-report` installs Chromium, and gets axe-core from npm.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire import Cluster, Message, Producer
from staticfire.dashboard.pages import PAGES
from tests.cli.commands import get
from tests.dashboard.browser import Browser
from tests.dashboard.members import Members, filled

pytestmark = [pytest.mark.foreign, pytest.mark.row("S9")]

WIDTHS = {"wide": 1280, "narrow": 360}
MENU = [one.path for one in PAGES if "{" not in one.path]
OF_THINGS = ("/topics/orders", "/groups/billing", "/messages?topic=orders", "/messages/order-1", "/dlq/billing")
DEEDS = ("/do/delete-topic?topic=orders", "/do/reset-offsets?group=billing&topic=orders&to=earliest")
AXE = Path(os.environ.get("AXE_CORE", "")) / "axe.min.js"
AXE_RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}"
TAB_KEY, ENTER_KEY = 9, 13


@pytest.fixture
def tab(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path) as tab:
        yield tab


@pytest.fixture(scope="module")
def control() -> Iterator[str]:
    with Cluster(brokers=2) as cluster, filled(cluster):
        yield cluster.control


def complaints_of_axe(tab: Browser) -> list[str]:
    """Return what axe-core finds wrong for people who see badly or use no mouse."""
    tab.run(f"{AXE.read_text()}; 0")
    script = f"axe.run(document, {AXE_RULES}).then((found) => found.violations.map((one) => "
    found: list[str] = tab.run(f"{script} one.id + ': ' + one.nodes.map((node) => node.html).join(' | ')))")
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", WIDTHS)
def test_every_page_with_data(tab: Browser, control: str, size: str, theme: str) -> None:
    tab.resize(WIDTHS[size], theme=theme)
    wrong: dict[str, object] = {}
    for path in (*MENU, *OF_THINGS, *DEEDS):
        tab.open(f"{control}/ui{path}")
        width = tab.run("document.documentElement.scrollWidth")
        found = [*tab.complaints, *complaints_of_axe(tab), *([f"{width} px"] if width > WIDTHS[size] else [])]
        if found:
            wrong[path] = found
    assert wrong == {}


def test_every_page_without_data_says_what_to_do_next(tab: Browser) -> None:
    with Cluster() as cluster:
        for path in MENU:
            tab.open(f"{cluster.control}/ui{path}")
            assert tab.run("document.querySelectorAll('main .note').length") > 0, path
            assert tab.complaints == [], path
        tab.open(f"{cluster.control}/ui/topics")
        assert "staticfire send orders hello" in tab.text()


def test_times_and_numbers_are_in_the_readers_format(tab: Browser, control: str) -> None:
    tab.open(f"{control}/ui/topics/orders")
    kinds = tab.run("[...new Set([...document.querySelectorAll('time')].map((one) => one.dataset.clock))]")
    assert kinds == ["message"]
    assert (tab.run("document.querySelector('time').title")).startswith("message time: 20")
    assert "UTC" not in tab.text("table")


def test_a_queue_moves_to_another_member_without_a_reload(tab: Browser) -> None:
    with Cluster() as cluster:
        cluster.create_topic("orders", queues=4)
        with Members(cluster, "billing", "orders") as members:
            members.join("desk-1")
            tab.open(f"{cluster.control}/ui/groups/billing")
            tab.wait("document.querySelectorAll('.lane').length === 1")
            tab.wait("document.querySelectorAll('.tile').length >= 4")
            tab.run("window.notLoadedAgain = true; document.getElementById('tile-orders broker-a/3').mark = 1")
            members.join("desk-2")
            tab.wait("document.querySelectorAll('.lane').length === 2")
            lane = "document.getElementById('lane-' + [...document.querySelectorAll('.lane')].at(-1).id.slice(5))"
            tab.wait(
                f"document.getElementById('tile-orders broker-a/3').getBoundingClientRect().top > "
                f"{lane}.getBoundingClientRect().top"
            )
            assert tab.run("window.notLoadedAgain && document.getElementById('tile-orders broker-a/3').mark") == 1


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


def test_a_broker_that_is_gone_is_named_and_the_page_goes_on_when_it_is_back(tab: Browser) -> None:
    with Cluster(brokers=2, isolation="process") as cluster:
        tab.open(f"{cluster.control}/ui/")
        tab.wait("document.querySelector('#live .note.good')")
        cluster.broker("broker-b").kill()
        tab.wait("document.querySelector('#live .note.bad')?.innerText.includes('broker-b')")
        cluster.broker("broker-b").restart()
        tab.wait("document.querySelector('#live .note.good')")


def test_an_endpoint_that_is_gone_is_told(tab: Browser) -> None:
    with Cluster() as cluster:
        tab.open(f"{cluster.control}/ui/topics")
        tab.wait("document.getElementById('connection').hidden")
    tab.wait("!document.getElementById('connection').hidden")


def test_everything_is_reached_by_keyboard(tab: Browser, control: str) -> None:
    tab.open(f"{control}/ui/topics")
    tab.press("Tab", TAB_KEY)
    assert tab.run("document.activeElement.className") == "skip"
    reached = set()
    for _ in range(40):
        tab.press("Tab", TAB_KEY)
        reached.add(tab.run("document.activeElement.getAttribute('href') ?? document.activeElement.name"))
    assert {"/ui/groups", "match", "/ui/topics/orders", "topic", "queues", "kind"} <= reached


def test_an_action_by_a_form_says_what_it_did_without_leaving_the_page(tab: Browser, control: str) -> None:
    tab.open(f"{control}/ui/topics")
    tab.run("document.querySelector('form.act [name=topic]').value = 'by-form'")
    tab.run("document.querySelector('form.act').requestSubmit()")
    tab.wait("document.getElementById('new-done').innerText.includes('by-form was created')")
    tab.wait("document.querySelector('#live').innerText.includes('by-form')")
    assert "by-form" in [one["topic"] for one in get(f"{control}/topics")[1]["topics"]]


def test_a_message_runs_no_script(tab: Browser) -> None:
    script = "<script>window.stolen = 1</script><img src=x onerror='window.stolen = 1'>"
    with Cluster() as cluster:
        cluster.create_topic("orders")
        with Producer("shop", cluster.namesrv) as producer:
            producer.send(Message("orders", script.encode(), tags="t", keys=["key"], properties={script: script}))
        for path in ("/topics/orders", "/messages?topic=orders", "/messages/key"):
            tab.open(f"{cluster.control}/ui{path}")
            assert "window.stolen" in tab.text()
            assert tab.run("window.stolen === undefined")


def many_topics(cluster: Cluster, count: int) -> None:
    """Create topics, a thousand with each request."""
    from staticfire import Admin
    from staticfire.protocol.requests.topics import TopicConfig, TopicConfigList, UpdateTopics

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
