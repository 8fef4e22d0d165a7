"""Connected clients: producers, and one member of a group with its stacks."""

from typing import Any

from staticfire.dashboard.views.page_call import PageCall

PRODUCERS_MAX = 500


async def producers(call: PageCall) -> dict[str, Any]:
    """Return the producers whose group or client id contains a text."""
    match = call.text("match")
    found = (await call.calls.get("/producers"))["producers"]
    chosen = [one for one in found if match.lower() in f"{one['group']} {one['client']} {one['address']}".lower()]
    return {"rows": chosen[:PRODUCERS_MAX], "count": len(chosen), "match": match, "all_count": len(found)}


async def member(call: PageCall) -> dict[str, Any]:
    """Return what a member reports; with its stacks if wanted."""
    has_stack = call.text("stack") == "1"
    info = await call.calls.get("/group/{group}/members/{client}", dict(call.place), stack="1" if has_stack else "")
    queues = sorted(info["queues"], key=lambda one: (one["topic"], one["broker"], one["queue"]))
    return {
        "group": info["group"],
        "client": info["client"],
        "properties": sorted(info["properties"].items()),
        "subscriptions": info["subscriptions"],
        "queues": queues,
        "consumption": sorted(info["consumption"].items()),
        "stack": info["stack"],
        "has_stack": has_stack,
    }
