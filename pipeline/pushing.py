"""Filters of a query that brokers can apply, so that other messages aren't transferred.

Spark applies all filters again, so a pushed filter may let too many messages through, but never too few. Filters on
tags alone become a tag expression, which costs a broker nothing; with filters on keys, they become a condition. Filters
on a row's position (topic, broker, queue, offset) exclude ranges before they are read.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from staticfire.pipeline.expressions import SourceExpression
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.protocol.properties import KEYS, TAGS
from staticfire.protocol.sql92.faults import FilterExpressionError
from staticfire.protocol.sql92.filters import compile_filter

_PROPERTIES = {"tags": TAGS, "keys": KEYS}
_PLACES: Mapping[str, Callable[[QueueRange], Any]] = {
    "topic": lambda part: part.queue.topic,
    "brokerName": lambda part: part.queue.broker_name,
    "queueId": lambda part: part.queue.queue_id,
}
_TEXT_PARTS = {StringContains: "CONTAINS", StringStartsWith: "STARTSWITH", StringEndsWith: "ENDSWITH"}


@dataclass(frozen=True)
class Pushed:
    """What a query's filters mean for reading. Made where the query is planned; the options carry the expression."""

    places: Mapping[str, frozenset[Any]] = field(default_factory=dict)
    """The wanted values, by column."""
    first: int = 0
    end: int | None = None
    """The range of wanted offsets, the same for each queue."""
    expression: SourceExpression | None = None

    def narrow(self, ranges: list[QueueRange]) -> list[QueueRange]:
        """Return the parts of the ranges that the filters keep."""
        last = max((part.end for part in ranges), default=0) if self.end is None else self.end
        cut = [
            QueueRange(part.queue, max(part.start, self.first), min(part.end, last))
            for part in ranges
            if all(_PLACES[name](part) in self.places[name] for name in self.places)
        ]
        return [part for part in cut if part.size > 0]

    def options(self, options: SourceOptions) -> SourceOptions:
        """Return the options with the expression added, if the query has none of its own."""
        if self.expression is None or not options.expression.wants_all:
            return options
        return replace(options, expression=self.expression)


def push(filters: Iterable[Filter]) -> Pushed:
    """Translate filters, all of which must be true."""
    places: dict[str, frozenset[Any]] = {}
    first, end = 0, None
    given = [each for each in filters if len(_attribute(each)) == 1]
    for each in given:
        name = _attribute(each)[0]
        values = _values(each)
        if name in _PLACES and values is not None:
            places[name] = places.get(name, values) & values
        elif name == "queueOffset":
            low, high = _offsets(each)
            first = max(first, low)
            end = high if end is None else end if high is None else min(end, high)
    return Pushed(places, first, end, _expression([each for each in given if _attribute(each)[0] in _PROPERTIES]))


def _attribute(given: Filter) -> tuple[str, ...]:
    return _attribute(given.child) if isinstance(given, Not) else tuple(getattr(given, "attribute", ()))


def _values(given: Filter) -> frozenset[Any] | None:
    """Return the values that a filter allows, or None if it isn't a list of values. Only null equals null."""
    if isinstance(given, EqualTo | EqualNullSafe):
        return frozenset((given.value,))
    return frozenset(given.value) - {None} if isinstance(given, In) else None


def _offsets(given: Filter) -> tuple[int, int | None]:
    """Return the first wanted offset and the end, which is excluded."""
    values = sorted(value for value in _values(given) or () if isinstance(value, int))
    if values:
        return values[0], values[-1] + 1
    if isinstance(given, GreaterThan | GreaterThanOrEqual):
        return given.value + isinstance(given, GreaterThan), None
    if isinstance(given, LessThan | LessThanOrEqual):
        return 0, given.value + isinstance(given, LessThanOrEqual)
    return 0, None


def _expression(filters: list[Filter]) -> SourceExpression | None:
    """Return an expression that keeps at least what the filters keep, or None if it would keep everything."""
    values = [_values(each) for each in filters if _attribute(each)[0] == "tags"]
    said = [each for each in values if each is not None]
    compared = {_attribute(each)[0] for each in filters if not isinstance(each, IsNotNull) and _term(each)}
    if said and compared == {"tags"}:
        tags = frozenset.intersection(*said)
        if all(_is_plain_tag(tag) for tag in tags) and tags:
            return SourceExpression(" || ".join(sorted(tags)), "TAG")
    terms = [
        term
        for each in filters
        if (term := _term(each)) and not (isinstance(each, IsNotNull) and _attribute(each)[0] in compared)
    ]
    text = " AND ".join(terms)
    try:
        if terms:
            compile_filter(text)
            return SourceExpression(text, "SQL92")
    except FilterExpressionError:
        pass  # It is too long, so only Spark filters.
    return None


def _is_plain_tag(tag: Any) -> bool:
    return isinstance(tag, str) and tag.isascii() and tag.replace("-", "").replace("_", "").isalnum()


def _term(given: Filter) -> str:
    """Return a filter on tags or keys as a condition, or "" if that isn't possible."""
    name = _PROPERTIES[_attribute(given)[0]]
    if isinstance(given, IsNotNull):
        return f"{name} IS NOT NULL"
    values = _values(given)
    if values is not None and values and all(map(_is_text, values)):
        return f"{name} IN ({', '.join(sorted(map(_literal, values)))})"
    if isinstance(given, Not) and isinstance(given.child, EqualTo) and _is_text(given.child.value):
        return f"{name} <> {_literal(given.child.value)}"
    word = _TEXT_PARTS.get(type(given))
    value = getattr(given, "value", None)
    return f"{name} {word} {_literal(value)}" if word is not None and _is_text(value) else ""


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value) and value.isprintable()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
