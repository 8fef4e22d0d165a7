"""Actions on message time as a single word, for places that accept only one text: `+2h`, `freeze`, `60x`.

The broker property `staticfireClock` is such a place. The clock's state is written in the same way.
"""

import re

from staticfire.protocol.durations import format_moment, parse_duration, parse_moment
from staticfire.protocol.errors import UsageError
from staticfire.protocol.requests.clock import ADVANCE, FREEZE, NOW, RUN, SCALE, SCALED, SKIP, Clock, ClockReading

FORMS = "+2h, freeze, run, skip, 60x, now, or a time like 2026-11-21T13:30:00Z"

_RATE = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)x"


def parse_clock_words(text: str) -> Clock:
    """Return the request that a text means. Raises: UsageError."""
    word = text.strip()
    if word.lower() in (NOW, FREEZE, RUN, SKIP):
        return Clock(word.lower())
    rate = re.fullmatch(_RATE, word)
    if rate is not None:
        return Clock(SCALE, rate=float(rate[1]))
    for advance in (_by, _to):
        try:
            return advance(word)
        except UsageError:
            # The other function may be able to parse it.
            pass
    raise UsageError(f"{text!r} is not an operation of the clock; write {FORMS}")


def _by(word: str) -> Clock:
    return Clock(ADVANCE, by_ms=parse_duration(word))


def _to(word: str) -> Clock:
    return Clock(ADVANCE, to_ms=parse_moment(word))


def clock_text(reading: ClockReading) -> str:
    """Return the clock's state as text: its pace, and the time twice, for users and for programs."""
    pace = f"{reading.rate:g}x" if reading.mode == SCALED else reading.mode
    return f"{pace} {format_moment(reading.message_ms)} {reading.message_ms}"
