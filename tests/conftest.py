"""Settings for all tests: hypothesis and signals. All other configuration of pytest is in pyproject.toml."""

import gc
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Tests share two cores with other programs, so a slow example means nothing for the code.
# Each run tries other examples, so fewer of them at a time find the same in the end.
settings.register_profile(
    "staticfire", max_examples=40, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("staticfire")

# Under nohup, and in the background of a script, these signals are ignored, by this process and its children. Then
# tests of Ctrl-C and of closed terminals would never end.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Most objects of a test live until its end, so the garbage collector finds little before. Those of the collection of
# tests live until the last one's.
gc.set_threshold(20_000, 20, 20)
gc.disable()


def pytest_collection_finish() -> None:
    """Let the garbage collector begin, and exclude the modules and the tests themselves."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _what_stays_is_collected_once() -> Iterator[None]:
    """Exclude from later collections what is left after a module's tests.

    Otherwise each full collection looks at all modules and test reports again, which took a quarter of the tests' time.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _stop_signals_come_through() -> Iterator[None]:
    """Restore the signal mask after each test.

    A command blocks stop signals until the process that it turns into can handle them. In a test it turns into none.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
