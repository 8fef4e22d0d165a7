"""The results of a sweep as plain values. The page is made of these, and tests create them directly."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a measure over the runs of a combination: minimum, quartiles, maximum, mean."""

    low: float
    q1: float
    median: float
    q3: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True)
class Combination:
    """All runs with the same values of the varied settings."""

    values: tuple[str, ...]
    runs: int
    failed: int
    """The number of runs that broke a promise."""
    errors: int
    """The number of rows without a run."""
    spreads: dict[str, Spread | None]
    """By measure; None if no run has a value."""


@dataclass(frozen=True, slots=True)
class NotableRun:
    """A run that is worth a look, with the reason."""

    why: str
    values: tuple[str, ...]
    seed: int
    words: str
    command: str


@dataclass(frozen=True, slots=True)
class SweepFigures:
    """All results."""

    names: tuple[str, ...]
    runs: int
    failed: int
    errors: int
    virtual_ms: int
    cpu_s: float
    combinations: tuple[Combination, ...]
    notable: tuple[NotableRun, ...]
