"""Evaluate conditions: functions that are made once per condition and called for each message.

A message is passed as its property string between two 02 bytes, so that each property begins and ends with one. A value
is bytes (a text in UTF-8), int, float, bool, or None for SQL's NULL. Only compared values are decoded.

The search for a property is repeated inline in each of the frequent tests, because a call takes longer than the search.

The functions made here raise NotANumber or Incomparable. Such a message doesn't match.
"""

import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias

from staticfire.protocol.properties import find_property
from staticfire.protocol.sql92.java_values import SURE_DIGITS, compare_doubles

Value: TypeAlias = bytes | int | float | None
Evaluate: TypeAlias = Callable[[bytes], Value]
Convert: TypeAlias = Callable[[bytes], Value]

UNROLLED_MAX = 3
_END = 0x02
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_TEXT_TESTS: dict[str, Callable[[bytes, bytes], bool]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": lambda text, wanted: text.startswith(wanted),
    "ENDSWITH": lambda text, wanted: text.endswith(wanted),
}


class Incomparable(ValueError):
    """Values of classes that Java can't compare."""


def constant(value: Value) -> Evaluate:
    """Return a function that returns the same value for each message."""
    return lambda properties: value


def property_value(name: bytes) -> Callable[[bytes], bytes | None]:
    """Return a function that returns a property's last value; None if it is missing or empty."""
    needle, needle_bytes = _needle(name)

    def find(properties: bytes) -> bytes | None:
        at = properties.rfind(needle)
        if at < 0:
            return None
        start = at + needle_bytes
        end = properties.find(b"\x02", start)
        return properties[start:end] if end > start else find_property(properties, name)

    return find


def _needle(name: bytes) -> tuple[bytes, int]:
    needle = b"\x02%b\x01" % name
    return needle, len(needle)


def is_missing(operand: Evaluate) -> Evaluate:
    """Make IS NULL."""
    return lambda properties: operand(properties) is None


def never_true(operand: Evaluate) -> Evaluate:
    """Make a text that is used as a boolean: it is never true."""
    return lambda properties: None if operand(properties) is None else False


def negation(operand: Evaluate) -> Evaluate:
    """Make NOT."""

    def evaluate(properties: bytes) -> Value:
        value = operand(properties)
        return None if value is None else not value

    return evaluate


def nothing_of(operand: Evaluate) -> Evaluate:
    """Make the minus of a value that isn't a number: NULL."""

    def evaluate(properties: bytes) -> Value:
        operand(properties)
        return None

    return evaluate


def all_of(operands: Sequence[Evaluate]) -> Evaluate:
    """Make AND. The first false operand decides; otherwise an unknown one makes the result unknown."""
    if len(operands) <= UNROLLED_MAX:
        return _all_of_few(*operands)

    def evaluate(properties: bytes) -> Value:
        known = True
        for operand in operands:
            value = operand(properties)
            if value is False:
                return False
            if value is None:
                known = False
        return True if known else None

    return evaluate


def _all_of_few(first: Evaluate, second: Evaluate, third: Evaluate | None = None) -> Evaluate:
    """Make AND for two or three operands, which are the most common. Without a loop, it takes half the time."""

    def both(properties: bytes) -> Value:
        one = first(properties)
        if one is False:
            return False
        other = second(properties)
        return False if other is False else True if one and other else None

    if third is None:
        return both

    def three(properties: bytes) -> Value:
        one = first(properties)
        if one is False:
            return False
        other = second(properties)
        if other is False:
            return False
        last = third(properties)
        return False if last is False else True if one and other and last else None

    return three


def any_of(operands: Sequence[Evaluate]) -> Evaluate:
    """Make OR. The first true operand decides; otherwise an unknown one makes the result unknown."""

    def evaluate(properties: bytes) -> Value:
        known = True
        for operand in operands:
            value = operand(properties)
            if value is True:
                return True
            if value is None:
                known = False
        return False if known else None

    return evaluate


