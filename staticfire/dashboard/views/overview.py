"""The overview: whether clients can work, the brokers, and what needs attention."""

from typing import Any

from staticfire.dashboard.views.asking import PageCall


async def show(call: PageCall) -> dict[str, Any]:
    """Return the overview."""
    health = await call.calls.get("/health")
    brokers = await call.calls.get_if_any("/brokers")
    summary = await call.overview()
    return view(health, brokers, summary)


def view(health: dict[str, Any], brokers: dict[str, Any], summary: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the page."""
    rows = brokers.get("brokers", [])
    return {
        "problems": health["problems"] or ([summary["error"]] if "error" in summary else []),
        "brokers": rows,
        "up": sum(not one["problem"] for one in rows),
        "stored": sum(one.get("stored", 0) for one in rows),
        "delivered": sum(one.get("delivered", 0) for one in rows),
        "topics": summary.get("topics", 0),
        "groups": summary.get("groups", 0),
        "lag": summary.get("lag", 0),
        "dead_letters": summary.get("deadLetters", 0),
        "behind": summary.get("behind", []),
        "dead": summary.get("dead", []),
        "is_empty": not summary.get("topics") and "error" not in summary,
    }
