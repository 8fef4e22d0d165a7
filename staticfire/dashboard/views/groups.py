"""Consumer groups: the list, and one group: its members, who has which queue, its backlog, why it doesn't consume."""

from typing import Any

from staticfire.dashboard.views.page_call import PageCall, together
from staticfire.dashboard.views.picture import picture_of
from staticfire.dashboard.views.tables import ROWS, columns, pager
from staticfire.dashboard.views.topics import sort_of

TITLES = {"group": "Group", "members": "Members", "lag": "Lag", "deadLetters": "Dead letters"}
MOVES = ("joined", "left", "tookOver", "locked", "unlocked")
MOVES_SHOWN = 30
KINDS = {
    "level": "retries, or with a delay level",
    "timer": "with their own time",
    "transaction": "transactions not ended",
}


async def show_all(call: PageCall) -> dict[str, Any]:
    """Return a page of the groups."""
    page = max(1, call.whole("page", 1))
    wanted = sort_of(call.text("sort"), TITLES, "group")
    found = await call.calls.get(
        "/groups", survey="0", match=call.text("match"), sort=wanted, skip=(page - 1) * ROWS, max=ROWS,
        all="1" if call.text("all") == "1" else "",
    )  # fmt: skip
    return {
        "rows": found["groups"],
        "columns": columns("/groups", call.query, TITLES, frozenset(TITLES) - {"group"}, found["sort"]),
        "pager": pager("/groups", call.query, page, found["count"]),
        "count": found["count"],
        "all_count": found["all"],
        "match": call.text("match"),
        "has_all": call.text("all") == "1",
        "is_sorted_by_name_only": found["sort"] != wanted,
        "sort": found["sort"],
    }


async def show(call: PageCall) -> dict[str, Any]:
    """Return one group."""
    group = call.place["group"]
    calls, place = call.calls, {"group": group}
    view, found, moves, waiting = await together(
        calls.get("/group/{group}", place),
        calls.get_if_any("/explain/{group}", place),
        calls.get_if_any("/journal", kind=",".join(MOVES), group=group, max=MOVES_SHOWN),
        calls.get_if_any("/group/{group}/waiting", place),
    )
    return values(view, found, moves, waiting)


def values(
    view: dict[str, Any], found: dict[str, Any], moves: dict[str, Any], waiting: dict[str, Any]
) -> dict[str, Any]:
    """Return the values of the page."""
    most = max((one["lag"] for one in view["progress"]), default=0)
    names = name_places(view["members"])
    progress = [{**one, "share": round(100 * one["lag"] / most) if most else 0} for one in view["progress"]]
    return {
        "group": view["group"],
        "lag": view["lag"],
        "dead_letters": view["deadLetters"],
        "tps": view["consumeTps"],
        "kind": words_of(view),
        "topics": view["topics"],
        "members": [{**one, "name": names[one["clientId"]]} for one in view["members"]],
        "progress": sorted(progress, key=lambda one: (one["topic"], one["brokerName"], one["queueId"])),
        "names": names,
        "warnings": view["warnings"],
        "picture": picture_of(view, names),
        "headline": found.get("headline", ""),
        "findings": found.get("findings", []),
        "explain_error": found.get("error", ""),
        "moves": list(reversed(moves.get("records", []))),
        "has_journal": "error" not in moves,
        "waiting": [{**one, "words": KINDS.get(one["kind"], one["kind"])} for one in waiting.get("waiting", [])],
        "popped": waiting.get("popped", []),
    }


def words_of(view: dict[str, Any]) -> str:
    """Return how a group consumes: `pushed, clustering`."""
    kinds = {"CONSUME_PASSIVELY": "push", "CONSUME_ACTIVELY": "pull", "CONSUME_POP": "pop"}
    model = {"CLUSTERING": "clustering", "BROADCASTING": "broadcasting"}
    words = kinds.get(view["consumeType"], ""), model.get(view["messageModel"], "")
    return ", ".join(word for word in words if word)


def name_places(members: list[dict[str, Any]]) -> dict[str, str]:
    """Return a short name for each member: the part of its client id after the host."""
    ids = [one["clientId"] for one in members]
    short = {client_id: client_id.partition("@")[2] or client_id for client_id in ids}
    return short if len(set(short.values())) == len(ids) else {client_id: client_id for client_id in ids}
