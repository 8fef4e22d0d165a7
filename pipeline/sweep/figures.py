"""What a sweep came to, as plain values: the page is made of these, and a test makes them by hand."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """How a measure is spread over the runs of a combination: least, quarters, most."""

    low: float
    q1: float
    median: float
    q3: float
    high: float
    mean: float


@dataclass(frozen=True, slots=True)
class Combination:
    """All runs with the same values."""

    values: tuple[str, ...]
    runs: int
    failed: int
    """A promise was broken."""
    errors: int
    """There was no run."""
    spreads: dict[str, Spread | None]
    """By measure; None: no run of it had any."""


@dataclass(frozen=True, slots=True)
class NotableRun:
    """A run that is worth looking at, and why."""

    why: str
    values: tuple[str, ...]
    seed: int
    words: str
    command: str


@dataclass(frozen=True, slots=True)
class SweepFigures:
    """All of it."""

    names: tuple[str, ...]
    runs: int
    failed: int
    errors: int
    virtual_ms: int
    cpu_s: float
    combinations: tuple[Combination, ...]
    notable: tuple[NotableRun, ...]
