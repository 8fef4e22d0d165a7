"""Expressions of tags, each parsed once."""

from collections.abc import Callable

from staticfire.protocol.tags import TagExpression

EXPRESSIONS_MAX = 10_000
EXPRESSION_CHARACTERS_MAX = 1_024
# So many are kept, if they aren't longer: a header may have a megabyte of them.


class TagTable:
    """The expressions that came with requests."""

    def __init__(self) -> None:
        self._expressions: dict[str, TagExpression] = {}

    def test_of(self, text: str) -> Callable[[int], bool] | None:
        """Return whether a message with that tags code is wanted; None: all are. Raises: TagExpressionError."""
        if text == "*":
            return None
        expression = self._expressions.get(text)
        if expression is None:
            expression = TagExpression.parse(text)
            if len(self._expressions) >= EXPRESSIONS_MAX:
                self._expressions.clear()
            if len(text) <= EXPRESSION_CHARACTERS_MAX:
                self._expressions[text] = expression
        return None if expression.all_tags else expression.matches_code
