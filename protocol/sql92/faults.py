"""Why a condition isn't one, in RocketMQ's words. RocketMQ: MQFilterException, and what it wraps.

A broker answers the name of a Java class and what it says; RocketMQ's clients show both to a person.
"""

from collections.abc import Sequence

from staticfire.protocol.errors import ClientError

PARSER = "org.apache.rocketmq.filter.parser"
_ESCAPES = {
    "\0": "", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "'": "\\'", "\\": "\\\\",
}  # fmt: skip


class FilterExpressionError(ClientError):
    """A condition that doesn't parse, or whose parts don't fit together."""

    def __init__(self, words: str, java_class: str = "") -> None:
        super().__init__(words)
        self.remark = f"{java_class}: {words}" if java_class else words
        """As a broker says it."""


def runtime_fault(words: str) -> FilterExpressionError:
    """Parts that don't fit together."""
    return FilterExpressionError(words, "java.lang.RuntimeException")


def number_fault(words: str) -> FilterExpressionError:
    """A number that Java has none of."""
    return FilterExpressionError(words, "java.lang.NumberFormatException")


def parse_fault(words: str) -> FilterExpressionError:
    """Something that can't stand there."""
    return FilterExpressionError(words, f"{PARSER}.ParseException")


def unexpected(kind: str, image: str, place: tuple[int, int], expected: Sequence[str]) -> FilterExpressionError:
    """A token that can't stand at that line and column; `expected`: the kinds that could."""
    met = kind if not image else f' {kind} "{escaped(image)} "'
    heading = "Was expecting:" if len(expected) == 1 else "Was expecting one of:"
    listed = "".join(f"    {one} ...\n" for one in expected)
    words = f'Encountered "{met}" at line {place[0]}, column {place[1]}.\n{heading}\n{listed}    '
    return parse_fault(words)


def lexical_fault(met: str, after: str, place: tuple[int, int]) -> FilterExpressionError:
    """A character that begins no token, or goes on with none; `met` is empty at the text's end."""
    what = f'"{escaped(met)}" ({ord(met)}), ' if met else "<EOF> "
    words = f'Lexical error at line {place[0]}, column {place[1]}.  Encountered: {what}after : "{escaped(after)}"'
    return FilterExpressionError(words, f"{PARSER}.TokenMgrError")


def escaped(text: str) -> str:
    """Return UTF-16 units as JavaCC shows them: plain ASCII."""
    return "".join(
        _ESCAPES[unit] if unit in _ESCAPES else unit if " " <= unit <= "~" else f"\\u{ord(unit):04x}" for unit in text
    )
