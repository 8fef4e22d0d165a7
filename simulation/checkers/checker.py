"""What a checker is: it hears what happens, and says which promise was broken, when and why.

A checker knows nothing of virtual time: who runs a real cluster feeds it the same events.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import msgspec

from staticfire.simulation.checkers.events import RunEvent
from staticfire.simulation.workload.own_code import OWN_ERRORS, told

if TYPE_CHECKING:
    from staticfire.simulation.workload.description import Group, Workload

VIOLATIONS_MAX = 20
# Of one checker; the rest is counted.


class Violation(msgspec.Struct, frozen=True):
    """A promise that was broken."""

    checker: str
    at_ms: int
    words: str

    def __str__(self) -> str:
        return f"{self.checker} at {self.at_ms / 1000:.3f} s: {self.words}"


class Checker:
    """One promise. Subclasses write `see`, and `finish` for what can be said at the end only."""

    promise: ClassVar[str] = ""
    hears: ClassVar[tuple[type[RunEvent], ...]] = (RunEvent,)
    """The kinds of events that it wants to see; RunEvent: all."""

    def __init__(self, workload: "Workload") -> None:
        self.workload = workload
        self.groups: dict[str, Group] = {group.name: group for group in workload.groups}
        self.violations: list[Violation] = []
        self.further = 0
        """Violations that aren't kept."""

    def see(self, event: RunEvent) -> None:
        """Hear of what happened."""

    def finish(self) -> None:
        """Say what follows from all of it."""

    def broken(self, at_ms: int, words: str) -> None:
        """Note a violation."""
        if len(self.violations) >= VIOLATIONS_MAX:
            self.further += 1
        else:
            self.violations.append(Violation(type(self).__name__, int(at_ms), str(words)))


class Checkers:
    """All checkers of a run. One that raises has failed, is told with its line, and hears no more."""

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
        """Tell those who want to hear of such an event."""
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
        """Return what was broken, the earliest first."""
        for checker in list(self.all):
            try:
                checker.finish()
                self._found += checker.violations
            except OWN_ERRORS as error:
                self._give_up(checker, 0, error, checker.finish)
        return sorted(self._found, key=lambda violation: violation.at_ms)

    def _give_up(self, checker: Checker, at_ms: int, error: BaseException, called: object) -> None:
        """Note what it has found so far, and that it failed."""
        self._found += getattr(checker, "violations", ())
        self._fail(type(checker), at_ms, error, called)
        self.all = [one for one in self.all if one is not checker]
        self._listening = {}

    def _fail(self, kind: type[Checker], at_ms: int, error: BaseException, called: object) -> None:
        self._found.append(Violation(kind.__name__, at_ms, f"the checker itself failed: {told(error, called)}"))
