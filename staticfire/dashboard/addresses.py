"""Addresses of pages: parts of a path are quoted, so that names may contain slashes, quotes and other letters. Pure."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlencode

from staticfire.control.dashboard_place import DASHBOARD


def address(path: str, place: Mapping[str, str] | None = None, **query: Any) -> str:
    """Return the address of a page: `address("/topics/{topic}", {"topic": "a/b"}, page=2)`.

    Empty values are left out.
    """
    filled = path
    for name, text in (place or {}).items():
        filled = filled.replace(f"{{{name}}}", quote(text, safe=""))
    words = urlencode(
        {name: value for name, value in query.items() if not (value is None or value is False or value == "")}
    )
    return f"{DASHBOARD}{filled}{'?' if words else ''}{words}"


def match(pattern: str, raw_path: str) -> dict[str, str] | None:
    """Return the names in a path that is still quoted; None if the pattern is another one."""
    wanted, given = pattern.strip("/").split("/"), raw_path.strip("/").split("/")
    if len(wanted) != len(given):
        return None
    place: dict[str, str] = {}
    for part, text in zip(wanted, given, strict=True):
        if part.startswith("{"):
            place[part.strip("{}")] = unquote(text)
        elif part != text:
            return None
    return place
