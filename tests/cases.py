"""Cases of one behaviour: `make test` runs the first of them, `make test-slow` the others."""

from collections.abc import Iterable

import pytest


def slow(*values: object) -> object:
    """Return a case of a parametrized test that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)


def first_and_slow(values: Iterable[object], count: int = 1) -> list[object]:
    """Return the cases of a parametrized test: all but the first `count` are slow."""
    cases = list(values)
    return [*cases[:count], *map(slow, cases[count:])]


def spread(values: Iterable[object], step: int) -> list[object]:
    """Return the cases of a parametrized test that are alike if they are near each other: each `step`-th isn't slow."""
    return [slow(value) if number % step else value for number, value in enumerate(values)]
