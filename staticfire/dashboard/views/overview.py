"""The overview: whether clients can work, the brokers, and what needs attention."""

from typing import Any, NamedTuple

from staticfire.dashboard.shown import bytes_text
from staticfire.dashboard.views.page_call import PageCall, together

REFUSED_SHOWN = 20


class SlaveProgress(NamedTuple):
    """How far a slave has copied its master."""

    words: str
    is_good: bool


async def show(call: PageCall) -> dict[str, Any]:
    """Return the overview."""
    health, brokers, access, summary = await together(
        call.calls.get("/health"), call.calls.get_if_any("/brokers"), call.calls.get_if_any("/access"), call.overview()
    )
    has_slaves = any(one["id"] for one in brokers.get("brokers", []))
    replication = await call.calls.get_if_any("/replication") if has_slaves else {}
    return {**view(health, brokers, summary, replication), "refused": refused_of(access)}


def view(
    health: dict[str, Any], brokers: dict[str, Any], summary: dict[str, Any], replication: dict[str, Any]
) -> dict[str, Any]:
    """Return the values of the page. Messages of slaves are copies, so they aren't counted."""
    copies = {one["address"]: one for one in replication.get("replicas", []) if one["id"] and one["answers"]}
    rows = [{**one, "copied": copy_of(copies.get(one["address"]))} for one in brokers.get("brokers", [])]
    masters = [one for one in rows if not one["id"]]
    return {
        "problems": health["problems"] or ([summary["error"]] if "error" in summary else []),
        "brokers": rows,
        "up": sum(not one["problem"] for one in rows),
        "stored": sum(one.get("stored", 0) for one in masters),
        "delivered": sum(one.get("delivered", 0) for one in masters),
        "topics": summary.get("topics"),
        "groups": summary.get("groups"),
        "lag": summary.get("lag"),
        "dead_letters": summary.get("deadLetters"),
        "silent": summary.get("silent", []),
        "is_known": "error" not in summary,
        "behind": summary.get("behind", []),
        "dead": summary.get("dead", []),
        "is_empty": not summary.get("topics") and "error" not in summary,
    }


def copy_of(replica: dict[str, Any] | None) -> SlaveProgress | None:
    """Return how far a slave is; None for a master, and for a slave that doesn't report it."""
    if replica is None:
        return None
    far = f"{bytes_text(replica['behindBytes'])} behind" if replica["behindBytes"] else "has all"
    if replica["held"]:
        return SlaveProgress(f"held, {far}", is_good=False)
    if replica["problem"]:
        return SlaveProgress(f"{replica['problem']}; {far}", is_good=False)
    return SlaveProgress(far if replica["inSync"] else f"not in sync, {far}", is_good=replica["inSync"])


def refused_of(access: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the requests that brokers refused, the newest first; equal ones of several brokers are one row."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for state in access.get("brokers", {}).values():
        for one in state["refused"]:
            key = one["request"], one["user"], one["client"], one["resource"], one["reason"]
            before = rows.get(key, {"count": 0, "lastMs": 0})
            rows[key] = {
                **one, "count": before["count"] + one["count"], "lastMs": max(before["lastMs"], one["lastMs"]),
            }  # fmt: skip
    return sorted(rows.values(), key=lambda one: -int(one["lastMs"]))[:REFUSED_SHOWN]
