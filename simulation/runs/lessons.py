"""What a failed run teaches: each promise that was broken, the first case of it, and the faults just before. Pure."""

from collections.abc import Iterator

import msgspec

from staticfire.simulation.checkers import CHECKERS
from staticfire.simulation.checkers.checker import Violation
from staticfire.simulation.checkers.events import FaultBegan, FaultEnded
from staticfire.simulation.runs.outcome import RunOutcome

LESSONS_MAX = 8
# Faults that ended so long before a violation are listed with it.
BEFORE_MS = 60_000
_PROMISES = {kind.__name__: kind.promise for kind in CHECKERS}


class Lesson(msgspec.Struct, frozen=True):
    """A broken promise."""

    at_ms: int
    promise: str
    """In words; for a checker of the workload itself, its name."""
    words: str
    """The first case."""
    count: int
    faults: list[str]
    """The faults that were in effect at that time, or shortly before, the latest first."""


def lessons(outcome: RunOutcome) -> list[Lesson]:
    """Return what a run teaches that has kept its events, the earliest first; nothing if it passed."""
    by_checker: dict[str, list[Violation]] = {}
    for violation in outcome.violations:
        by_checker.setdefault(violation.checker, []).append(violation)
    found = []
    for checker, cases in list(by_checker.items())[:LESSONS_MAX]:
        first = cases[0]
        faults = [words for _, words in sorted(_faults_near(outcome, first.at_ms), reverse=True)]
        found.append(Lesson(first.at_ms, _PROMISES.get(checker) or checker, first.words, len(cases), faults))
    return found


def _faults_near(outcome: RunOutcome, at_ms: int) -> Iterator[tuple[float, str]]:
    """Yield the beginning and the description of each fault that may have to do with something at a time."""
    open_since: dict[tuple[str, str], float] = {}
    for event in outcome.events:
        if isinstance(event, FaultBegan | FaultEnded) and event.at_ms <= at_ms:
            what = event.what, event.target
            if isinstance(event, FaultBegan):
                open_since[what] = event.at_ms
            elif (began_ms := open_since.pop(what, None)) is not None and at_ms - event.at_ms <= BEFORE_MS:
                ended = f"until {event.at_ms / 1000:.3f} s"
                yield began_ms, f"{_words(what, began_ms)} {ended}"
    for what, began_ms in open_since.items():
        yield began_ms, f"{_words(what, began_ms)}, still in effect"


def _words(what: tuple[str, str], began_ms: float) -> str:
    kind, target = what
    return f"{kind}: {target or 'all links'}, from {began_ms / 1000:.3f} s"
