"""Rules of fault injection."""

from typing import Any

from staticfire.dashboard.views.page_call import PageCall

EXAMPLES = (
    ("Refuse three sends", {"code": "SEND_MESSAGE", "answer": "SYSTEM_BUSY", "times": "3"}),
    ("Slow pulls", {"code": "PULL_MESSAGE", "delay": "500ms"}),
    ("Every tenth request is lost", {"drop": "1", "probability": "0.1"}),
)
FIELDS = (
    ("broker", "on these servers", "broker-a"), ("code", "request", "SEND_MESSAGE"), ("topic", "topic", ""),
    ("group", "group", ""), ("client", "client id", ""), ("queue", "queue", "0"), ("address", "address", "127.0.0.1"),
    ("language", "language of the client", "JAVA"), ("direction", "direction", "in, out or both"),
    ("jitter", "delay varies by", "100ms"), ("remark", "text of the refusal", ""),
    ("after", "after so many requests", "10"), ("times", "at most so many times", "3"),
    ("probability", "with this probability", "0.5"), ("seed", "seed of the probability", "7"),
    ("from", "from this message time", "2026-11-21T13:30:00Z"), ("until", "until this message time", ""),
    ("lifetime", "for this time", "5m"),
)  # fmt: skip
"""What a rule is about, and how often it hits: the word, what the form calls it, an example."""
ACTIONS = (
    ("answer", "refuse with this response", "SYSTEM_BUSY"), ("delay", "delay by", "500ms"), ("drop", "drop it", ""),
    ("duplicate", "handle it twice", ""), ("corrupt", "change a byte of it", ""), ("close", "close the connection", ""),
    ("bandwidth", "limit bytes per second to", "10000"),
    ("partition", "cut the network between two sides", "broker-a/nameserver"), ("skew", "move the clock by", "-5m"),
    ("read_only", "the broker refuses sends", ""), ("disk_full", "the broker's disk is full", ""),
    ("freeze", "suspend the process", ""), ("kill", "kill the process", ""),
)  # fmt: skip
FLAGS = frozenset({"drop", "duplicate", "corrupt", "close", "read_only", "disk_full", "freeze", "kill"})
"""Actions without a value."""


async def show(call: PageCall) -> dict[str, Any]:
    """Return all rules."""
    found = await call.calls.get("/faults")
    rules = [{**one, "hit": sum(one["hits"].values())} for one in found["faults"]]
    brokers = [one["name"] for one in (await call.calls.get_if_any("/brokers")).get("brokers", [])]
    return {"rules": rules, "silent": found["silent"], "fields": FIELDS, "actions": ACTIONS, "brokers": brokers}
