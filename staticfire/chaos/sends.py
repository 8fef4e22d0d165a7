"""The checker of sends: each message that a program regarded as sent is stored. Pure.

A broken promise needs all of this: the broker never stored the message under its unique id; the program ended as in
calm weather; fewer different messages are stored in the topic than in calm weather; and no stored message has its keys.
A one-way send, a delayed message and a half message prove nothing.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from staticfire.chaos.broken import Broken
from staticfire.chaos.evidence import Evidence
from staticfire.chaos.usage import SENDS, is_plain
from staticfire.protocol import properties as names
from staticfire.protocol.properties import parse_properties
from staticfire.protocol.requests.journal import JournalRecord

SHOWN_MAX = 3
_LATER = (names.DELAY, names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS, names.TRAN_MSG)


class Sent(NamedTuple):
    """One request to store a message."""

    topic: str
    message_id: str
    keys: str
    client: str
    real_ms: int
    request: JournalRecord
    """One request may be about several messages."""


def unsent(evidence: Evidence, calm: Evidence) -> list[Broken]:
    """Return a broken promise for each topic in which messages are missing."""
    if evidence.exit_code != 0 or calm.exit_code != 0 or evidence.gaps or evidence.was_stopped:
        return []
    found = []
    sent = list(sends_in(evidence.requests))
    for topic in sorted({one.topic for one in sent}):
        if topic in evidence.stored.unread or topic in calm.stored.unread:
            continue
        stored = {message.message_id for message in evidence.stored.topics.get(topic, ())}
        keys = {message.get(names.KEYS) for message in evidence.stored.topics.get(topic, ())}
        before = {message.message_id for message in calm.stored.topics.get(topic, ())}
        missing: dict[str, list[Sent]] = {}
        for one in sent:
            if one.topic == topic and one.message_id not in stored and not (one.keys and one.keys in keys):
                missing.setdefault(one.message_id, []).append(one)
        if missing and len(stored) < len(before):
            found.append(_lost(topic, missing, len(stored), len(before)))
    return found


def _lost(topic: str, missing: dict[str, list[Sent]], stored: int, before: int) -> Broken:
    lines = [
        f"{f'key {attempts[0].keys}, ' if attempts[0].keys else ''}id {message_id}: sent {len(attempts)} time(s) by "
        f"{attempts[0].client}, never stored"
        for message_id, attempts in list(missing.items())[:SHOWN_MAX]
    ]
    words = (
        f"the program ended with exit code 0, but {len(missing)} message(s) that it sent to {topic} were never stored "
        f"({stored:,} are there, {before:,} in calm weather): it took a failed send for a successful one"
    )
    return Broken("sends", topic, words, tuple(lines), tuple(missing))


def sends_in(requests: Sequence[JournalRecord]) -> Iterator[Sent]:
    """Yield each request for a single, immediate message of a program's topic that waits for its result."""
    for one in requests:
        if one.code not in SENDS or one.details.get("oneway"):
            continue
        parts = one.details.get("body") if one.code == "SEND_MANY" else [one.fields]
        for part in parts if isinstance(parts, list) else ():
            topic = str(part.get("topic") or "")
            given = parse_properties(str(part.get("properties") or "").encode())
            message_id = given.get(names.UNIQ_KEY)
            if message_id and is_plain(topic) and not any(name in given for name in _LATER) and not part.get("batch"):
                yield Sent(topic, message_id, given.get(names.KEYS, ""), one.client, one.real_ms, one)
