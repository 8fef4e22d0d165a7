"""Each exception to a code rule (`# house: <why>`) is still needed."""

import re

from tests.house import (
    test_callers,
    test_imports,
    test_names,
    test_outside_world,
    test_private_state,
    test_sizes,
    test_wiring,
    test_words,
)
from tests.house.source import AROUND, BEING_MENDED, LAYERS, sources

RULES = [
    *test_callers.RULES,
    *test_imports.RULES,
    *test_names.RULES,
    *test_outside_world.RULES,
    *test_private_state.RULES,
    *test_sizes.RULES,
    *test_wiring.RULES,
    *test_words.RULES,
]


def test_no_exception_outlives_what_it_excuses() -> None:
    needed = {(finding.source.path, line) for rule in RULES for finding in rule() for line in finding.excuses}
    made = {(source.path, line) for source in sources(*LAYERS, *AROUND) for line in source.exceptions}
    assert sorted(f"{path}:{line} excuses nothing: take it away" for path, line in made - needed) == []


def test_what_is_mended_is_on_no_list_any_more() -> None:
    findings = [str(finding) for rule in RULES for finding in rule() if not finding.excuses]
    done = [pattern for pattern in BEING_MENDED if not any(re.search(pattern, words) for words in findings)]
    assert not done, "take it away in tests/house/source.py: " + ", ".join(done)
