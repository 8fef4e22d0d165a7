"""Split a text into tokens, one at a time, because any text may follow the end of a condition.

RocketMQ: SelectorParserTokenManager. Characters are UTF-16 units here, because Java counts columns in them.
"""

import re
from struct import iter_unpack
from typing import NamedTuple

from staticfire.protocol.sql92.faults import FilterExpressionError, lexical_fault

END, DECIMAL, FLOAT, STRING, NAME = "<EOF>", "<DECIMAL_LITERAL>", "<FLOATING_POINT_LITERAL>", "<STRING_LITERAL>", "<ID>"
KEYWORDS = {
    word: f'"{word}"'
    for word in (
        "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH",
    )
}  # fmt: skip
_GROUPS = {"decimal": DECIMAL, "float": FLOAT, "string": STRING}
_TAB_COLUMNS = 8

_BLANKS = r"[ \t\n\r\f]++"
_BLOCK_COMMENT = r"/\*[^*]*+\*++(?:[^*/][^*]*+\*++)*/"
_LINE_COMMENT = r"--[^\n\r]*+(?:\r\n|\n|\r)"
# No group is repeated possessively: Python before 3.11.5 then matches too much (CPython's issue 106052).
_SKIPPED = re.compile(f"(?:{_BLANKS}|{_BLOCK_COMMENT}|{_LINE_COMMENT})*")
# A line comment must end with a line break, so there is none in the last line. It isn't tried there, because searching
# the line break after each of many dashes would take long.
_SKIPPED_IN_LAST_LINE = re.compile(f"(?:{_BLANKS}|{_BLOCK_COMMENT})*")
_TOKEN = re.compile(
    r"(?P<word>[A-Za-z_$][A-Za-z0-9_$]*+)"
    r"|(?P<float>[0-9]++\.[0-9]*+(?:[eE][+-]?[0-9]++)?|\.[0-9]++(?:[eE][+-]?[0-9]++)?|[0-9]++[eE][+-]?[0-9]++)"
    r"|(?P<decimal>0|[1-9][0-9]*+[lL]?)"
    r"|(?P<string>'[^']*+(?:''[^']*+)*')"
    r"|(?P<symbol><>|<=|>=|[<>=(),+-])"
)


class Token(NamedTuple):
    """`kind` is its name in JavaCC's messages; `at` is its position in the text."""

    kind: str
    image: str
    at: int


class Tokens:
    """The tokens of one text. All methods raise FilterExpressionError if there is no valid token."""

    def __init__(self, text: str) -> None:
        self._text = text if text.isascii() else utf16_units(text)
        self._last_line_at = 1 + max(self._text.rfind("\n"), self._text.rfind("\r"))
        self._at = 0
        self._ahead: list[Token] = []

    def peek(self, place: int = 0) -> Token:
        """Return the next token, or one of those after it."""
        while len(self._ahead) <= place:
            self._ahead.append(self._read())
        return self._ahead[place]

    def take(self) -> Token:
        """Remove the next token and return it."""
        token = self.peek()
        del self._ahead[0]
        return token

    def place(self, token: Token) -> tuple[int, int]:
        """Return line and column of a token; at the end, those of the last character."""
        return place_of(self._text, min(token.at, len(self._text) - 1))

    def _read(self) -> Token:
        skipped = _SKIPPED if self._at < self._last_line_at else _SKIPPED_IN_LAST_LINE
        match = skipped.match(self._text, self._at)
        at = match.end() if match else self._at
        if at == len(self._text):
            return Token(END, "", at)
        found = _TOKEN.match(self._text, at)
        if found is None:
            raise _no_token(self._text, at)
        self._at = found.end()
        group, image = found.lastgroup, found[0]
        if group == "word":
            return Token(KEYWORDS.get(image.upper(), NAME), image, at)
        return Token(_GROUPS.get(group or "") or f'"{image}"', image, at)


def _no_token(text: str, at: int) -> FilterExpressionError:
    """Return the same error as JavaCC: it names the character at which no token was possible any more."""
    first, following = text[at], text[at + 1 : at + 2]
    if first == "'" or (first == "/" and following == "*"):
        # The end of the string or comment is searched up to the end of the text.
        end = len(text)
    else:
        end = min(at + 2, len(text)) if first in "./" else at + 1
    last = text[end - 1]
    line, column = place_of(text, end - 1)
    if end < len(text):
        return lexical_fault(last, text[at : end - 1], (line, column))
    place = (line + 1, 0) if last in "\n\r" else (line, column + 1)
    return lexical_fault("", "" if end - at == 1 else text[at:end], place)


def place_of(text: str, at: int) -> tuple[int, int]:
    """Return line and column of a character, counted from 1; (0, 0) before the first."""
    if at < 0:
        return 0, 0
    lines = re.split(r"\r\n|\r|\n", text[: at + 1])
    # A line break belongs to the line that it ends; the second character of CR LF comes after the first.
    if text[at] in "\r\n":
        start = at - 1 if text[at - 1 : at + 1] == "\r\n" else at
        lines = [*lines[:-2], lines[-2] + text[start : at + 1]]
    column = 0
    for unit in lines[-1]:
        column += _TAB_COLUMNS - column % _TAB_COLUMNS if unit == "\t" else 1
    return len(lines), column


def utf16_units(text: str) -> str:
    """Return a text in which each character that needs two UTF-16 units is two characters, its surrogates."""
    return "".join(chr(unit) for (unit,) in iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")))


def utf8_of(units: str) -> bytes:
    """Return UTF-16 units in UTF-8."""
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
