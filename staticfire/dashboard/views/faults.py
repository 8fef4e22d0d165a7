"""Rules of fault injection."""

from typing import Any

from staticfire.dashboard.views.asking import PageCall

EXAMPLES = (
    ("Refuse three sends", {"code": "SEND_MESSAGE", "answer": "SYSTEM_BUSY", "times": "3"}),
    ("Slow pulls", {"code": "PULL_MESSAGE", "delay": "500ms"}),
    ("Every tenth request is lost", {"drop": "1", "probability": "0.1"}),
)
FIELDS = (
    ("broker", "on this server", "broker-a"), ("code", "request", "SEND_MESSAGE"), ("topic", "topic", ""),
    ("group", "group", ""), ("client", "client id", ""), ("times", "at most so many times", "3"),
    ("probability", "with this probability", "0.5"), ("lifetime", "for this time", "5m"),
)  # fmt: skip
ACTIONS = (
    ("answer", "refuse with this response", "SYSTEM_BUSY"), ("delay", "delay by", "500ms"), ("drop", "drop it", ""),
    ("close", "close the connection", ""), ("read_only", "the broker refuses sends", ""),
    ("disk_full", "the broker's disk is full", ""), ("freeze", "suspend the process", ""),
    ("kill", "kill the process", ""),
)  # fmt: skip
FLAGS = frozenset({"drop", "close", "read_only", "disk_full", "freeze", "kill"})
"""Actions without a value."""


async def show(call: PageCall) -> dict[str, Any]:
    """Return all rules."""
    found = await call.calls.get("/faults")
    rules = [{**one, "hit": sum(one["hits"].values())} for one in found["faults"]]
    brokers = [one["name"] for one in (await call.calls.get_if_any("/brokers")).get("brokers", [])]
    return {"rules": rules, "silent": found["silent"], "fields": FIELDS, "actions": ACTIONS, "brokers": brokers}
