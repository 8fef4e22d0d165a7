"""What a person may have meant by a name that there isn't."""

from collections.abc import Iterable

CLOSE, NEARLY, SHOWN_MAX = 0.6, 0.1, 3
# How much of two names must be the same; what is that much farther off than the closest isn't meant.


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean orders?`, or nothing where no known name is close."""
    from difflib import SequenceMatcher  # here: hardly any call has a typo

    close = sorted(((SequenceMatcher(None, name.lower(), one.lower()).ratio(), one) for one in known), reverse=True)
    best = close[0][0] if close else 0.0
    meant = [one for ratio, one in close[:SHOWN_MAX] if ratio >= max(CLOSE, best - NEARLY)]
    return f", did you mean {' or '.join(meant)}?" if meant else ""
