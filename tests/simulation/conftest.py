"""Settings for tests of the simulation: the garbage collector."""

import pytest

from staticfire.simulation.runs.play import freeze_for_good


@pytest.fixture(autouse=True, scope="package")
def _no_run_looks_at_all_objects() -> None:
    """Take all objects from the garbage collector once, as a process that plays many runs does.

    Otherwise each run does so, and gives them back: the collections before and after it took a third of its time.
    """
    freeze_for_good()
