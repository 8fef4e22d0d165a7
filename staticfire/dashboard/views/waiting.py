"""What waits in all topics and groups: transactions without an answer, popped messages; and what clients trace."""

from typing import Any

from staticfire.dashboard.views.page_call import PageCall

SHOWN = 200
LOOKS = {"sent": "sent", "consumed": "done", "being consumed": "waits", "recalled": "failed"}


async def transactions(call: PageCall) -> dict[str, Any]:
    """Return the transactions that aren't ended, those first that are checked next."""
    found = await call.calls.get("/waiting", kind="transaction", max=SHOWN)
    clock = await call.calls.get_if_any("/clock")
    now_ms = clock.get("messageMs")
    rows = [
        {
            **one,
            "ageMs": None if now_ms is None else max(0, now_ms - one["storedMs"]),
            "dueInMs": None if now_ms is None else max(0, one["dueMs"] - now_ms),
        }
        for one in found["messages"]
    ]
    return {"rows": rows, "count": found["counts"]["transaction"], "is_all": found["isAll"]}


async def popped(call: PageCall) -> dict[str, Any]:
    """Return what groups have popped and not acknowledged."""
    match = call.text("match")
    found = await call.calls.get("/popped", match=match, max=SHOWN)
    return {"rows": found["popped"], "count": found["count"], "queues": found["queues"], "match": match}


async def traces(call: PageCall) -> dict[str, Any]:
    """Return the newest events that clients trace, or those of one message, the newest first."""
    filters = {name: call.text(name) for name in ("id", "topic")}
    found = await call.calls.get("/traces", None, max=SHOWN, **filters)
    return {"events": timeline(found["events"]), "exists": found["exists"], "topic": found["topic"], "filters": filters}


def timeline(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events, oldest first, with how they look, and the time since the one before of the same message."""
    before_ms: dict[str, int] = {}
    rows = []
    for event in sorted(events, key=lambda one: one["timeMs"]):
        look = LOOKS.get(event["what"], "moves")
        gap_ms = event["timeMs"] - before_ms.get(event["messageId"], event["timeMs"])
        before_ms[event["messageId"]] = event["timeMs"]
        rows.append({**event, "gapMs": gap_ms, "look": "failed" if event["success"] is False else look})
    return rows
