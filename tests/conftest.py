"""What all tests share: how hypothesis and signals behave. Everything else of pytest's set-up is in pyproject.toml."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Tests share two cores with whatever else runs, so a slow example says nothing about the code.
settings.register_profile("staticfire", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("staticfire")

# Under nohup, and in the background of a script, these are ignored, by this process and by what it starts; tests of
# Ctrl-C and of closed terminals would wait in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _stop_signals_come_through() -> Iterator[None]:
    """Commands hold stop signals back for what they become. One that a test calls here becomes nothing."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
