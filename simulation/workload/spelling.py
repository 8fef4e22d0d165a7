"""Suggests the intended name for an unknown one."""

from collections.abc import Iterable
from difflib import get_close_matches

from staticfire.protocol.errors import UsageError


def check_known(name: str, known: Iterable[str], what: str) -> None:
    """Raises: UsageError if `name` isn't one of the known names; it suggests the nearest one."""
    names = list(known)
    if name not in names:
        raise UsageError(f"there is no {what} {name!r}; {did_you_mean(name, names)}")


def did_you_mean(name: str, names: list[str]) -> str:
    """Return the nearest name as a question, or all names if none is near."""
    near = get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, names)) or 'none'}"
