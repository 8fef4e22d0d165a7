"""The record of a run while it runs: its events, which are given to the checkers, and counts of interesting states."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from staticfire.runtime.machine import Machine
from staticfire.simulation.checkers.events import RunEvent
from staticfire.simulation.runs.interest import Interest

EVENTS_KEPT_MAX = 500_000


class RunRecord:
    """The events of a run in order."""

    def __init__(self, hear: Callable[[RunEvent], None], keeps_events: bool) -> None:
        """`hear` is called with each event."""
        self.events: list[RunEvent] = []
        self.count = 0
        self.is_open = True
        """False after the end of the run, when the coroutines of killed processes are closed."""
        self._interest = Interest()
        self._hear = hear
        self._keeps_events = keeps_events

    def note(self, event: RunEvent) -> None:
        """Record an event."""
        if not self.is_open:
            return
        self.count += 1
        if self._keeps_events and self.count <= EVENTS_KEPT_MAX:
            self.events.append(event)
        self._interest.see(event)
        self._hear(event)

    @property
    def states(self) -> Counter[str]:
        """How often interesting states occurred, by name."""
        return self._interest.states


class Seat(NamedTuple):
    """The machine of a program, and what the program works with."""

    machine: Machine
    namesrv: str
    seed: int
    record: RunRecord
