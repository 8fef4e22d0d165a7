"""Suggest existing names for one that doesn't exist."""

from collections.abc import Iterable

# CLOSE: the least similarity of a suggestion. NEARLY: the greatest difference of its similarity from the best one.
CLOSE, NEARLY, SHOWN_MAX = 0.6, 0.1, 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `, did you mean orders?`, or "" if no known name is similar."""
    from difflib import SequenceMatcher  # here: few calls have a typing error

    close = sorted(((SequenceMatcher(None, name.lower(), one.lower()).ratio(), one) for one in known), reverse=True)
    best = close[0][0] if close else 0.0
    meant = [one for ratio, one in close[:SHOWN_MAX] if ratio >= max(CLOSE, best - NEARLY)]
    return f", did you mean {' or '.join(meant)}?" if meant else ""
