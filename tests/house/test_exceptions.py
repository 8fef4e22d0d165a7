"""Each exception to a rule of the house (`# house: <why>`) is one that a rule still needs."""

from tests.house import test_imports, test_names, test_outside_world, test_sizes, test_wiring
from tests.house.source import AROUND, LAYERS, sources

RULES = [*test_imports.RULES, *test_names.RULES, *test_outside_world.RULES, *test_sizes.RULES, *test_wiring.RULES]


def test_no_exception_outlives_what_it_excuses() -> None:
    needed = {(finding.source.path, line) for rule in RULES for finding in rule() for line in finding.excuses}
    made = {(source.path, line) for source in sources(*LAYERS, *AROUND) for line in source.exceptions}
    assert sorted(f"{path}:{line} excuses nothing: take it away" for path, line in made - needed) == []
