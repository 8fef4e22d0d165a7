"""All messages that wait, of all topics and groups, over HTTP: delayed, retries, open transactions, and popped ones.

Behaviour
- GET /waiting returns those that are due next, and how many wait, by kind; ?kind=transaction returns only transactions
  that wait for the answer of their producer.
- GET /popped returns what each group has popped and not acknowledged, by queue, with the clients that have it.
- Only staticfire's brokers report this: for a RocketMQ the lists are empty, and `known` is false.
"""

import msgspec

from staticfire.client.admin.totals import broker_waiting
from staticfire.control.routes import ControlCall, Parameter, Reply, Route

KINDS = ("level", "timer", "transaction")
SHOWN, SHOWN_MAX = 100, 1_000


async def show(call: ControlCall) -> Reply:
    """Return what waits, the next first."""
    kind, most = call.query.get("kind") or ",".join(KINDS), call.query.get("max", SHOWN)
    async with call.cluster.admin() as admin:
        found = await broker_waiting(admin.client, await admin.readers(), kind, most, admin.timeout_ms)
    parts = found or {}
    rows = [{"broker": name, **msgspec.to_builtins(one)} for name, part in parts.items() for one in part.messages]
    rows.sort(key=lambda row: (row["dueMs"], row["storedMs"], row["broker"]))
    counts = {name: sum(part.counts.get(name, 0) for part in parts.values()) for name in kind.split(",")}
    is_all = all(part.is_all for part in parts.values())
    return Reply({"known": found is not None, "counts": counts, "isAll": is_all, "messages": rows[:most]})


async def popped(call: ControlCall) -> Reply:
    """Return what is popped and not acknowledged."""
    async with call.cluster.admin() as admin:
        found = await broker_waiting(admin.client, await admin.readers(), "popped", 1, admin.timeout_ms)
    rows = [
        {"broker": name, **msgspec.to_builtins(one)}
        for name, part in (found or {}).items()
        for one in part.popped
        if call.query.get("match", "").lower() in f"{one.group} {one.topic}".lower()
    ]
    rows.sort(key=lambda row: (row["nextMs"], row["group"], row["topic"], row["broker"], row["queueId"]))
    count = sum(row["count"] for row in rows)
    limit = call.query.get("max", SHOWN)
    return Reply({"known": found is not None, "count": count, "queues": len(rows), "popped": rows[:limit]})


_MAX = Parameter("max", "how many", "integer", 1, SHOWN_MAX)
ROUTES = (
    Route(
        "GET", "/waiting", "messages that wait, the next first: delayed, retries, transactions without an answer", show,
        (Parameter("kind", "only of this kind", choices=KINDS), _MAX),
    ),
    Route(
        "GET", "/popped", "messages that groups have popped and not acknowledged, by queue", popped,
        (Parameter("match", "only groups or topics whose name contains this text"), _MAX),
    ),
)  # fmt: skip
