"""The pages in a real browser: drawn, live, by keyboard, on a small screen, accessible (axe-core), in bad conditions.

`make test-report` installs Chromium, and gets axe-core from npm.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire import Cluster
from staticfire.dashboard.pages import PAGES
from tests.cli.commands import get
from tests.dashboard.browser import Browser
from tests.dashboard.members import Members, filled

pytestmark = [pytest.mark.foreign, pytest.mark.row("S9")]

WIDTHS = {"wide": 1280, "narrow": 360}
MENU = [one.path for one in PAGES if "{" not in one.path]
OF_THINGS = ("/topics/orders", "/groups/billing", "/messages?topic=orders", "/messages/order-1", "/dlq/billing")
DEEDS = (
    "/do/delete-topic?topic=orders", "/do/change-topic?topic=orders&queues=2&perm=4",
    "/do/change-group?group=billing&retries=3", "/do/reset-offsets?group=billing&topic=orders&to=earliest",
    "/do/clock?mode=skipping", "/do/advance?by=3h", "/do/add-fault?action=drop", "/do/clear-faults",
    "/do/save-snapshot?name=base", "/dlq/billing?match=nothing", "/dlq/billing?match=fails",
)  # fmt: skip
AXE = Path(os.environ.get("AXE_CORE", "")) / "axe.min.js"
AXE_RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']}"
TAB_KEY, ENTER_KEY = 9, 13


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


def test_every_page_without_data_suggests_what_to_do_next(tab: Browser) -> None:
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


def test_a_broker_that_is_gone_is_named_and_the_page_continues_when_it_is_back(tab: Browser) -> None:
    with Cluster(brokers=2, isolation="process") as cluster:
        tab.open(f"{cluster.control}/ui/")
        tab.wait("document.querySelector('#live .note.good')")
        cluster.broker("broker-b").kill()
        tab.wait("document.querySelector('#live .note.bad')?.innerText.includes('broker-b')")
        cluster.broker("broker-b").restart()
        tab.wait("document.querySelector('#live .note.good')")


def test_an_endpoint_that_is_gone_is_reported(tab: Browser) -> None:
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


def test_an_action_by_a_form_shows_its_result_on_the_same_page(tab: Browser, control: str) -> None:
    tab.open(f"{control}/ui/topics")
    tab.run("document.querySelector('form.act [name=topic]').value = 'by-form'")
    tab.run("document.querySelector('form.act').requestSubmit()")
    tab.wait("document.getElementById('new-done').innerText.includes('by-form was created')")
    tab.wait("document.querySelector('#live').innerText.includes('by-form')")
    assert "by-form" in [one["topic"] for one in get(f"{control}/topics")[1]["topics"]]
