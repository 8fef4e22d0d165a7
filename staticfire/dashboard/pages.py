"""All pages: their addresses, templates, and what they show. Pages are found in the order of this table."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from staticfire.dashboard.addresses import match
from staticfire.dashboard.views import (
    clients,
    clock,
    faults,
    groups,
    journal,
    letters,
    messages,
    overview,
    topics,
    waiting,
)
from staticfire.dashboard.views.page_call import PageCall

Load = Callable[[PageCall], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """One page. `path`: below /ui. `section`: the entry of the menu that it belongs to."""

    path: str
    template: str
    title: str
    section: str
    load: Load
    needs_staticfire: str = ""
    """Why a RocketMQ's cluster has no such page; empty if it has."""


class FoundPage(NamedTuple):
    """A page, and the names in its address."""

    page: DashboardPage
    place: Mapping[str, str]


CLOCK = "Message time is staticfire's own: the clock of a RocketMQ is that of its machine."
FAULTS = "Fault injection is staticfire's own: a RocketMQ doesn't break on request."
JOURNAL = "The journal is staticfire's own: RocketMQ's brokers don't record what happened."
SNAPSHOTS = "Snapshots are staticfire's own: a RocketMQ can't be restored to an earlier state."

WAITING = "Which transactions are open and which messages are popped is reported by staticfire's brokers only."

PAGES = (
    DashboardPage("/", "overview.html", "Overview", "overview", overview.show),
    DashboardPage("/topics", "topics.html", "Topics", "topics", topics.show_all),
    DashboardPage("/topics/{topic}", "topic.html", "Topic", "topics", topics.show),
    DashboardPage("/groups", "groups.html", "Groups", "groups", groups.show_all),
    DashboardPage("/groups/{group}", "group.html", "Group", "groups", groups.show),
    DashboardPage("/groups/{group}/members/{client}", "member.html", "Member", "groups", clients.member),
    DashboardPage("/producers", "producers.html", "Producers", "producers", clients.producers),
    DashboardPage("/messages", "messages.html", "Messages", "messages", messages.search),
    DashboardPage("/messages/{id}", "message.html", "Message", "messages", messages.show),
    DashboardPage("/dlq", "dlq.html", "Dead letters", "dlq", letters.show_all),
    DashboardPage("/dlq/{group}", "letters.html", "Dead letters", "dlq", letters.show),
    DashboardPage("/dlq/{group}/{letter}", "letter.html", "Dead letter", "dlq", letters.letter),
    DashboardPage("/traces", "traces.html", "Traces", "traces", waiting.traces),
    DashboardPage("/transactions", "transactions.html", "Transactions", "transactions", waiting.transactions, WAITING),
    DashboardPage("/popped", "popped.html", "Popped messages", "popped", waiting.popped, WAITING),
    DashboardPage("/clock", "clock.html", "Clock", "clock", clock.show, CLOCK),
    DashboardPage("/faults", "faults.html", "Faults", "faults", faults.show, FAULTS),
    DashboardPage("/snapshots", "snapshots.html", "Snapshots", "snapshots", clock.snapshots, SNAPSHOTS),
    DashboardPage("/journal", "journal.html", "Journal", "journal", journal.show, JOURNAL),
)
MENU = (
    ("overview", "Overview", "/"), ("topics", "Topics", "/topics"), ("groups", "Groups", "/groups"),
    ("producers", "Producers", "/producers"), ("messages", "Messages", "/messages"), ("dlq", "Dead letters", "/dlq"),
    ("traces", "Traces", "/traces"), ("transactions", "Transactions", "/transactions"),
    ("popped", "Popped messages", "/popped"),
    ("clock", "Clock", "/clock"), ("faults", "Faults", "/faults"), ("snapshots", "Snapshots", "/snapshots"),
    ("journal", "Journal", "/journal"),
)  # fmt: skip


def find_page(raw_path: str) -> FoundPage | None:
    """Return the page at a path below /ui that is still quoted; None if it doesn't exist."""
    for page in PAGES:
        if (place := match(page.path, raw_path)) is not None:
            return FoundPage(page, place)
    return None
