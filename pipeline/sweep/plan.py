"""The runs of a sweep: each combination of the varied values with each seed. Pure.

Every combination uses the same seeds, so two combinations differ only in the varied values.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import NamedTuple

from staticfire.protocol.errors import UsageError
from staticfire.simulation.runs.seeds import again_command, made_for
from staticfire.simulation.runs.swarm import maker_of
from staticfire.simulation.workload.varying import varied

RUNS_MAX = 1_000_000


class SweepRun(NamedTuple):
    """One row of the table: its number, the seed, and the value of each varied setting."""

    run: int
    seed: int
    values: tuple[str, ...]


@dataclass(frozen=True)
class SweepPlan:
    """All runs. Raises: UsageError (an unknown name or value, too many runs, an invalid workload)."""

    path: str
    """The path of the workload file; empty: each seed generates its own workload."""
    seeds: range
    hours: float
    vary: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        names = self.names
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"--vary {name} is given twice: write all its values in one option, {name}=a,b,c")
        make = maker_of(self.path)
        workload = made_for(make, self.seeds[0])
        for name, values in self.vary:
            if not values or len(set(values)) < len(values):
                raise UsageError(f"--vary {name}={','.join(values)}: write different values, separated by commas")
            for value in values:
                varied(workload, {name: value})
        if self.count > RUNS_MAX:
            raise UsageError(f"{self.count:,} runs are too many; the limit is {RUNS_MAX:,}: use fewer seeds or values")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the varied settings."""
        return tuple(name for name, _ in self.vary)

    @property
    def combinations(self) -> list[tuple[str, ...]]:
        """All combinations of values; the last name's changes fastest. One empty combination if nothing is varied."""
        return list(product(*(values for _, values in self.vary)))

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.seeds) * prod(len(values) for _, values in self.vary)

    def runs(self) -> Iterator[SweepRun]:
        """Yield the table, seed by seed."""
        pairs = ((seed, values) for seed in self.seeds for values in self.combinations)
        for number, (seed, values) in enumerate(pairs, 1):
            yield SweepRun(number, seed, values)

    def changes(self, values: Sequence[str]) -> dict[str, str]:
        """Return the changed settings of a row."""
        return dict(zip(self.names, values, strict=True))

    def command(self, run: SweepRun) -> str:
        """Return the command that repeats a row."""
        return again_command(run.seed, self.path, self.hours, self.changes(run.values))

    @cached_property
    def digest(self) -> str:
        """Identifies the content of the workload file, so that a changed one isn't mixed with earlier runs."""
        return hashlib.blake2b(self.text.encode(), digest_size=8).hexdigest()

    @cached_property
    def text(self) -> str:
        """The content of the workload file, for executors that don't have it."""
        return Path(self.path).read_text(encoding="utf-8") if self.path else ""


def read_vary(text: str) -> tuple[str, tuple[str, ...]]:
    """Parse `name=a,b,c`; return the name and its values. Raises: UsageError."""
    name, separator, values = text.partition("=")
    if not separator or not name.strip():
        raise UsageError(f"--vary {text!r}: write name=value,value, like rebalance_interval_ms=1000,5000")
    return name.strip(), tuple(value.strip() for value in values.split(",") if value.strip())
