"""Durations and moments as users write them: `2h`, `1h30m`, `+90s`, `500ms`; `2026-11-21T13:30:00Z`.

Pure: the machine's time zone and the current time aren't used. A moment without a time zone is in UTC.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal

from staticfire.protocol.errors import UsageError
from staticfire.protocol.times import MessageMs

MS_OF_UNIT = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000, "ms": 1}
# A hundred years. A longer duration most likely has the wrong unit.
DURATION_MS_MAX = 36_525 * MS_OF_UNIT["d"]
DURATION_FORMS = "2h, 1h30m, 90s, 500ms or 2d, larger units first"
# The year 33658: the largest number with fifteen digits.
MOMENT_MS_MAX = 10**15 - 1
MOMENT_FORMS = "2026-11-21T13:30:00Z, or milliseconds since 1970"

# These are compiled at first use, like everything here that isn't needed at a start.
_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{1,9})?)"
_DURATION = r"\+?" + "".join(f"(?:{_NUMBER}{unit})?" for unit in ("d", "h", "m(?!s)", "s", "ms"))
_MILLISECONDS = r"[0-9]{1,15}"


def parse_duration(text: str) -> int:
    """Return a duration in milliseconds; blanks and a leading plus are ignored. Raises: UsageError."""
    found = re.fullmatch(_DURATION, "".join(text.split()))
    if found is None or not any(found.groups()):
        raise UsageError(f"{text!r} is not a duration; write {DURATION_FORMS}")
    numbers = zip(found.groups(), MS_OF_UNIT.values(), strict=True)
    total = sum((Decimal(number) * factor for number, factor in numbers if number), Decimal(0))
    if total != int(total):
        raise UsageError(f"{text!r} is not a duration: the smallest unit is a millisecond")
    if total > DURATION_MS_MAX:
        raise UsageError(f"{text!r} is over the limit of {format_duration(DURATION_MS_MAX)}")
    return int(total)


def format_duration(ms: int) -> str:
    """Return a duration as `parse_duration` reads it, `0s` for none, with a leading minus if it is negative."""
    parts, rest = [], abs(ms)
    for unit, factor in MS_OF_UNIT.items():
        number, rest = divmod(rest, factor)
        if number:
            parts.append(f"{number}{unit}")
    return ("-" if ms < 0 else "") + ("".join(parts) or "0s")


def parse_moment(text: str) -> MessageMs:
    """Return a moment in milliseconds since 1970; the text is such a number or ISO 8601. Raises: UsageError."""
    text = text.strip()
    if re.fullmatch(_MILLISECONDS, text):
        return MessageMs(int(text))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a time; write {MOMENT_FORMS}") from None
    return ms_of(moment)


def ms_of(moment: datetime) -> MessageMs:
    """Return the milliseconds since 1970 of a moment; without a time zone, it is in UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return MessageMs((since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000)


def format_moment(ms: int) -> str:
    """Return a moment as `2026-11-21T13:30:00.000Z`, which `parse_moment` reads; after the year 9999, a number."""
    if not 0 <= ms < _YEAR_10000_MS:
        return str(ms)
    seconds, rest_ms = divmod(ms, 1_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ms:03}Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_YEAR_10000_MS = 253_402_300_800_000
