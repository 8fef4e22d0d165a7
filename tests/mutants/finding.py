"""Which seed of the swarm finds a mutant, and what it says then."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from staticfire.faults.runs.outcome import RunOutcome
from staticfire.faults.runs.play import Play, play
from staticfire.faults.runs.swarm import swarm_workload
from tests.mutants.mutants import MUTANTS

HOURS = 0.02
SEEDS_MAX = 200
KNOWN = Path(__file__).with_name("known.json")


class Found(NamedTuple):
    """What a seed has found."""

    mutant: str
    seed: int
    tries: int
    checker: str
    words: str


def played(name: str, seed: int) -> RunOutcome:
    """Play a seed with a mutant in place of what it is a variant of."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name](patch)
        return play(swarm_workload, Play(seed, HOURS))


def find(name: str, first: int = 1) -> Found | None:
    """Return what finds a mutant first, and nothing without it; None: nothing, within SEEDS_MAX seeds."""
    for tries, seed in enumerate(range(first, first + SEEDS_MAX), 1):
        outcome = played(name, seed)
        if outcome.violations and play(swarm_workload, Play(seed, HOURS)).passed:
            violation = outcome.violations[0]
            return Found(name, seed, tries, violation.checker, violation.words)
    return None


def known() -> dict[str, Found]:
    """Return what was found last, by mutant."""
    rows = json.loads(KNOWN.read_text()) if KNOWN.exists() else []
    return {row["mutant"]: Found(**row) for row in rows}


def keep(found: list[Found]) -> None:
    """Write down what was found, in the order of the mutants."""
    order = list(MUTANTS)
    rows = sorted(found, key=lambda one: order.index(one.mutant))
    KNOWN.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")
