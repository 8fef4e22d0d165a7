"""Message time, and snapshots."""

from typing import Any

from staticfire.dashboard.views.page_call import PageCall, together

DUE_SHOWN = 50
KINDS = {"level": "retry or delay level", "timer": "its own time", "transaction": "check of a transaction"}
MODES = {
    "real": "runs at normal speed",
    "frozen": "is frozen until it is advanced",
    "skipping": "jumps to whatever is due next, whenever consumers are at rest",
    "scaled": "runs faster than normal",
}


async def show(call: PageCall) -> dict[str, Any]:
    """Return the clock."""
    clock, waiting = await together(call.calls.get("/clock"), call.calls.get_if_any("/waiting", max=DUE_SHOWN))
    now_ms = clock["messageMs"]
    due = [
        {**one, "inMs": max(0, one["dueMs"] - now_ms), "words": KINDS[one["kind"]]}
        for one in waiting.get("messages", [])
    ]
    counts = [(KINDS[kind], count) for kind, count in waiting.get("counts", {}).items() if count]
    return {**view(clock), "due": due, "counts": counts, "due_all": waiting.get("isAll", True)}


def view(clock: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the page."""
    due_ms = clock["nextDueMs"]
    return {
        **clock,
        "words": MODES[clock["mode"]],
        "aheadMs": clock["messageMs"] - clock["wallMs"],
        "dueInMs": None if due_ms is None else max(0, due_ms - clock["messageMs"]),
    }


async def snapshots(call: PageCall) -> dict[str, Any]:
    """Return all snapshots."""
    return {"rows": (await call.calls.get("/snapshots"))["snapshots"]}
