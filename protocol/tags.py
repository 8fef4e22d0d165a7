"""Tags, their hash codes, and tag subscriptions. RocketMQ: FilterAPI, ExpressionMessageFilter.

A broker filters only by hash code, because a consume queue stores nothing else. So it may send too many messages, but
never too few. The consumer compares the text.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import TypeVar

import msgspec

from staticfire.protocol.errors import ClientError
from staticfire.protocol.properties import TAGS, find_property

ALL_TAGS = "*"
NO_TAG_CODE = 0
T = TypeVar("T", str, bytes)

_HASHES_KEPT_MAX = 4096
# The hash of a longer tag is not cached: a header may contain a megabyte.
KEPT_CHARACTERS_MAX = 1_024
# The characters of all expressions in a table, which then takes up to 30 MB. Each expression counts for some more.
EXPRESSIONS_CHARACTERS_MAX, CHARACTERS_ADDED = 1 << 20, 100
# The characters that String.trim() removes: U+0020 and everything below.
_JAVA_BLANKS = "".join(map(chr, range(0x21)))


class TagExpressionError(ClientError):
    """A subscription that contains only bars."""


def _kept_if_short(function: Callable[[T], int]) -> Callable[[T], int]:
    kept = lru_cache(maxsize=_HASHES_KEPT_MAX)(function)

    @wraps(function)
    def hash_of(text: T) -> int:
        return kept(text) if len(text) <= KEPT_CHARACTERS_MAX else function(text)

    return hash_of


@_kept_if_short
def java_hash(text: str) -> int:
    """Return Java's `String.hashCode()`: over UTF-16 units, as a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & 0xFFFFFFFF
    return code - 0x1_0000_0000 if code & 0x8000_0000 else code


def tags_code(properties: bytes) -> int:
    """Return the code for a record's consume queue entry; 0 without a tag."""
    tag = find_property(properties, TAGS)
    return code_of_tag(tag) if tag else NO_TAG_CODE


@_kept_if_short
def code_of_tag(tag: bytes) -> int:
    """Return the code of a non-empty tag."""
    return java_hash(tag.decode("utf-8", "replace"))


class TagExpression(msgspec.Struct, frozen=True):
    """The tags that a consumer subscribes to. `A || B` is two tags, `A|B` is one."""

    text: str
    tags: frozenset[str]
    codes: frozenset[int]

    @classmethod
    def parse(cls, text: str | None) -> "TagExpression":
        """Parse a subscription: None, an empty text and `*` mean all tags; a blank text means none.

        Raises: TagExpressionError (only bars).
        """
        if not text or text == ALL_TAGS:
            return EVERY_TAG
        parts = text.split("||")
        if not any(parts):
            raise TagExpressionError(f"{text!r} contains no tag: write `paid || refunded`, or `*` for all")
        return cls.of_tags(text, filter(None, (part.strip(_JAVA_BLANKS) for part in parts)))

    @classmethod
    def of_tags(cls, text: str, tags: Iterable[str]) -> "TagExpression":
        """Return the subscription to these tags, with `text` as its text."""
        wanted = frozenset(tags)
        return cls(text, wanted, frozenset(map(java_hash, wanted)))

    @property
    def all_tags(self) -> bool:
        """Whether all messages match, with any tag or without one."""
        return self.text == ALL_TAGS

    def matches_code(self, code: int) -> bool:
        """Return whether a broker sends a message with this code in its consume queue entry."""
        return code in self.codes or self.text == ALL_TAGS

    def matches(self, tag: str | None) -> bool:
        """Return whether a consumer keeps a message with this tag."""
        return tag in self.tags or self.text == ALL_TAGS


EVERY_TAG = TagExpression(ALL_TAGS, frozenset(), frozenset())


class TagTable:
    """The expressions that were received with requests."""

    def __init__(self) -> None:
        self._expressions: dict[str, TagExpression] = {}
        self._characters = 0

    def test_of(self, text: str) -> Callable[[int], bool] | None:
        """Return a test of the tags code of a message; None if all messages are wanted. Raises: TagExpressionError."""
        if text == "*":
            return None
        expression = self._expressions.get(text)
        if expression is None:
            expression = TagExpression.parse(text)
            self._keep(text, expression)
        return None if expression.all_tags else expression.matches_code

    def _keep(self, text: str, expression: TagExpression) -> None:
        characters = len(text) + CHARACTERS_ADDED
        if characters > EXPRESSIONS_CHARACTERS_MAX:
            return
        self._characters += characters
        if self._characters > EXPRESSIONS_CHARACTERS_MAX:
            self._expressions.clear()
            self._characters = characters
        self._expressions[text] = expression