def is_among(name: bytes, texts: frozenset[bytes], negated: bool) -> Evaluate:
    """Make `property IN ('text', 'text')`."""
    needle, needle_bytes = _needle(name)

    def evaluate(properties: bytes) -> Value:
        at = properties.rfind(needle)
        if at < 0:
            return None
        start = at + needle_bytes
        end = properties.find(b"\x02", start)
        value = properties[start:end] if end > start else find_property(properties, name)
        return None if value is None else (value in texts) is not negated

    return evaluate


def text_test(word: str, operand: Evaluate, wanted: bytes, negated: bool) -> Evaluate:
    """Make CONTAINS, STARTSWITH, ENDSWITH. If the value is missing or isn't text, their negations are false, too."""
    test = _TEXT_TESTS[word]

    def evaluate(properties: bytes) -> Value:
        value = operand(properties)
        return isinstance(value, bytes) and test(value, wanted) is not negated

    return evaluate


# -- comparisons -------------------------------------------------------------------------------------------------------


def same_text(name: bytes, text: bytes) -> Evaluate:
    """Make `property = 'text'`."""
    needle, needle_bytes = _needle(name)
    wanted = text + b"\x02"

    def evaluate(properties: bytes) -> Value:
        at = properties.rfind(needle)
        if at < 0:
            return None
        start = at + needle_bytes
        if properties[start] != _END:
            return properties.startswith(wanted, start)
        # The last value of that name is empty.
        value = find_property(properties, name)
        return None if value is None else value == text

    return evaluate


def same(left: Evaluate, right: Evaluate, convert_left: Convert | None, convert_right: Convert | None) -> Evaluate:
    """Make `=` for any operands. NULL only on the left makes it unknown; NULL only on the right makes it false."""

    def evaluate(properties: bytes) -> Value:
        first, second = left(properties), right(properties)
        if first is None:
            return True if second is None else None
        if second is None:
            return False
        if convert_left is not None:
            first = convert_left(first)  # type: ignore[arg-type]  # it is made for that operand
        if convert_right is not None:
            second = convert_right(second)  # type: ignore[arg-type]
        return first == second

    return evaluate


def number_of_property(symbol: str, name: bytes, convert: Callable[[bytes], float], number: int | float) -> Evaluate:
    """Make a comparison of a property with a number, the usual comparison. A float number must not be zero."""
    compare, above = _COMPARE[symbol], _COMPARE[symbol](1, 0)
    needle, needle_bytes = _needle(name)
    sure_bytes = 0 if isinstance(number, float) else SURE_DIGITS

    def evaluate(properties: bytes) -> Value:
        at = properties.rfind(needle)
        if at < 0:
            return None
        start = at + needle_bytes
        end = properties.find(b"\x02", start)
        text = properties[start:end] if end > start else find_property(properties, name)
        if text is None:
            return None
        if len(text) <= sure_bytes and text.isdigit():
            return compare(int(text), number)
        value = convert(text)
        # In Java, NaN is greater than every other number.
        return compare(value, number) if value == value else above

    return evaluate


def order(
    symbol: str, left: Evaluate, right: Evaluate, convert_left: Convert | None, convert_right: Convert | None
) -> Evaluate:
    """Make a comparison of any operands. NULL on either side makes it unknown."""
    compare = _COMPARE[symbol]

    def evaluate(properties: bytes) -> Value:
        first = left(properties)
        if first is None:
            return None
        second = right(properties)
        if second is None:
            return None
        if convert_left is not None:
            first = convert_left(first)  # type: ignore[arg-type]  # it is made for that operand
        if convert_right is not None:
            second = convert_right(second)  # type: ignore[arg-type]
        if isinstance(first, float) and isinstance(second, float):
            return compare(compare_doubles(first, second), 0)
        return compare(first, second)  # type: ignore[arg-type]  # two numbers of one class

    return evaluate


def never_equal(left: Evaluate, right: Evaluate) -> Evaluate:
    """Make `=` for values of classes that are never equal."""
    return same(left, right, lambda _: 0, lambda _: 1)


def refused(_: bytes) -> Value:
    """Refuse to convert a boolean to text. Raises: Incomparable, where Java throws ClassCastException."""
    raise Incomparable("java.lang.Boolean cannot be cast to java.lang.String")
