"""Scripts and styles: read once, compressed once, kept by browsers until they change."""

import gzip
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

KINDS = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


class ServedFile(NamedTuple):
    """A file as it is sent."""

    kind: str
    data: bytes
    packed: bytes
    version: str
    """Changes with the content; a part of the address."""


@cache
def served_file(name: str) -> ServedFile | None:
    """Return a file of static/; None if it doesn't exist."""
    kind = KINDS.get(name.rpartition(".")[2])
    if kind is None or "/" in name or name not in names():
        return None
    data = (files("staticfire.dashboard") / "static" / name).read_bytes()
    return ServedFile(kind, data, gzip.compress(data, mtime=0), hashlib.sha256(data).hexdigest()[:12])


@cache
def names() -> frozenset[str]:
    """Return the names of all files."""
    return frozenset(one.name for one in (files("staticfire.dashboard") / "static").iterdir())
