"""How conditions are evaluated: functions made once, called for each message.

A message is its property string between two 02, so that each property begins and ends with one. A value is bytes (a
text in UTF-8), int, float, bool, or None where SQL says NULL. Nothing is decoded but what is compared.

How a property is found is written out in each of the frequent tests: a call takes longer than finding it.

Raises, from what is made here: NotANumber, Incomparable. Such a message isn't wanted.
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
    """Values of classes that Java doesn't compare."""


def constant(value: Value) -> Evaluate:
    """The same for each message."""
    return lambda properties: value


def property_value(name: bytes) -> Callable[[bytes], bytes | None]:
    """A property's value, None when it is missing or empty; of a repeated name the last."""
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
    """IS NULL."""
    return lambda properties: operand(properties) is None


def never_true(operand: Evaluate) -> Evaluate:
    """A text where a boolean is wanted."""
    return lambda properties: None if operand(properties) is None else False


def negation(operand: Evaluate) -> Evaluate:
    """NOT."""

    def evaluate(properties: bytes) -> Value:
        value = operand(properties)
        return None if value is None else not value

    return evaluate


def nothing_of(operand: Evaluate) -> Evaluate:
    """The minus of something that is no number."""

    def evaluate(properties: bytes) -> Value:
        operand(properties)
        return None

    return evaluate


def all_of(operands: Sequence[Evaluate]) -> Evaluate:
    """AND: the first false one decides; else one that is unknown."""
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
    """The same of two or three, as most conditions are: without a loop it takes half as long."""

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
    """OR: the first true one decides; else one that is unknown."""

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
    """A property IN ('text', 'text')."""
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
    """CONTAINS, STARTSWITH, ENDSWITH: of what is missing or no text, also their opposites are false."""
    test = _TEXT_TESTS[word]

    def evaluate(properties: bytes) -> Value:
        value = operand(properties)
        return isinstance(value, bytes) and test(value, wanted) is not negated

    return evaluate


# -- comparisons -------------------------------------------------------------------------------------------------------


def same_text(name: bytes, text: bytes) -> Evaluate:
    """A property = 'text'."""
    needle, needle_bytes = _needle(name)
    wanted = text + b"\x02"

    def evaluate(properties: bytes) -> Value:
        at = properties.rfind(needle)
        if at < 0:
            return None
        start = at + needle_bytes
        if properties[start] != _END:
            return properties.startswith(wanted, start)
        value = find_property(properties, name)  # The last one of that name is empty.
        return None if value is None else value == text

    return evaluate


def same(left: Evaluate, right: Evaluate, convert_left: Convert | None, convert_right: Convert | None) -> Evaluate:
    """Anything = anything: with nothing on the left it is unknown, with nothing on the right it is false."""

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
    """A property against a number that isn't zero if it is a float: the usual comparison."""
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
        if end - start <= sure_bytes and text.isdigit():
            return compare(int(text), number)
        value = convert(text)
        return compare(value, number) if value == value else above  # To Java, NaN is the greatest of all.

    return evaluate


def order(
    symbol: str, left: Evaluate, right: Evaluate, convert_left: Convert | None, convert_right: Convert | None
) -> Evaluate:
    """Anything against anything; with nothing on one side it is unknown."""
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
    """Values of classes that have nothing in common."""
    return same(left, right, lambda _: 0, lambda _: 1)


def refused(_: bytes) -> Value:
    """A boolean where a text would have to become one. Raises: Incomparable, as Java raises ClassCastException."""
    raise Incomparable("java.lang.Boolean cannot be cast to java.lang.String")
