"""Imports in a user's process: no garbage collection meanwhile, and none of them is looked at right afterwards."""

import gc
from collections.abc import Iterator

import pytest

from staticfire.protocol.lazy_names import CollectionPaused


@pytest.fixture(autouse=True)
def _nothing_frozen() -> Iterator[None]:
    gc.unfreeze()  # Runs of the simulation in the same process freeze objects.
    yield
    gc.unfreeze()
    gc.enable()


def test_what_was_made_meanwhile_is_in_the_oldest_generation() -> None:
    gc.collect()
    with CollectionPaused():
        assert not gc.isenabled()
        made: list[list[object]] = [[] for _ in range(10_000)]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert len(gc.get_objects(generation=0)) < len(made)
    made[0].append(made)  # It is still looked at: a cycle that nothing refers to is collected.
    del made
    assert gc.collect() > 0


def test_who_has_paused_it_finds_it_paused() -> None:
    gc.disable()
    with CollectionPaused():
        pass
    assert not gc.isenabled()


def test_what_a_program_has_frozen_stays_frozen() -> None:
    kept: list[object] = []
    gc.freeze()
    with CollectionPaused():
        pass
    assert not any(one is kept for one in gc.get_objects())  # Frozen objects aren't among them.
