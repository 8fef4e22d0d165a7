"""Runs of a program as brokers would have seen them, built from a few words."""

from typing import Any

from staticfire.chaos.evidence import Evidence
from staticfire.chaos.stored import StoredMessages
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import format_properties
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.journal import JournalRecord

BROKER, CLIENT = "broker-a", "10.0.0.9@billing-1"


def event(kind: str, topic: str = "orders", offset: int = -1, **details: Any) -> JournalRecord:
    """Return an event of the group billing in queue 0. `at_ms`, `client` and `group` may differ."""
    at_ms, client = details.pop("at_ms", 0), details.pop("client", CLIENT)
    group = details.pop("group", "billing")
    return JournalRecord(1, BROKER, kind, at_ms, at_ms, client, group, topic, 0, offset, details)


def delivered(first: int, end: int, topic: str = "orders", **more: Any) -> JournalRecord:
    return event("delivered", topic, first, endOffset=end, count=end - first, **more)


def joined(client: str = CLIENT, at_ms: int = 0, **subscriptions: str) -> JournalRecord:
    said = subscriptions or {"orders": "*"}
    return event("joined", "", client=client, at_ms=at_ms, subscriptions=said, messageModel="CLUSTERING")


def request(code: str, topic: str = "orders", offset: int = -1, **fields: Any) -> JournalRecord:
    """Return a request of the group billing about queue 0."""
    at_ms, group = fields.pop("at_ms", 0), fields.pop("group", "billing")
    details = {"code": code, "fields": {"topic": topic, **fields}}
    return JournalRecord(1, BROKER, "request", at_ms, at_ms, CLIENT, group, topic, 0, offset, details)


def commit(offset: int, topic: str = "orders") -> JournalRecord:
    return request("UPDATE_CONSUMER_OFFSET", topic, offset, commitOffset=offset)


def send(topic: str, unique_id: str, keys: str = "", **more: str) -> JournalRecord:
    named = {"UNIQ_KEY": unique_id, **({"KEYS": keys} if keys else {}), **more}
    return request("SEND_MESSAGE_V2", topic, group="shop", properties=format_properties(named).decode())


def message(topic: str, offset: int, unique_id: str, keys: str = "", body: bytes = b"") -> ReceivedMessage:
    named = {"UNIQ_KEY": unique_id, **({"KEYS": keys} if keys else {})}
    record = StoredRecord(
        0, 0, 0, 0, 0, offset, 0, 0, 0, 0, 0, 0, 0, bytes(8), topic, format_properties(named), body
    )  # fmt: skip
    return ReceivedMessage(record, BROKER, bytes(8))


def run(
    events: list[JournalRecord] | None = None,
    requests: list[JournalRecord] | None = None,
    messages: list[ReceivedMessage] | None = None,
    exit_code: int | None = 0,
    **more: Any,
) -> Evidence:
    """Return a run with these events, requests and stored messages."""
    stored = StoredMessages()
    for one in messages or ():
        stored.topics.setdefault(one.topic, []).append(one)
    return Evidence(events or [], requests or [], stored, exit_code, **more)
