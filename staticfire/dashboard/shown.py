"""How values are shown. Pure. The browser puts numbers and times into the reader's format (static/dashboard.js)."""

from datetime import UTC, datetime

TEXT_CHARS_MAX = 4_096
HEX_BYTES_MAX = 512
HEX_ROW_BYTES = 16
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")


def moment_text(ms: int) -> str:
    """Return a time in UTC, for browsers without scripts."""
    try:
        return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms"


def duration_text(ms: int) -> str:
    """Return a duration in its two largest units: `2 h 5 min`."""
    if abs(ms) < 1_000:
        return f"{ms} ms"
    left = abs(ms)
    parts: list[str] = []
    for size, unit in _UNITS:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
    return ("-" if ms < 0 else "") + " ".join(parts)


def bytes_text(count: int) -> str:
    """Return a size: `1.4 MiB`."""
    size, unit = float(count), 0
    while size >= 1_024 and unit < len(_BYTES) - 1:
        size, unit = size / 1_024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_BYTES[unit]}"


def body_shown(body: bytes) -> dict[str, object]:
    """Return the beginning of a body as text, and if it isn't text, also as hex."""
    begin = body[: TEXT_CHARS_MAX * 4]
    try:
        text, is_text = begin.decode(), True
    except UnicodeDecodeError as error:
        # A character that is cut at the end doesn't make it binary.
        is_text = len(begin) < len(body) and error.start >= len(begin) - 4
        text = begin.decode("utf-8", "replace")
    if any(ord(char) < 32 and char not in "\t\n\r" for char in text[:TEXT_CHARS_MAX]):
        is_text = False
    shown = "".join(char if char in "\t\n" or char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return {
        "text": shown[:TEXT_CHARS_MAX],
        "is_text": is_text,
        "hex": "" if is_text else hex_rows(body[:HEX_BYTES_MAX]),
        "bytes": len(body),
        "is_cut": len(text) > TEXT_CHARS_MAX or len(begin) < len(body),
    }


def hex_rows(data: bytes) -> str:
    """Return bytes as rows: position, hex, printable characters."""
    rows = []
    for start in range(0, len(data), HEX_ROW_BYTES):
        row = data[start : start + HEX_ROW_BYTES]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:06x}  {row.hex(' '):<{HEX_ROW_BYTES * 3 - 1}}  {letters}")
    return "\n".join(rows)
