"""Each mutant still has what it breaks; CI looks for all of them (`make test-simulation`)."""

import pytest

from tests.mutants.mutants import MUTANTS

pytestmark = pytest.mark.row("S3")

WANTED = 25


@pytest.mark.parametrize("name", MUTANTS)
def test_what_a_mutant_breaks_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)


def test_there_are_enough() -> None:
    assert len(MUTANTS) >= WANTED
