"""Topics: the list, and one topic with its queues and its readers."""

from typing import Any

from staticfire.dashboard.views.messages import shown_message
from staticfire.dashboard.views.page_call import PageCall, together
from staticfire.dashboard.views.tables import ROWS, columns, pager

TITLES = {"topic": "Topic", "queues": "Queues", "messages": "Messages"}
PERMS = {2: "write only", 4: "read only", 6: "read and write"}
PEEKED = 20
QUEUES_SHOWN_MAX = 256


async def show_all(call: PageCall) -> dict[str, Any]:
    """Return a page of the topics."""
    page = max(1, call.whole("page", 1))
    has_all = call.text("all") == "1"
    found = await call.calls.get(
        "/topics", match=call.text("match"), sort=sort_of(call.text("sort"), TITLES, "topic"),
        skip=(page - 1) * ROWS, max=ROWS, all="1" if has_all else "",
    )  # fmt: skip
    return {
        "rows": found["topics"],
        "columns": columns("/topics", call.query, TITLES, frozenset({"queues", "messages"}), found["sort"]),
        "pager": pager("/topics", call.query, page, found["count"]),
        "count": found["count"],
        "all_count": found["all"],
        "match": call.text("match"),
        "has_all": has_all,
        "is_sorted_by_name_only": found["sort"] != sort_of(call.text("sort"), TITLES, "topic"),
        "sort": found["sort"],
    }


def sort_of(text: str, titles: dict[str, str], default: str) -> str:
    """Return the column to sort by; the default for an unknown one."""
    return text if text.lstrip("-") in titles and text.count("-") <= 1 else default


async def show(call: PageCall) -> dict[str, Any]:
    """Return one topic, and its newest messages."""
    topic = call.place["topic"]
    facts, peeked = await together(
        call.calls.get("/topics/{topic}", {"topic": topic}),
        call.calls.get_if_any("/peek/{topic}", {"topic": topic}, last="1", max=PEEKED),
    )
    return view(facts, peeked)


def view(facts: dict[str, Any], peeked: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the page."""
    most = max((queue["count"] for queue in facts["queues"]), default=0)
    queues = [{**queue, "share": _percent(queue["count"], most)} for queue in facts["queues"]]
    attributes = {name: text for broker in facts["brokers"] for name, text in (broker.get("attributes") or {}).items()}
    return {
        "topic": facts["topic"],
        "count": facts["messages"],
        "queues": queues[:QUEUES_SHOWN_MAX],
        "more_queues": max(0, len(queues) - QUEUES_SHOWN_MAX),
        "brokers": [{**one, "perm_words": PERMS.get(one.get("perm", 0), "none")} for one in facts["brokers"]],
        "attributes": attributes,
        "kind": attributes.get("message.type", "").removeprefix("+"),
        "groups": facts["groups"],
        "more_groups": facts["moreGroups"],
        "messages": [shown_message(one) for one in reversed(peeked.get("messages", []))],
        "peek_error": peeked.get("error", ""),
    }


def _percent(part: int, whole: int) -> int:
    return round(100 * part / whole) if whole else 0
