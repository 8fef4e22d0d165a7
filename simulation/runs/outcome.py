"""What a run came to."""

import msgspec

from staticfire.simulation.checkers.checker import Violation
from staticfire.simulation.checkers.events import RunEvent
from staticfire.simulation.workload.strikes import Strike


class RunOutcome(msgspec.Struct, frozen=True):
    """The verdict over one seed."""

    seed: int
    violations: list[Violation]
    strikes: list[Strike]
    states: dict[str, int]
    """How often something interesting was seen."""
    virtual_ms: int
    cpu_s: float
    fingerprint: str
    """The same for two runs in which the same happened at the same time."""
    events: list[RunEvent] = []
    """Of a run that was asked to keep them."""
    was_played: bool = True

    @classmethod
    def not_played(cls, seed: int, words: str) -> "RunOutcome":
        """Return what is told of a seed whose workload could not be made."""
        return cls(seed, [Violation("Workload", 0, words)], [], {}, 0, 0.0, "", was_played=False)

    @property
    def passed(self) -> bool:
        return not self.violations

    def __str__(self) -> str:
        if self.passed:
            return f"seed {self.seed}: all promises kept, {self.virtual_ms / 3_600_000:.2f} h, {self.fingerprint}"
        lines = [f"seed {self.seed}: {len(self.violations)} broken promises", *map(str, self.violations)]
        return "\n  ".join(lines)
