"""In a real browser: a filter whose call fails, and logins that end while a page is open."""

import pytest

from staticfire import Cluster
from tests.cli.commands import FREE_PORTS, Up
from tests.dashboard.browser import Browser

pytestmark = [pytest.mark.foreign, pytest.mark.row("S9")]


def typed(selector: str, text: str) -> str:
    """Return a script that writes into a field, as a person does."""
    return f"""(() => {{
      const field = document.querySelector('{selector}');
      field.value = '{text}';
      field.dispatchEvent(new Event('input', {{bubbles: true}}));
    }})()"""


def test_a_filter_whose_call_fails_shows_the_error_and_then_what_it_found(tab: Browser) -> None:
    with Cluster() as cluster:
        for topic in ("orders", "refunds"):
            cluster.create_topic(topic)
        tab.open(f"{cluster.control}/ui/topics")
        tab.wait("document.querySelector('#live').innerText.includes('refunds')")
        with cluster.faults.add(close=True, code="GET_ALL_TOPIC_LIST_FROM_NAMESERVER"):
            tab.run(typed("input[name=match]", "ord"))
            tab.wait("document.querySelector('#live [role=alert]')")
        tab.wait("document.querySelector('#live table').innerText.includes('orders')")
        assert "refunds" not in tab.text("#live")
        assert tab.run("document.querySelector('input[name=match]').value") == "ord"


def log_in(tab: Browser, ui: str, token: str) -> None:
    tab.open(f"{ui}/topics")
    tab.run(f"document.querySelector('input[name=token]').value = '{token}'")
    tab.run("document.querySelector('form.act').submit()")
    tab.wait("document.querySelector('h1')?.innerText === 'Topics'")


def test_two_clusters_of_one_machine_have_their_own_logins(tab: Browser) -> None:
    with (
        Up("up", *FREE_PORTS, "--control-token", "first-token") as first,
        Up("up", *FREE_PORTS, "--control-token", "second-token") as second,
    ):
        one, other = (f"{up.reported('CONTROL')}/ui" for up in (first, second))
        log_in(tab, one, "first-token")
        log_in(tab, other, "second-token")
        tab.open(f"{one}/topics")
        assert tab.text("h1") == "Topics"


@pytest.mark.parametrize("by", ["filter", "live"])
def test_a_page_whose_login_is_over_shows_the_login(tab: Browser, by: str) -> None:
    with Up("up", *FREE_PORTS, "--control-token", "first-token") as up:
        log_in(tab, f"{up.reported('CONTROL')}/ui", "first-token")
        tab.wait("document.querySelector('#live').innerText.includes('no topic yet')")
        # The cookie of the login is removed, as after twelve hours.
        tab.run("fetch('/ui/logout', {redirect: 'manual'})")
        if by == "filter":
            tab.run(typed("input[name=match]", "ord"))
        else:
            tab.run("document.dispatchEvent(new Event('visibilitychange'))")  # The page follows its live part again.
        tab.wait("document.querySelector('input[name=token]')")
