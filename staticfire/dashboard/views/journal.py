"""The journal as it comes: the newest events first."""

from typing import Any

from staticfire.dashboard.views.page_call import PageCall
from staticfire.launch.places import OWN_USER
from staticfire.protocol.names import TOOLS_GROUP
from staticfire.protocol.requests.journal import KEY_SEEN, KINDS

SHOWN = 200
FILTERS = ("kind", "client", "group", "topic", "broker")
LOOKS = {"joined": "done", "left": "failed", "tookOver": "moves", "sentBack": "failed", "died": "failed"}


async def show(call: PageCall) -> dict[str, Any]:
    """Return the newest events of the wanted kinds."""
    filters = {name: call.text(name) for name in FILTERS}
    given = {**filters, "kind": filters["kind"] if filters["kind"] in KINDS else ""}
    has_tools = call.text("tools") == "1"
    found = await call.calls.get("/journal", None, max=SHOWN, **given)
    rows = [
        {**one, "look": LOOKS.get(one["kind"], ""), "words": words_of(one["details"])}
        for one in reversed(found["records"])
        if has_tools or not is_of_tools(one)
    ]
    return {
        "rows": rows,
        "filters": filters,
        "kinds": KINDS,
        "has_tools": has_tools,
        "dropped": found["dropped"],
        "is_filtered": any(given.values()),
    }


def is_of_tools(event: dict[str, Any]) -> bool:
    """Return whether an event is only about what tools read. This dashboard has a new connection for each look."""
    is_own_key = event["kind"] == KEY_SEEN and event["details"].get("accessKey") == OWN_USER
    return bool(is_own_key or event["group"] == TOOLS_GROUP)


def words_of(details: dict[str, Any]) -> str:
    """Return the details of an event in one line."""
    return ", ".join(f"{name} {value}" for name, value in details.items() if value not in ("", None, {}))
