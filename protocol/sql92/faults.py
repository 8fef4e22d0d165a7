"""The errors of invalid conditions, with RocketMQ's texts. RocketMQ: MQFilterException, and what it wraps.

A broker responds with the name of a Java class and its message. RocketMQ's clients show both to the user.
"""

from collections.abc import Sequence

from staticfire.protocol.errors import ClientError

PARSER = "org.apache.rocketmq.filter.parser"
_ESCAPES = {
    "\0": "", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\",
}  # fmt: skip


class FilterExpressionError(ClientError):
    """A condition that can't be parsed, or whose parts don't fit together."""

    def __init__(self, words: str, java_class: str = "") -> None:
        super().__init__(words)
        self.remark = f"{java_class}: {words}" if java_class else words
        """The text in a broker's response."""


def runtime_fault(words: str) -> FilterExpressionError:
    """Return the error for parts that don't fit together."""
    return FilterExpressionError(words, "java.lang.RuntimeException")


def number_fault(words: str) -> FilterExpressionError:
    """Return the error for a number that Java can't represent."""
    return FilterExpressionError(words, "java.lang.NumberFormatException")


def parse_fault(words: str) -> FilterExpressionError:
    """Return the error for something at a place where it isn't allowed."""
    return FilterExpressionError(words, f"{PARSER}.ParseException")


def unexpected(kind: str, image: str, place: tuple[int, int], expected: Sequence[str]) -> FilterExpressionError:
    """Return the error for a token that isn't allowed at that line and column; `expected`: the allowed kinds."""
    met = kind if not image else f' {kind} "{escaped(image)} "'
    heading = "Was expecting:" if len(expected) == 1 else "Was expecting one of:"
    listed = "".join(f"    {one} ...\n" for one in expected)
    words = f'Encountered "{met}" at line {place[0]}, column {place[1]}.\n{heading}\n{listed}    '
    return parse_fault(words)


def lexical_fault(met: str, after: str, place: tuple[int, int]) -> FilterExpressionError:
    """Return the error for a character that can't begin or continue a token; `met` is empty at the end of the text."""
    what = f'"{escaped(met)}" ({ord(met)}), ' if met else "<EOF> "
    words = f'Lexical error at line {place[0]}, column {place[1]}.  Encountered: {what}after : "{escaped(after)}"'
    return FilterExpressionError(words, f"{PARSER}.TokenMgrError")


def escaped(text: str) -> str:
    """Return UTF-16 units as JavaCC shows them: in plain ASCII."""
    return "".join(
        _ESCAPES[unit] if unit in _ESCAPES else unit if " " <= unit <= "~" else f"\\u{ord(unit):04x}" for unit in text
    )
