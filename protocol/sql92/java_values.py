"""Java's numbers and booleans: parse them, write them as text, and compare them.

RocketMQ: ComparisonExpression, which uses Integer.valueOf, Long.valueOf, Double.valueOf and Boolean.valueOf.
"""

import re
from decimal import Decimal

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
DOUBLE_MAX, DOUBLE_MIN = "1.7976931348623157E308", "4.9E-324"
_FINITE = float(DOUBLE_MAX)

# Any number with so many decimal digits fits into an Integer.
SURE_DIGITS = 9
_LONG_DIGITS = 19
_DECIMAL = re.compile(rb"[+-]?(?:(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?[fFdD]?|NaN|Infinity)")
_HEX = re.compile(rb"([+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?\d++)[fFdD]?")
_JAVA_BLANKS = bytes(range(0x21))


class NotANumber(ValueError):
    """A text that isn't a number. The message is that of Java's NumberFormatException."""


def to_integer(text: bytes) -> int:
    """Return the result of `Integer.valueOf` for a text in UTF-8. Raises: NotANumber."""
    if len(text) <= SURE_DIGITS and text.isdigit():
        return int(text)
    return _whole(text, INT_MIN, INT_MAX)


def to_long(text: bytes) -> int:
    """Return the result of `Long.valueOf` for a text in UTF-8. Raises: NotANumber."""
    if len(text) <= SURE_DIGITS and text.isdigit():
        return int(text)
    return _whole(text, LONG_MIN, LONG_MAX)


def _whole(text: bytes, least: int, most: int) -> int:
    shown = text.decode("utf-8", "replace")
    sign, digits = (shown[0], shown[1:]) if shown[:1] in ("+", "-") and shown else ("", shown)
    digits = digits.lstrip("0") or digits[-1:]
    # `isdecimal` accepts the digits of all scripts, as Java's Integer does.
    if digits.isdecimal() and len(digits) <= _LONG_DIGITS and max(digits) <= "\uffff":
        number = -int(digits) if sign == "-" else int(digits)
        if least <= number <= most:
            return number
    raise NotANumber(f'For input string: "{shown}"')


def to_double(text: bytes) -> float:
    """Return the result of `Double.valueOf` for a text in UTF-8. Raises: NotANumber."""
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if -_FINITE <= number <= _FINITE and b"_" not in text:
            return number
    return _unusual(text.strip(_JAVA_BLANKS))


def _unusual(text: bytes) -> float:
    if _DECIMAL.fullmatch(text):
        return float(text.rstrip(b"fFdD") if text[-1:] in b"fFdD" else text)
    return _hexadecimal(text)


def _hexadecimal(text: bytes) -> float:
    found = _HEX.fullmatch(text)
    if found is None:
        shown = text.decode("utf-8", "replace")
        raise NotANumber(f'For input string: "{shown}"' if shown else "empty String")
    try:
        return float.fromhex(found[1].decode())
    except OverflowError:
        return float("-inf" if text.startswith(b"-") else "inf")


def to_boolean(text: bytes) -> bool:
    """Return the result of `Boolean.valueOf` for a text."""
    return text.lower() == b"true"


def compare_doubles(left: float, right: float) -> int:
    """Return the result of `Double.compareTo`: -0.0 is less than 0.0, NaN equals itself and exceeds all others."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        return 0 if left or str(left) == str(right) else -1 if str(left) == "-0.0" else 1
    return (left != left) - (right != right)


def double_text(number: float) -> str:
    """Return the result of `Double.toString` for a number that is neither NaN nor infinite."""
    _, digits, exponent = Decimal(repr(abs(number))).as_tuple()
    assert isinstance(exponent, int)
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    # The number of digits before the decimal point.
    point = len(digits) + exponent
    if not number:
        body = "0.0"
    elif 1e-3 <= abs(number) < 1e7:
        whole, fraction = shown[: max(point, 0)].ljust(point, "0"), "0" * -point + shown[max(point, 0) :]
        body = f"{whole or '0'}.{fraction or '0'}"
    else:
        body = f"{shown[0]}.{shown[1:] or '0'}E{point - 1}"
    return f"-{body}" if str(number).startswith("-") else body


def java_order(left: str, right: str) -> int:
    """Return the result of `String.compareTo` for texts whose characters are UTF-16 units, as -1, 0 or 1."""
    return (left > right) - (left < right)
