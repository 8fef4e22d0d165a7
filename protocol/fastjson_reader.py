"""The lenient reader of fastjson's dialect, for text that isn't standard JSON. RocketMQ: RemotingSerializable.

A regular expression (`_TOKEN`) matches one token at a time, and `_Reader` builds values from the tokens by recursive
descent.

In addition to standard JSON, it accepts single quotes, bare words and bare integers as keys, objects as keys, extra
commas, raw control characters in strings, and escapes such as `\\'` and `\\x41`. A bare integer key becomes an `int`,
an object key an `ObjectKey`. Invariant: for any text, the result is a value no deeper than `DEPTH_MAX`, or a
`ProtocolError`.
"""

import math
import re
from collections.abc import Hashable, Mapping
from typing import Any, NoReturn

from staticfire.protocol.errors import ProtocolError

# RocketMQ's deepest body (the running info of a consumer) has 6 levels. Python's stack ends near 1000 frames.
DEPTH_MAX = 64

# The lowest value for Python's own limit of integer conversions. A Java long has 19 digits.
INTEGER_DIGITS_MAX = 640

UNLIMITED = 1 << 62
"""A `steps_max` for texts whose length is under our own control."""

_FOUND_CHARACTERS_MAX = 20

_TOKEN = re.compile(
    r"""[\x20\t\r\n\f\x08]*+(?:
        "([^"\\]*+(?:\\.[^"\\]*+)*+)"
      | '([^'\\]*+(?:\\.[^'\\]*+)*+)'
      | (-?[0-9]++(?![.eE]))
      | (-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)
      | ((?:[^\W\d]|\$)[\w$.\-]*+)
      | ([\[\]{},:])
      | \Z()
    )""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER, _REAL, _WORD, _MARK = 3, 4, 5, 6

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))", re.DOTALL)
_UNESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"} | {c: c for c in "\"'\\/"}
_VALUE_WORDS = {"true": True, "false": False, "null": None}


class ObjectKey(tuple[tuple[Hashable, Any], ...]):
    """An object used as a key, such as a message queue: its (name, value) pairs, sorted by name.

    Names are strings, or integers if they were bare. Objects inside it are `ObjectKey`s too, arrays are tuples.
    """

    __slots__ = ()

    @classmethod
    def of(cls, fields: Mapping[Any, Any]) -> "ObjectKey":
        """Make the key from `fields`, in any order."""
        # Both 1 and "1" may be present.
        names = sorted(fields, key=lambda name: (str(name), repr(name)))
        return cls((name, _frozen(fields[name])) for name in names)

    def as_dict(self) -> dict[Any, Any]:
        """Return the object as a new dict."""
        return {name: _thawed(value) for name, value in self}


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return ObjectKey.of(value)
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _thawed(value: Any) -> Any:
    if isinstance(value, ObjectKey):
        return value.as_dict()
    return list(map(_thawed, value)) if isinstance(value, tuple) else value


def read_lenient(data: bytes, steps_max: int) -> Any:
    """Return the value of `data`, read as leniently as fastjson does. `steps_max`: the limit of tokens plus escapes.

    The time is linear in these steps, and the event loop is blocked meanwhile. Other characters cost nearly nothing.

    Raises: ProtocolError with the position, counted in characters, and what was expected there.
    """
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"JSON at byte {error.start}: expected UTF-8, found 0x{data[error.start]:02x}") from error
    return _Reader(text, steps_max).read()


class _Reader:
    """One pass over one text. `_at` is the position of the next token, `_in_key` whether an object key is open."""

    def __init__(self, text: str, steps_max: int) -> None:
        self._text = text
        self._steps_max = steps_max
        self._steps_left = steps_max
        self._at = 0
        self._in_key = False

    def read(self) -> Any:
        value = self._value(self._next("a value"), 0)
        if (token := self._next("the end")).lastindex != _MARK + 1:
            self._refuse("the end", token)
        return value

    def _next(self, expected: str) -> re.Match[str]:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            self._refuse(expected, None)
        self._at = token.end()
        self._spend(1)
        return token

    def _spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise ProtocolError(
                f"JSON of {len(self._text)} characters isn't standard, and has more than {self._steps_max} tokens and "
                "escapes; standard JSON has no such limit"
            )

    def _next_item(self, expected: str) -> re.Match[str]:
        while (token := self._next(expected))[_MARK] == ",":
            pass
        return token

    def _refuse(self, expected: str, token: re.Match[str] | None) -> NoReturn:
        at = token.start(token.lastindex or 0) if token else len(self._text) - len(self._text[self._at :].lstrip())
        found = self._text[at : at + _FOUND_CHARACTERS_MAX]
        raise ProtocolError(
            f"JSON at character {at}: expected {expected}, found {ascii(found) if found else 'the end'}"
        )

    def _value(self, token: re.Match[str], depth: int) -> Any:
        kind = token.lastindex or 0
        text = token[kind]
        if kind < _INTEGER:
            return self._string(token, text)
        if kind == _INTEGER:
            return self._integer(token, text)
        if text == "{":
            return self._object(token, depth + 1)
        if text == "[":
            return self._array(token, depth + 1)
        if kind == _REAL and math.isfinite(real := float(text)):
            return real
        if kind == _WORD and text in _VALUE_WORDS:
            return _VALUE_WORDS[text]
        self._refuse("a number within the range of a double" if kind == _REAL else "a value", token)

    def _object(self, start: re.Match[str], depth: int) -> dict[Hashable, Any]:
        if depth > DEPTH_MAX:
            self._refuse(f"no more than {DEPTH_MAX} levels", start)
        result: dict[Hashable, Any] = {}
        token = self._next_item("a key or '}'")
        while token[_MARK] != "}":
            key = self._key(token, depth)
            if (token := self._next("':'"))[_MARK] != ":":
                self._refuse("':'", token)
            result[key] = self._value(self._next("a value"), depth)
            token = self._next("',' or '}'")
            if token[_MARK] == ",":
                token = self._next_item("a key or '}'")
            elif token[_MARK] != "}":
                self._refuse("',' or '}'", token)
        return result

    def _array(self, start: re.Match[str], depth: int) -> list[Any]:
        if depth > DEPTH_MAX:
            self._refuse(f"no more than {DEPTH_MAX} levels", start)
        result: list[Any] = []
        token = self._next_item("a value or ']'")
        while token[_MARK] != "]":
            result.append(self._value(token, depth))
            token = self._next("',' or ']'")
            if token[_MARK] == ",":
                token = self._next_item("a value or ']'")
            elif token[_MARK] != "]":
                self._refuse("',' or ']'", token)
        return result

    def _key(self, token: re.Match[str], depth: int) -> Hashable:
        kind = token.lastindex or 0
        text: str = token[kind]
        if kind < _INTEGER:
            return self._string(token, text)
        if kind == _INTEGER:
            return self._integer(token, text)
        if kind == _WORD:
            return text
        if text == "{":
            return self._object_key(token, depth + 1)
        self._refuse("a key or '}'", token)

    def _object_key(self, start: re.Match[str], depth: int) -> ObjectKey:
        # A key is hashed as a whole. A key within a key would be hashed once per level, and no program writes such
        # JSON.
        if self._in_key:
            self._refuse("a name within an object key", start)
        self._in_key = True
        key = ObjectKey.of(self._object(start, depth))
        self._in_key = False
        return key

    def _integer(self, token: re.Match[str], text: str) -> int:
        if len(text) > INTEGER_DIGITS_MAX:
            self._refuse(f"no more than {INTEGER_DIGITS_MAX} digits", token)
        return int(text)

    def _string(self, token: re.Match[str], text: str) -> str:
        if "\\" not in text:
            return text
        self._spend(text.count("\\"))

        def unescape(escape: re.Match[str]) -> str:
            if code := escape[1] or escape[2]:
                return chr(int(code, 16))
            if escape[3] not in _UNESCAPED:
                self._refuse(f"an escape, not {escape[0]!a}, in the string", token)
            return _UNESCAPED[escape[3]]

        # Java counts in UTF-16: a character above U+FFFF is written as two escapes.
        try:
            return _ESCAPE.sub(unescape, text).encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            self._refuse("surrogates in pairs in the string", token)
