"""A finding: something that may keep a group from consuming. And the application of rules. Pure."""

from collections.abc import Callable, Iterable, Sequence

import msgspec

from staticfire.client.explain.facts import GroupFacts
from staticfire.protocol.durations import format_duration

NAMED_MAX = 5
EVIDENCE_MAX = 8


class ExplainFinding(msgspec.Struct, frozen=True, rename="camel"):
    """Something that keeps messages from being consumed, or that a user should know."""

    kind: str
    words: str
    """Its description, with names and numbers."""
    evidence: list[str] = []
    way_out: str = ""
    """What to do; a command, if there is one."""
    is_cause: bool = True
    """False: a note, which doesn't keep messages from being consumed."""


Rule = Callable[[GroupFacts], Iterable[ExplainFinding]]


def look_through(facts: GroupFacts, rules: Sequence[Rule]) -> list[ExplainFinding]:
    """Return the findings of the rules: causes first, otherwise in the order of the rules."""
    found = [finding for rule in rules for finding in rule(facts)]
    return [one for one in found if one.is_cause] + [one for one in found if not one.is_cause]


def named(names: Sequence[str], most: int = NAMED_MAX) -> str:
    """Return some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def some(lines: Iterable[str]) -> list[str]:
    """Return lines of evidence, up to a maximum."""
    found = list(lines)
    more = len(found) - EVIDENCE_MAX
    return [*found[:EVIDENCE_MAX], f"and {more} more"] if more > 0 else found


def count(number: int, what: str) -> str:
    """Return `1 message`, `2 messages`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def next_try(number: int) -> str:
    """Return what follows `1 message` or `2 messages` that a listener gave back."""
    return "failed and waits for its next try" if number == 1 else "failed and wait for their next try"


def ago(ms: int) -> str:
    """Return how long ago something was."""
    return f"{format_duration(max(0, ms) // 1_000 * 1_000)} ago" if ms >= 1_000 else "just now"
