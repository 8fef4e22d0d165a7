"""Cases of one behaviour: `make test` runs the first of them, `make test-slow` all others."""

from collections.abc import Iterable

import pytest


def first_and_slow(values: Iterable[object]) -> list[object]:
    """Return the cases of a parametrized test, each of them expensive: all but the first are slow."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
