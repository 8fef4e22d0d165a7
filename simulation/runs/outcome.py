"""The result of a run."""

import msgspec

from staticfire.simulation.checkers.checker import Violation
from staticfire.simulation.checkers.events import RunEvent
from staticfire.simulation.workload.strikes import Strike


class RunOutcome(msgspec.Struct, frozen=True):
    """The result for one seed."""

    seed: int
    violations: list[Violation]
    strikes: list[Strike]
    states: dict[str, int]
    """How often interesting states occurred, by name."""
    virtual_ms: int
    cpu_s: float
    fingerprint: str
    """Equal for two runs with the same events at the same times."""
    events: list[RunEvent] = []
    """The events, if the run was configured to keep them."""
    was_played: bool = True
    strikes_from_ms: int = 0
    """The time of the run from which the times of the strikes count: before it, members share the queues."""

    @classmethod
    def not_played(cls, seed: int, words: str) -> "RunOutcome":
        """Return the result for a seed whose workload couldn't be created."""
        return cls(seed, [Violation("Workload", 0, words)], [], {}, 0, 0.0, "", was_played=False)

    @property
    def passed(self) -> bool:
        return not self.violations

    @property
    def strike_lines(self) -> list[str]:
        """The strikes in words. Their times are those of the run, as the times of events and violations are."""
        zero_ms = self.strikes_from_ms
        return [str(msgspec.structs.replace(strike, at_ms=strike.at_ms + zero_ms)) for strike in self.strikes]

    def __str__(self) -> str:
        if self.passed:
            return f"seed {self.seed}: all promises kept, {self.virtual_ms / 3_600_000:.2f} h, {self.fingerprint}"
        lines = [f"seed {self.seed}: {len(self.violations)} broken promises", *map(str, self.violations)]
        return "\n  ".join(lines)
