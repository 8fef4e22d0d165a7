"""Messages: the search by topic, key or id, and one message with its life as a timeline."""

import base64
from typing import Any

from staticfire.dashboard.calls import Refused
from staticfire.dashboard.shown import body_shown
from staticfire.dashboard.views.page_call import PageCall
from staticfire.protocol.tags import TagExpression, TagExpressionError

SHOWN_MAX, KEY_MAX = 200, 64
MESSAGES = 50
FIELDS = ("topic", "key", "broker", "queue", "offset", "tags", "from", "to")
GROUPS_SHOWN = 50
LOOKS = {
    "sent": "sent", "half": "waits", "set aside": "waits", "waits": "waits", "comes again": "waits",
    "rolled back": "failed", "recalled": "failed", "dead": "failed", "committed": "sent", "stored": "sent",
    "delivered": "moves", "consumed": "done", "sent back": "failed",
}  # fmt: skip
"""How an event of a life looks."""


async def search(call: PageCall) -> dict[str, Any]:
    """Return the messages of a topic, or those with a key or an id."""
    topic, key = call.text("topic"), call.text("key")
    begin, end = call.text("from"), call.text("to")
    form = {name: call.text(name) for name in FIELDS}
    rows: list[dict[str, Any]] = []
    error, found = "", 0
    notes: list[str] = []
    try:
        if form["offset"] and (key or begin or end):
            raise Refused(400, {"error": "An offset belongs to a queue of a topic: leave key and times empty."})
        if key:
            every = await _with_key(call, key, {"topic": topic, "from": begin, "to": end})
            rows, found = [one for one in every if _is_wanted(call, one)], len(every)
        elif topic:
            rows, notes = await _of_topic(call, topic)
            found = len(rows)
    except (Refused, TagExpressionError) as refused:
        error = str(refused)
    return {
        "form": form,
        "rows": [shown_message(one) for one in rows],
        "error": error,
        "has_criteria": bool(topic or key),
        "order": _order(form, found),
        "notes": notes,
    }


def _order(form: dict[str, str], found: int) -> str:
    """Return in which order messages are shown, and whether a limit has left some out."""
    if form["key"]:
        return f"of {KEY_MAX} with that key: there may be more, so name the topic or a time" if found == KEY_MAX else ""
    if form["from"] or form["to"]:
        return f"the oldest {SHOWN_MAX}: there may be more, from the last one's time on" if found == SHOWN_MAX else ""
    if form["offset"]:
        return "from the offset on"
    return "the newest first"


async def _with_key(call: PageCall, key: str, limits: dict[str, str]) -> list[dict[str, Any]]:
    """Return the messages with a key or an id. Those that wait are in no topic yet: only their ids are known."""
    try:
        found = await call.calls.get("/messages/{id}", {"id": key}, max=KEY_MAX, lives="0", **limits)
        return list(found["messages"])
    except Refused as refused:
        if refused.status != 404 or any(limits.values()) or any(map(call.text, ("broker", "queue", "tags"))):
            raise
    found = await call.calls.get("/messages/{id}", {"id": key})
    return [{"messageId": message_id} for message_id in found["lives"]]


def _is_wanted(call: PageCall, message: dict[str, Any]) -> bool:
    """Return whether a message is at the broker, in the queue and with one of the tags that a search names.

    What is only known by its id, because it waits, has none of them.
    """
    if "brokerName" not in message:
        return True
    broker, queue, tags = (call.text(name) for name in ("broker", "queue", "tags"))
    return (
        broker in ("", message["brokerName"])
        and queue in ("", str(message["queueId"]))
        and TagExpression.parse(tags).matches(message["tags"])
    )


async def _of_topic(call: PageCall, topic: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Return messages of a topic: the newest first, those from an offset on, or those stored in a range of times.

    Also return notes about messages that weren't looked at.
    """
    place, begin, end = {"topic": topic}, call.text("from"), call.text("to")
    limits = {name: call.text(name) for name in ("broker", "queue", "tags")}
    if begin or end:
        range_of = {"from": begin, "to": end}
        found = await call.calls.get("/topics/{topic}/messages", place, max=SHOWN_MAX, **limits, **range_of)
        return found["messages"], found["notes"]
    if offset := call.text("offset"):
        found = await call.calls.get("/peek/{topic}", place, offset=offset, max=MESSAGES, **limits)
        return found["messages"], found["notes"]
    found = await call.calls.get("/peek/{topic}", place, last="1", max=MESSAGES, **limits)
    return found["messages"][::-1], found["notes"]


async def show(call: PageCall) -> dict[str, Any]:
    """Return one message with its life."""
    wanted = call.place["id"]
    found = await call.calls.get("/messages/{id}", {"id": wanted})
    return view(wanted, found)


def view(wanted: str, found: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the page: each message once, with its copies and its life."""
    copies: dict[str, list[dict[str, Any]]] = {message_id: [] for message_id in found["lives"]}
    for one in found["messages"]:
        copies.setdefault(one["messageId"], []).append(shown_message(one))
    lives = [
        {
            "id": message_id,
            "copies": mine,
            "first": mine[0] if mine else None,
            **timeline(found["lives"].get(message_id, [])),
        }
        for message_id, mine in copies.items()
    ]
    return {"wanted": wanted, "lives": lives, "notes": found["notes"]}


def timeline(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the events of a life with the time since the one before, and the current states of groups apart."""
    rows: list[dict[str, Any]] = []
    before_ms: int | None = None
    for event in events:
        time_ms = event["timeMs"]
        if time_ms is None:
            continue
        gap_ms = None if before_ms is None else time_ms - before_ms
        kind = LOOKS.get(event["what"].partition(":")[0], "moves")
        if event["what"] == "delivered" and event["success"] is False:
            kind = "failed"
        rows.append({**event, "gapMs": gap_ms, "look": kind})
        before_ms = time_ms
    states = [event for event in events if event["timeMs"] is None]
    return {"events": rows, "states": states[:GROUPS_SHOWN], "more_states": max(0, len(states) - GROUPS_SHOWN)}


def shown_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of a response as it is shown: its body as text or hex, its beginning only."""
    encoded = message.get("bodyBase64")
    body = base64.b64decode(encoded) if encoded is not None else message.get("body", "").encode()
    keys = message.get("keys") or []
    shown = {"topic": "", "tags": "", "storedMs": 0, "bornMs": 0, "brokerName": "", "queueId": -1, "queueOffset": -1}
    return {**shown, **message, "keys": keys, "shown": body_shown(body)}
