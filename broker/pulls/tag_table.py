"""A cache of tag expressions, each parsed once."""

from collections.abc import Callable

from staticfire.protocol.tags import TagExpression

EXPRESSIONS_MAX = 10_000
# Longer expressions are not cached: a header may contain a megabyte of them.
EXPRESSION_CHARACTERS_MAX = 1_024


class TagTable:
    """The expressions that were received with requests."""

    def __init__(self) -> None:
        self._expressions: dict[str, TagExpression] = {}

    def test_of(self, text: str) -> Callable[[int], bool] | None:
        """Return a test of the tags code of a message; None if all messages are wanted. Raises: TagExpressionError."""
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
