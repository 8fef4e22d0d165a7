"""Settings for all tests: hypothesis and signals. All other configuration of pytest is in pyproject.toml."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Tests share two cores with other programs, so a slow example means nothing for the code.
# Each run tries other examples, so fewer of them at a time find the same in the end.
settings.register_profile(
    "staticfire", max_examples=60, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("staticfire")

# By these, clients sign and speak TLS.
SIGNING = {
    name: os.environ.get(name) for name in ("ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY", "STATICFIRE_TLS_ENABLE")
}

# Under nohup, and in the background of a script, these signals are ignored, by this process and its children. Then
# tests of Ctrl-C and of closed terminals would never end.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True, scope="module")
def _what_stays_is_collected_once() -> Iterator[None]:
    """Exclude from later collections what is left after a module's tests.

    Otherwise each full collection looks at all modules and test reports again, which took a quarter of the tests' time.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_command_outlives_its_test() -> Iterator[None]:
    """Restore after each test what a command changes in its process.

    It blocks stop signals until the process that it turns into can handle them; in a test it turns into none. And it
    signs as the owner of its cluster, by the environment: later tests would sign with a key that nobody knows.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    _sign_as_at_the_start()


@pytest.fixture(autouse=True, scope="module")
def _no_command_outlives_its_module() -> Iterator[None]:
    """The same for what fixtures of a module have run."""
    yield
    _sign_as_at_the_start()


def _sign_as_at_the_start() -> None:
    for name, value in SIGNING.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
