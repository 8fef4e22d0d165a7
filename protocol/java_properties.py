"""The text of java.util.Properties: the format of RocketMQ's files and of requests 25, 26, 318, 319.

    # a comment
    needWaitForService=true
    key : value, with \\u00e9scapes and a line that continues \\
          here
"""

import re
from collections.abc import Iterator, Mapping

_KEY_END = r"(?<!\\)(?:\\\\)*(\s*[=:]\s*|\s+)"
_ESCAPE = r"\\(?:u([0-9a-fA-F]{4})|(.))"
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """Return keys and values in the order of the text; of a repeated key, the last value. Any text can be read."""
    properties = {}
    for line in _logical_lines(text):
        end = re.search(_KEY_END, line)
        key, value = (line, "") if end is None else (line[: end.start(1)], line[end.end(1) :])
        properties[_unescaped(key)] = _unescaped(value)
    return properties


def write_properties(properties: Mapping[str, str]) -> str:
    """Return the text, one line per key in alphabetical order."""
    return "".join(f"{key}={properties[key]}\n" for key in sorted(properties))


def _logical_lines(text: str) -> Iterator[str]:
    """Yield the lines that aren't blank or comments, joined if one ends in a backslash that isn't escaped."""
    begun: list[str] = []
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            begun.append(line[:-1])
            continue
        yield "".join(begun) + line
        begun = []
    if any(begun):
        yield "".join(begun)


def _unescaped(text: str) -> str:
    return re.sub(_ESCAPE, lambda m: chr(int(m[1], 16)) if m[1] else _UNESCAPED.get(m[2], m[2]), text, flags=re.DOTALL)
