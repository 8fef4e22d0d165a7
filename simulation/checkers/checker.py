"""The base class of checkers: a checker gets the events of a run and reports which promise was broken, when and why.

Checkers are independent of virtual time: the same events can come from a real cluster.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import msgspec

from staticfire.simulation.checkers.events import RunEvent
from staticfire.simulation.workload.own_code import OWN_ERRORS, words_of_error

if TYPE_CHECKING:
    from staticfire.simulation.workload.description import Group, Workload

# The maximum number of reports per checker; further violations are dropped.
VIOLATIONS_MAX = 20
# Checkers get this many events at once.
EVENTS_AT_ONCE = 1_000


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
    """All checkers of a run. A checker that raises is reported with the line of its error, and gets no more events.

    Each checker gets many events at once: while its code is in the processor's caches, they cost much less.
    """

    def __init__(
        self, workload: "Workload", kinds: Sequence[type[Checker]], on_broken: Callable[[], None] | None = None
    ) -> None:
        """`on_broken`: called once, soon after a promise was broken."""
        self._found: list[Violation] = []
        self._events: list[RunEvent] = []
        """The events that the checkers haven't got yet."""
        self._on_broken = on_broken
        self._is_cut = False
        """Whether the run ends before its time, because a promise was broken."""
        self.all: list[Checker] = []
        for kind in (*kinds, *workload.checkers):
            try:
                self.all.append(kind(workload))
            except OWN_ERRORS as error:
                self._fail(kind, 0, error, kind.__init__)

    def see(self, event: RunEvent) -> None:
        """Take an event, which the checkers that want events of its type get soon."""
        self._events.append(event)
        if len(self._events) >= EVENTS_AT_ONCE:
            self._hand_out()

    def finish(self) -> list[Violation]:
        """Return all violations, the earliest first. What follows from all events isn't known if the run was cut."""
        is_cut = self._is_cut
        self._hand_out()
        for checker in list(self.all):
            try:
                if not is_cut:
                    checker.finish()
                self._found += checker.violations
            except OWN_ERRORS as error:
                self._give_up(checker, 0, error, checker.finish)
        return sorted(self._found, key=lambda violation: violation.at_ms)

    def _hand_out(self) -> None:
        """Give the events to each checker, in order."""
        events, self._events = self._events, []
        places: defaultdict[type[RunEvent], list[int]] = defaultdict(list)
        for place, event in enumerate(events):
            places[type(event)].append(place)
        for checker in list(self.all):
            wanted = [places[kind] for kind in places if issubclass(kind, checker.hears)]
            see, at_ms = checker.see, 0
            try:
                for place in sorted(chain.from_iterable(wanted)):
                    at_ms = events[place].at_ms
                    see(events[place])
            except OWN_ERRORS as error:
                self._give_up(checker, at_ms, error, see)
        if self._on_broken is not None and any(checker.violations for checker in self.all):
            on_broken, self._on_broken = self._on_broken, None
            self._is_cut = True
            on_broken()

    def _give_up(self, checker: Checker, at_ms: int, error: BaseException, called: object) -> None:
        """Keep what a checker has found so far, and report that it failed."""
        self._found += getattr(checker, "violations", ())
        self._fail(type(checker), at_ms, error, called)
        self.all = [one for one in self.all if one is not checker]

    def _fail(self, kind: type[Checker], at_ms: int, error: BaseException, called: object) -> None:
        self._found.append(
            Violation(kind.__name__, at_ms, f"the checker itself failed: {words_of_error(error, called)}")
        )
