"""What is kept of a run while it goes on: its events, told to the checkers, and counts of interesting states."""

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from staticfire.runtime.machine import Machine
from staticfire.simulation.checkers.events import RunEvent
from staticfire.simulation.runs.interest import Interest

EVENTS_KEPT_MAX = 500_000


class RunRecord:
    """The events of a run, in their order."""

    def __init__(self, hear: Callable[[RunEvent], None], keeps_events: bool) -> None:
        """`hear` is called with each event."""
        self.events: list[RunEvent] = []
        self.count = 0
        self.is_open = True
        """False when it is over: coroutines of killed processes are closed after that."""
        self._interest = Interest()
        self._hear = hear
        self._keeps_events = keeps_events

    def note(self, event: RunEvent) -> None:
        """Take in what happened."""
        if not self.is_open:
            return
        self.count += 1
        if self._keeps_events and self.count <= EVENTS_KEPT_MAX:
            self.events.append(event)
        self._interest.see(event)
        self._hear(event)

    @property
    def states(self) -> Counter[str]:
        """How often something was seen that is worth knowing."""
        return self._interest.states


class Seat(NamedTuple):
    """Where a program of a run sits, and what it works with."""

    machine: Machine
    namesrv: str
    seed: int
    record: RunRecord
