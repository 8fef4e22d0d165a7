"""Dead letters: how many each group has, the letters of a group, and one of them."""

from typing import Any, NamedTuple
from urllib.parse import quote

from staticfire.dashboard.addresses import address
from staticfire.dashboard.views.messages import shown_message
from staticfire.dashboard.views.page_call import PageCall
from staticfire.dashboard.views.tables import ROWS, pager

HOURS_MS = 3_600_000
AGES = (("less than an hour", HOURS_MS), ("less than a day", 24 * HOURS_MS), ("less than a week", 168 * HOURS_MS))
OLDER = "a week or more"


async def show_all(call: PageCall) -> dict[str, Any]:
    """Return the groups with dead letters, most first."""
    counts = (await call.calls.get("/dlq"))["groups"]
    match = call.text("match")
    rows = [{"group": group, "count": count} for group, count in counts.items() if match.lower() in group.lower()]
    rows.sort(key=lambda one: (-one["count"], one["group"]))
    return {"rows": rows, "match": match, "sum": sum(counts.values()), "groups": len(counts)}


async def show(call: PageCall) -> dict[str, Any]:
    """Return letters of a group, the newest first."""
    group, match, page = call.place["group"], call.text("match"), max(1, call.whole("page", 1))
    skip = call.whole("skip") if match else (page - 1) * ROWS
    found = await call.calls.get("/dlq/{group}", {"group": group}, last="1", max=ROWS, skip=skip, match=match)
    clock = await call.calls.get_if_any("/clock")
    shown = view(found, match, clock.get("messageMs"))
    path = f"/dlq/{quote(group, safe='')}"
    return {
        **shown,
        "pager": pager(path, dict(call.query), page, 0 if match else found["count"]),
        "search": searched(path, found, match, skip) if match else None,
    }


def view(found: dict[str, Any], match: str, now_ms: int | None) -> dict[str, Any]:
    """Return the values of the page that don't depend on its address."""
    rows = [
        {**shown_message(one), "ageMs": None if now_ms is None else max(0, now_ms - one["diedMs"])}
        for one in reversed(found["letters"])
    ]
    return {
        "group": found["group"],
        "count": found["count"],
        "rows": rows,
        "match": match,
        "ages": ages([one["ageMs"] for one in rows if one["ageMs"] is not None]),
    }


class SearchedPart(NamedTuple):
    """Which letters a search has looked at, the newest counted as 1."""

    first: int
    last: int
    older: str
    """The address that searches in the letters before those; empty if there are none."""


def searched(path: str, found: dict[str, Any], match: str, skip: int) -> SearchedPart:
    """Return what a search has looked at. `skip`: how many of the newest letters it left out."""
    older = "" if found["next"] is None else address(path, match=match, skip=found["next"])
    return SearchedPart(skip + 1, skip + found["searched"], older)


def ages(of_rows: list[int]) -> list[tuple[str, int]]:
    """Return how many letters of a page are how old."""
    counts = dict.fromkeys([words for words, _ in AGES] + [OLDER], 0)
    for age_ms in of_rows:
        counts[next((words for words, most in AGES if age_ms < most), OLDER)] += 1
    return [(words, count) for words, count in counts.items() if count]


async def letter(call: PageCall) -> dict[str, Any]:
    """Return one dead letter."""
    found = await call.calls.get("/dlq/{group}/letters/{letter}", dict(call.place))
    return {"letter": shown_message(found), "group": call.place["group"]}
