"""The output formats of Java programs. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime


def lines_of(pattern: str, *rows: Sequence[object]) -> str:
    """Format rows as lines, with a printf pattern such as `%-32s  %-4s`."""
    return "\n".join((pattern % tuple(row)).rstrip() for row in rows)


def text(value: object) -> str:
    """Return a value as Java's toString does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return map_text(value)
    return str(value)


def map_text(pairs: Mapping[str, object]) -> str:
    """Return a map, as in `{KEYS=key-1, TAGS=paid}`. Java orders it by hash; here it is ordered by name."""
    return "{" + ", ".join(f"{name}={text(value)}" for name, value in sorted(pairs.items())) + "}"


def object_text(name: str, fields: Mapping[str, object], brackets: str = "{}") -> str:
    """Return an object as its toString method does."""
    words = ", ".join(f"{key}={text(value)}" for key, value in fields.items())
    return f"{name}{brackets[0]}{words}{brackets[1]}"


def bytes_text(body: bytes) -> str:
    """Return bytes as a list of signed numbers."""
    return "[" + ", ".join(str(byte - 256 if byte > 127 else byte) for byte in body) + "]"


def moment(ms: int, pattern: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time to the second, in this machine's time zone."""
    return datetime.fromtimestamp(ms / 1_000).strftime(pattern)


def moment_ms(ms: int) -> str:
    """Return a time to the millisecond. RocketMQ: timeMillisToHumanString2."""
    return f"{moment(ms)},{ms % 1_000:03}"


def digits(ms: int) -> str:
    """Return a time as 17 digits. RocketMQ: timeMillisToHumanString."""
    return f"{moment(ms, '%Y%m%d%H%M%S')}{ms % 1_000:03}"


def parse_local(words: str) -> int | None:
    """Return the milliseconds of `yyyy-MM-dd#HH:mm:ss:SSS` in this machine's time zone, or None for other text."""
    try:
        return round(datetime.strptime(words.strip(), "%Y-%m-%d#%H:%M:%S:%f").timestamp() * 1_000)
    except ValueError:
        return None
