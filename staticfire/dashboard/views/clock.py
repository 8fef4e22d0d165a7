"""Message time, and snapshots."""

from typing import Any

from staticfire.dashboard.views.asking import PageCall

MODES = {
    "real": "runs at normal speed",
    "frozen": "is frozen until it is advanced",
    "skipping": "jumps to whatever is due next, whenever consumers are at rest",
    "scaled": "runs faster than normal",
}


async def show(call: PageCall) -> dict[str, Any]:
    """Return the clock."""
    return view(await call.calls.get("/clock"))


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
