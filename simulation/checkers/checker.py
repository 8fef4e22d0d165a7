"""The base class of checkers: a checker gets the events of a run and reports which promise was broken, when and why.

Checkers are independent of virtual time: the same events can come from a real cluster.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from staticfire.simulation.checkers.events import RunEvent
from staticfire.simulation.workload.own_code import OWN_ERRORS, told

if TYPE_CHECKING:
    from staticfire.simulation.workload.description import Group, Workload

# The maximum number of reports per checker; further violations are dropped.
VIOLATIONS_MAX = 20


class Violation(msgspec.Struct, frozen=True):
    """A promise that was broken."""

    checker: str
    at_ms: int
    words: str

    def __str__(self) -> str:
        return f"{self.checker} at {self.at_ms / 1000:.3f} s: {self.words}"


class Checker:
    """One promise. Subclasses implement `see`, and `finish` for what can be decided only at the end."""

    promise: ClassVar[str] = ""
    hears: ClassVar[tuple[type[RunEvent], ...]] = (RunEvent,)
    """The types of events that it gets; RunEvent: all."""

    def __init__(self, workload: "Workload") -> None:
        self.workload = workload
        self.groups: dict[str, Group] = {group.name: group for group in workload.groups}
        self.violations: list[Violation] = []

    def see(self, event: RunEvent) -> None:
        """Process an event."""

    def finish(self) -> None:
        """Report what follows from all events."""

    def broken(self, at_ms: int, words: str) -> None:
        """Report a violation."""
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(Violation(type(self).__name__, int(at_ms), str(words)))


class Checkers:
    """All checkers of a run. A checker that raises is reported with the line of its error, and gets no more events."""

    def __init__(self, workload: "Workload", kinds: Sequence[type[Checker]]) -> None:
        self._found: list[Violation] = []
        self._listening: dict[type[RunEvent], list[Checker]] = {}
        self.all: list[Checker] = []
        for kind in (*kinds, *workload.checkers):
            try:
                self.all.append(kind(workload))
            except OWN_ERRORS as error:
                self._fail(kind, 0, error, kind.__init__)

    def see(self, event: RunEvent) -> None:
        """Give an event to the checkers that want events of its type."""
        kind = type(event)
        listening = self._listening.get(kind)
        if listening is None:
            listening = self._listening[kind] = [one for one in self.all if issubclass(kind, one.hears)]
        for checker in listening:
            try:
                checker.see(event)
            except OWN_ERRORS as error:
                self._give_up(checker, event.at_ms, error, checker.see)

    def finish(self) -> list[Violation]:
        """Return all violations, the earliest first."""
        for checker in list(self.all):
            try:
                checker.finish()
                self._found += checker.violations
            except OWN_ERRORS as error:
                self._give_up(checker, 0, error, checker.finish)
        return sorted(self._found, key=lambda violation: violation.at_ms)

    def _give_up(self, checker: Checker, at_ms: int, error: BaseException, called: object) -> None:
        """Keep what a checker has found so far, and report that it failed."""
        self._found += getattr(checker, "violations", ())
        self._fail(type(checker), at_ms, error, called)
        self.all = [one for one in self.all if one is not checker]
        self._listening = {}

    def _fail(self, kind: type[Checker], at_ms: int, error: BaseException, called: object) -> None:
        self._found.append(Violation(kind.__name__, at_ms, f"the checker itself failed: {told(error, called)}"))
