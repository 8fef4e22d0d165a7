"""Which messages of a topic are wanted, as brokers accept it in pulls: by tag, or by a condition over properties. Pure.

Errors are found before any request: an Apache RocketMQ ignores an invalid condition of a pull and returns every
message.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.sql92.filters import compile_filter
from staticfire.protocol.tags import ALL_TAGS, TagExpression

TAG, SQL92 = "TAG", "SQL92"
ExpressionType = Literal["TAG", "SQL92"]

_OF_CONDITIONS = frozenset("=<>()'")
_WORDS_OF_CONDITIONS = frozenset(("IS", "IN", "NOT", "AND", "OR", "BETWEEN", "CONTAINS", "STARTSWITH", "ENDSWITH"))


@dataclass(frozen=True)
class SourceExpression:
    """An expression and its type, under RocketMQ's names for them."""

    text: str = ALL_TAGS
    kind: ExpressionType = "TAG"

    @cached_property
    def tags(self) -> TagExpression | None:
        """The tags, or None for a condition. A broker compares only hash codes of tags, but evaluates conditions."""
        return TagExpression.parse(self.text) if self.kind == TAG else None

    @property
    def wants_all(self) -> bool:
        """Whether no message is filtered out, so that offsets show how many messages there are."""
        return self.tags is not None and self.tags.all_tags


EVERYTHING = SourceExpression()


def parse_expression(option: str, text: str, kind: str = "") -> SourceExpression:
    """Parse an expression. Without a type, it is a condition if it looks like one, else tags.

    Raises: UsageError, one line that names the option.
    """
    if not text:
        return EVERYTHING
    is_given = bool(kind)
    chosen: ExpressionType = "SQL92" if kind == SQL92 or (not is_given and _looks_like_a_condition(text)) else "TAG"
    try:
        if chosen == SQL92:
            compile_filter(text)
        else:
            TagExpression.parse(text)
    except ClientError as error:
        words = " ".join(str(error).split())
        hint = "" if is_given or chosen == TAG else "; it was read as SQL92; if it is a tag, set expressionType=TAG"
        raise UsageError(f"{option}={text}: {words}{hint}") from None
    return SourceExpression(text, chosen)


def _looks_like_a_condition(text: str) -> bool:
    words = text.upper().split()
    return not _OF_CONDITIONS.isdisjoint(text) or (len(words) > 1 and not _WORDS_OF_CONDITIONS.isdisjoint(words))
