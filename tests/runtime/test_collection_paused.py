"""Imports in a user's process: no garbage collection meanwhile, and none of them is looked at right afterwards.

Each test is a program of its own: other tests freeze objects, and a collection of all of theirs takes a second.
"""

import subprocess
import sys
from textwrap import dedent

from tests.cli.commands import ROOT

BEGINS = "import gc\nfrom staticfire.protocol.lazy_names import CollectionPaused\n"


def run(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGINS + dedent(program)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_was_made_meanwhile_is_in_the_oldest_generation() -> None:
    run("""
        gc.set_threshold(1_000_000)  # No collection of its own.
        with CollectionPaused():
            assert not gc.isenabled()
            import statistics
            made = [[] for _ in range(10_000)]
        assert gc.isenabled()
        assert gc.get_freeze_count() == 0
        assert any(one is made for one in gc.get_objects(generation=2))
        made[0].append(made)  # It is still looked at: a cycle that nothing refers to is collected.
        del made
        assert gc.collect() > 0
    """)


def test_nothing_is_moved_where_everything_was_imported_before() -> None:
    run("""
        import statistics
        gc.set_threshold(1_000_000)
        young = []
        with CollectionPaused():
            import statistics
        assert gc.isenabled()
        assert not any(one is young for one in gc.get_objects(generation=2))
    """)


def test_who_has_paused_it_finds_it_paused() -> None:
    run("""
        gc.disable()
        with CollectionPaused():
            pass
        assert not gc.isenabled()
    """)


def test_what_a_program_has_frozen_stays_frozen() -> None:
    run("""
        kept = []
        gc.freeze()
        with CollectionPaused():
            import statistics
        assert not any(one is kept for one in gc.get_objects())  # Frozen objects aren't among them.
    """)
