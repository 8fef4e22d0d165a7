"""The parts of a condition, and the checks that they fit together. RocketMQ: org.apache.rocketmq.filter.expression.

The functions here correspond to RocketMQ's `create...`, with its checks in the same order and its texts. The class of
each term's value is known in advance, so the conversion for a comparison is determined only once.
"""

from collections.abc import Callable
from enum import Enum

import msgspec

from staticfire.protocol.sql92 import closures
from staticfire.protocol.sql92.closures import Convert, Evaluate, Value
from staticfire.protocol.sql92.faults import FilterExpressionError, number_fault, parse_fault, runtime_fault
from staticfire.protocol.sql92.java_values import (
    DOUBLE_MAX,
    DOUBLE_MIN,
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    NotANumber,
    double_text,
    java_order,
    to_boolean,
    to_double,
    to_integer,
    to_long,
)
from staticfire.protocol.sql92.tokens import utf8_of

# The limit for nested terms. Parentheses alone, and rows of AND or OR, don't count. Each level is a nested call.
DEPTH_MAX = 256
_LONG_DIGITS_MAX = 19


class Kind(Enum):
    """The Java class of a value, if there is a value."""

    TEXT = "String"
    INTEGER = "Integer"
    LONG = "Long"
    DOUBLE = "Double"
    BOOLEAN = "Boolean"
    NOTHING = "null"
    """The value is always NULL."""


_NUMBER_OF: dict[Kind, Callable[[bytes], float]] = {
    Kind.INTEGER: to_integer,
    Kind.LONG: to_long,
    Kind.DOUBLE: to_double,
}


class Row(msgspec.Struct, eq=False, gc=False):
    """The operands of AND or OR, and their functions."""

    word: str
    operands: list["Term"]
    evaluates: list[Evaluate]


class Term(msgspec.Struct, eq=False, gc=False):
    """A part of a condition. It belongs to at most one larger term."""

    kind: Kind
    evaluate: Evaluate
    text: Callable[[], str]
    """Returns the text that RocketMQ's messages show for it."""
    is_constant: bool = False
    value: str | float | None = None
    """The value of a constant; for a text, its UTF-16 units."""
    name: bytes | None = None
    """The name of a property."""
    depth: int = 1
    weight: int = 1
    """The number of terms in it, a measure of the time to evaluate it."""
    row: "Row | None" = None

    @property
    def is_boolean(self) -> bool:
        """Whether it is one of RocketMQ's BooleanExpressions. NULL is one, too."""
        return self.kind is Kind.BOOLEAN or (self.is_constant and self.kind is Kind.NOTHING)


def _made(kind: Kind, evaluate: Evaluate, text: Callable[[], str], *parts: Term) -> Term:
    """Return a term made of other terms. Raises: FilterExpressionError (too deep)."""
    depth = weight = 0
    for part in parts:
        depth = max(depth, part.depth)
        weight += part.weight
    return Term(kind, evaluate, text, depth=_deeper(depth), weight=weight)


