"""`--each 'orders -> invoices by key'`: what each message of one topic brings forth in another. Pure.

    A -> B by key                      each key of A is in exactly one message of B
    A -> B by property NAME            the same for a property
    A -> B by body:json.path           the same for a value in the JSON body
    A -> B by key, at least one        more than one is no problem
    A -> B by key, in order            and those of A's messages that share a queue have B's in the same order

Copies with the same unique id are one message: the producer's own retry.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from staticfire.chaos.broken import Broken
from staticfire.chaos.doubles import proven_doubles
from staticfire.chaos.evidence import BURIED, OPEN, Evidence, fate
from staticfire.chaos.usage import is_plain
from staticfire.protocol import properties as names
from staticfire.protocol.errors import UsageError
from staticfire.protocol.messages import ReceivedMessage

FORM = (
    "'orders -> invoices by key', or `by property NAME`, or `by body:json.path`; then perhaps `, at least one` or "
    "`, in order`"
)
SHOWN_MAX = 3
_PARTS = re.compile(r"\s*(\S+)\s*->\s*(\S+)\s+by\s+(key|property\s+\S+|body:[^\s,]+)\s*((?:,\s*[a-z ]+)*)\s*")


@dataclass(frozen=True)
class Each:
    """A condition of two topics."""

    source: str
    target: str
    by: str
    """`key`, `property NAME` or `body:path`."""
    at_least: bool = False
    in_order: bool = False

    def __str__(self) -> str:
        more = [", at least one"] * self.at_least + [", in order"] * self.in_order
        return f"{self.source} -> {self.target} by {self.by}{''.join(more)}"

    def value(self, message: ReceivedMessage) -> str | None:
        """Return the value by which messages belong together; None if the message has none."""
        if self.by == "key":
            return message.get(names.KEYS)
        if self.by.startswith("property "):
            return message.get(self.by.removeprefix("property "))
        return _at_path(message.body, self.by.removeprefix("body:"))


def parse_each(text: str) -> Each:
    """Return the condition in a text. Raises: UsageError."""
    found = _PARTS.fullmatch(text)
    if found is None:
        raise UsageError(f"--each {text!r} isn't understood; write {FORM}")
    source, target, by, more = found.groups()
    options = {" ".join(one.split()) for one in more.split(",") if one.strip()}
    if unknown := options - {"exactly one", "at least one", "in order"}:
        raise UsageError(f"--each {text!r}: {sorted(unknown)[0]!r} isn't understood; write {FORM}")
    if {"exactly one", "at least one"} <= options:
        raise UsageError(f"--each {text!r}: choose one of `exactly one` and `at least one`")
    return Each(source, target, " ".join(by.split()), "at least one" in options, "in order" in options)


def no_match(each: Each, evidence: Evidence) -> str | None:
    """Return why a condition matches nothing in a run; None if it matches something."""
    for topic in (each.source, each.target):
        messages = evidence.stored.topics.get(topic, [])
        if not messages:
            there = ", ".join(
                sorted(topic for topic, ones in evidence.stored.topics.items() if ones and is_plain(topic))
            )
            return f"nothing was stored in {topic} (topics with messages: {there or 'none'})"
        if not any(each.value(message) for message in messages):
            return f"no message of {topic} has a {each.by}"
    return None


def check_each(each: Each, evidence: Evidence) -> list[Broken]:
    """Return the broken promises of one condition."""
    if each.source in evidence.stored.unread or each.target in evidence.stored.unread:
        return []
    sources, targets = _by_value(each, evidence, each.source), _by_value(each, evidence, each.target)
    found = []
    if not each.at_least:
        doubles = {value: copies for value, copies in targets.items() if value in sources and len(copies) > 1}
        doubles = proven_doubles(evidence, each.source, sources, doubles)
        if doubles:
            found.append(_doubled(each, doubles, evidence))
    missing = {
        value: copies for value, copies in sources.items() if value not in targets and _is_lost(each, evidence, copies)
    }
    if missing:
        found.append(_missing(each, missing, evidence))
    if each.in_order and (swapped := _out_of_order(each, sources, targets)) is not None:
        found.append(swapped)
    return found


def undecided(each: Each, evidence: Evidence) -> int:
    """Return how many messages have no counterpart yet, and may get one later."""
    sources, targets = _by_value(each, evidence, each.source), _by_value(each, evidence, each.target)
    return sum(value not in targets and not _is_lost(each, evidence, copies) for value, copies in sources.items())


def _by_value(each: Each, evidence: Evidence, topic: str) -> dict[str, list[ReceivedMessage]]:
    """Return the messages of a topic by value, one for each unique id, in the order in which they were stored."""
    found: dict[str, list[ReceivedMessage]] = {}
    seen: set[str] = set()
    for message in evidence.stored.topics.get(topic, ()):
        value = each.value(message)
        if value is not None and message.message_id not in seen:
            seen.add(message.message_id)
            found.setdefault(value, []).append(message)
    return found


def _is_lost(each: Each, evidence: Evidence, copies: Sequence[ReceivedMessage]) -> bool:
    """Return whether every group that consumes the topic has finished these messages, as its commits show.

    A program that was stopped may have had the counterpart still to send.
    """
    if evidence.was_stopped:
        return False
    groups = evidence.groups_of(each.source)
    fates = [fate(evidence, group, message, each.source) for group in groups for message in copies]
    return bool(fates) and not any(one in (OPEN, BURIED) for one in fates)


def _doubled(each: Each, doubles: dict[str, list[ReceivedMessage]], evidence: Evidence) -> Broken:
    lines = [
        f"{value}: {len(copies)} messages, ids {', '.join(copy.message_id for copy in copies)}"
        for value, copies in list(doubles.items())[:SHOWN_MAX]
    ]
    sources = _by_value(each, evidence, each.source)
    ids = [one.message_id for value, copies in doubles.items() for one in (*sources[value], *copies)]
    words = (
        f"{len(doubles)} value(s) of {each.source} have more than one message in {each.target}: the work was done twice"
    )
    return Broken("each", str(each), words, tuple(lines), tuple(ids))


def _missing(each: Each, missing: dict[str, list[ReceivedMessage]], evidence: Evidence) -> Broken:
    groups = ", ".join(evidence.groups_of(each.source))
    lines = [f"{value}: id {copies[0].message_id}" for value, copies in list(missing.items())[:SHOWN_MAX]]
    words = (
        f"{len(missing)} value(s) of {each.source} have no message in {each.target}, although {groups} committed or "
        "acknowledged them: the work was lost"
    )
    return Broken("each", str(each), words, tuple(lines), tuple(copies[0].message_id for copies in missing.values()))


def _out_of_order(
    each: Each, sources: dict[str, list[ReceivedMessage]], targets: dict[str, list[ReceivedMessage]]
) -> Broken | None:
    """Find two messages of one queue of A whose first counterparts are in one queue of B in the opposite order."""
    placed: dict[tuple[str, int, str, int], list[tuple[int, int, str]]] = {}
    for value, copies in sources.items():
        if value in targets:
            source, target = copies[0], targets[value][0]
            queues = (source.broker_name, source.queue_id, target.broker_name, target.queue_id)
            placed.setdefault(queues, []).append((target.queue_offset, source.queue_offset, value))
    for pairs in placed.values():
        pairs.sort()
        for (_, first, one), (_, second, other) in pairwise(pairs):
            if second < first:
                ids = (sources[one][0].message_id, sources[other][0].message_id)
                words = f"{each.target} has {one} before {other}; one queue of {each.source} has {other} first"
                return Broken("each", str(each), words, (), ids)
    return None


def _at_path(body: bytes, path: str) -> str | None:
    """Return a value in a JSON body; None if there is none."""
    try:
        found = json.loads(body)
        for name in path.split("."):
            found = found[int(name)] if isinstance(found, list) else found[name]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return None if found is None or isinstance(found, dict | list) else str(found)