def _deeper(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise FilterExpressionError(
            f"the condition has more than {DEPTH_MAX} levels of nested terms: write it with fewer levels"
        )
    return depth + 1


# -- leaves ------------------------------------------------------------------------------------------------------------


def _constant(kind: Kind, value: str | float | None, stored: Value, text: str) -> Term:
    return Term(kind, closures.constant(stored), lambda: text, is_constant=True, value=value)


def truth(value: bool | None) -> Term:
    """Make TRUE, FALSE or NULL."""
    text = "NULL" if value is None else str(value).upper()
    return _constant(Kind.NOTHING if value is None else Kind.BOOLEAN, value, value, text)


def text_constant(units: str) -> Term:
    """Make a text in quotes."""
    return _constant(Kind.TEXT, units, utf8_of(units), "'" + units.replace("'", "''") + "'")


def whole_constant(image: str) -> Term:
    """Make a number without a decimal point. Raises: FilterExpressionError."""
    digits = image.rstrip("lL")
    number = int(digits) if len(digits) <= _LONG_DIGITS_MAX else LONG_MAX + 1
    if number > LONG_MAX:
        raise number_fault(f'For input string: "{digits}"')
    return _constant(Kind.INTEGER if INT_MIN <= number <= INT_MAX else Kind.LONG, number, number, str(number))


def double_constant(image: str) -> Term:
    """Make a number with a decimal point or an exponent. Raises: FilterExpressionError."""
    number = float(image)
    if number == float("inf"):
        raise runtime_fault(f"{image} is greater than {DOUBLE_MAX}")
    if not number:
        raise runtime_fault(f"{image} is less than {DOUBLE_MIN}")
    return _constant(Kind.DOUBLE, number, number, double_text(number))


def property_term(name: str) -> Term:
    """Make a property of the message."""
    stored = name.encode()
    return Term(Kind.TEXT, closures.property_value(stored), lambda: name, name=stored)


# -- booleans ----------------------------------------------------------------------------------------------------------


def as_boolean(term: Term) -> Term:
    """Return a term for use as a boolean. Raises: FilterExpressionError."""
    if term.is_boolean:
        return term
    if term.name is None:
        raise parse_fault(f"Expression will not result in a boolean value: {term.text()}")
    return Term(Kind.BOOLEAN, closures.never_true(term.evaluate), term.text, depth=term.depth)


def joined(word: str, left: Term, right: Term) -> Term:
    """Make AND or OR. A row of the same operator becomes one term. Raises: FilterExpressionError."""
    left, right = as_boolean(left), as_boolean(right)
    row = left.row
    if row is not None and row.word == word:
        left.depth = max(left.depth, _deeper(right.depth))
        left.weight += right.weight
        row.operands.append(right)
        row.evaluates.append(right.evaluate)
        if len(row.evaluates) <= closures.UNROLLED_MAX + 1:
            # Longer ones see the added operand, because they use the list itself.
            left.evaluate = _ROW_OF[word](row.evaluates)
        return left
    row = Row(word, [left, right], [left.evaluate, right.evaluate])
    made = _made(Kind.BOOLEAN, _ROW_OF[word](row.evaluates), lambda: _row_text(row), left, right)
    made.row = row
    return made


def _row_text(row: Row) -> str:
    symbol = {"AND": "&&", "OR": "||"}[row.word]
    shown = "".join(f" {symbol} {one.text()})" for one in row.operands[1:])
    return "(" * (len(row.operands) - 1) + row.operands[0].text() + shown


_ROW_OF = {"AND": closures.all_of, "OR": closures.any_of}


def inverted(term: Term) -> Term:
    """Make NOT. Raises: FilterExpressionError."""
    term = as_boolean(term)
    return _made(Kind.BOOLEAN, closures.negation(term.evaluate), lambda: f"(NOT {term.text()})", term)


def minus(term: Term) -> Term:
    """Make the minus of a number. For anything else, the result is NULL."""
    value = term.evaluate(b"") if term.kind in _NUMBER_OF else None
    if isinstance(value, int | float):
        return _made(term.kind, closures.constant(-value), lambda: f"(- {term.text()})", term)
    return _made(Kind.NOTHING, closures.nothing_of(term.evaluate), lambda: f"(- {term.text()})", term)


# -- tests of one property ---------------------------------------------------------------------------------------------


def in_list(term: Term, texts: list[str], negated: bool) -> Term:
    """Make IN. Raises: FilterExpressionError."""
    if term.name is None:
        raise runtime_fault(f"Expected a property for In expression, got: {term.text()}")
    wanted, word = frozenset(map(utf8_of, texts)), "NOT IN" if negated else "IN"
    listed = list(dict.fromkeys(texts)) if len(texts) > _LIST_AS_IT_IS_MAX else texts
    evaluate = closures.is_among(term.name, wanted, negated)
    return _made(Kind.BOOLEAN, evaluate, lambda: f"{term.text()} {word} ( {', '.join(listed)} )", term)


# Longer lists are hash sets in RocketMQ. The order in which it shows them isn't imitated.
_LIST_AS_IT_IS_MAX = 4


def text_test(word: str, term: Term, units: str, negated: bool) -> Term:
    """Make CONTAINS, STARTSWITH, ENDSWITH."""
    wanted = utf8_of(units)
    symbol = f"NOT {word}" if negated else word
    evaluate = closures.text_test(word, term.evaluate, wanted, negated) if wanted else closures.constant(False)
    return _made(Kind.BOOLEAN, evaluate, lambda: f"({symbol} {term.text()})", term)


# -- comparisons -------------------------------------------------------------------------------------------------------


def is_null(term: Term, negated: bool) -> Term:
    """Make IS NULL, IS NOT NULL."""
    found = _made(Kind.BOOLEAN, closures.is_missing(term.evaluate), lambda: f"({term.text()} == NULL)", term)
    return inverted(found) if negated else found


def equal(symbol: str, left: Term, right: Term) -> Term:
    """Make `=` and `<>`. Raises: FilterExpressionError."""
    for operand in (left, right):
        if operand.is_constant and operand.value is None:
            raise runtime_fault(f"'{operand.text()}' cannot be compared.")
    if left.is_constant and right.is_constant and left.is_boolean and not right.is_boolean:
        raise runtime_fault(f"'{left.text()}' cannot be compared with '{right.text()}'")
    evaluate = _equality(left, right)
    found = _made(Kind.BOOLEAN, evaluate, lambda: f"({left.text()} == {right.text()})", left, right)
    return inverted(found) if symbol == "<>" else found


def _equality(left: Term, right: Term) -> Evaluate:
    kinds = {left.kind, right.kind}
    if left.name is not None and right.is_constant and right.kind is Kind.TEXT:
        return closures.same_text(left.name, utf8_of(str(right.value)))
    if left.kind is Kind.BOOLEAN and right.kind is Kind.TEXT:
        return closures.same(left.evaluate, right.evaluate, closures.refused, None)
    if Kind.BOOLEAN in kinds and kinds & {Kind.INTEGER, Kind.LONG, Kind.DOUBLE}:
        return closures.never_equal(left.evaluate, right.evaluate)
    convert_left, convert_right = conversions(left.kind, right.kind)
    return closures.same(left.evaluate, right.evaluate, convert_left, convert_right)


def conversions(left: Kind, right: Kind) -> tuple[Convert | None, Convert | None]:
    """Return the conversions of two values to one class: the class of the number, or the wider one of two numbers."""
    if left is Kind.TEXT and right is Kind.BOOLEAN:
        return to_boolean, None
    if left is Kind.TEXT and right in _NUMBER_OF:
        return _NUMBER_OF[right], None
    if right is Kind.TEXT and left in _NUMBER_OF:
        return None, _NUMBER_OF[left]
    if left is not right and Kind.DOUBLE in (left, right):
        return float, float
    return None, None


def compared(symbol: str, left: Term, right: Term) -> Term:
    """Make `>` `>=` `<` `<=`. Raises: FilterExpressionError."""
    for operand in (left, right):
        if operand.is_boolean or (operand.is_constant and operand.kind not in _NUMBER_OF):
            raise runtime_fault(f"Value '{operand.text()}' cannot be compared.")
    evaluate = _order(symbol, left, right)
    return _made(Kind.BOOLEAN, evaluate, lambda: f"({left.text()} {symbol} {right.text()})", left, right)


def _order(symbol: str, left: Term, right: Term) -> Evaluate:
    if left.name is not None and right.kind in _NUMBER_OF:
        number = right.evaluate(b"")
        assert isinstance(number, int | float)
        return closures.number_of_property(symbol, left.name, _NUMBER_OF[right.kind], number)
    if left.kind is right.kind is Kind.TEXT:
        return closures.order(symbol, left.evaluate, right.evaluate, to_double, to_double)
    return closures.order(symbol, left.evaluate, right.evaluate, *conversions(left.kind, right.kind))


def between(value: Term, low: Term, high: Term) -> Term:
    """Make BETWEEN. Raises: FilterExpressionError."""
    if low.is_constant and high.is_constant:
        if low.value is None or high.value is None:
            raise runtime_fault("Illegal values of between, values can not be null!")
        if _order_of_constants(high, low) < 0:
            raise runtime_fault(
                f"Illegal values of between, left value({_plain(low)}) must less than or equal to "
                f"right value({_plain(high)})"
            )
    return joined("AND", compared(">=", value, low), compared("<=", value, high))


def not_between(value: Term, low: Term, high: Term) -> Term:
    """Make NOT BETWEEN. Raises: FilterExpressionError."""
    return joined("OR", compared("<", value, low), compared(">", value, high))


def _order_of_constants(first: Term, second: Term) -> int:
    """Return a negative number if the first is less, or of another class. Raises: FilterExpressionError."""
    if first.kind is second.kind is Kind.TEXT:
        return java_order(str(first.value), str(second.value))
    if first.kind is not second.kind and (
        first.kind is Kind.BOOLEAN or (second.kind is Kind.BOOLEAN and first.kind is not Kind.TEXT)
    ):
        return -1
    convert_first, convert_second = conversions(first.kind, second.kind)
    one, other = first.evaluate(b""), second.evaluate(b"")
    try:
        one = one if convert_first is None else convert_first(one)  # type: ignore[arg-type]  # made for it
        other = other if convert_second is None else convert_second(other)  # type: ignore[arg-type]
    except NotANumber as error:
        raise runtime_fault(f"java.lang.NumberFormatException: {error}") from None
    assert isinstance(one, int | float)
    assert isinstance(other, int | float)
    return (one > other) - (one < other)


def _plain(term: Term) -> str:
    """Return a constant as Java's String.format shows it: texts without quotes."""
    return str(term.value) if term.kind is Kind.TEXT else term.text().lower() if term.is_boolean else term.text()
