"""Settings for all tests: hypothesis and signals. All other configuration of pytest is in pyproject.toml."""

import gc
import importlib
import signal
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

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


def pytest_collection(session: pytest.Session) -> None:
    """Import a part of the test files, if this is one of several workers; pytest then collects all files.

    In a fresh clone pytest rewrites the asserts of each file, which takes as long as everything else before the first
    test. So each worker does that for its part, and finds the files of the other workers' parts on the disk.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    modules = _test_modules(session.config)
    for module in modules[number * len(modules) // count : (number + 1) * len(modules) // count]:
        # pytest imports the module again if that fails, and reports it.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(module)


def _test_modules(config: pytest.Config) -> list[str]:
    """Return the modules of all test files below the folders that pytest was started with, in order.

    Those of packages are left out: pytest gives them other names.
    """
    ignored = [Path(path).resolve() for path in config.getoption("ignore") or ()]
    files = sorted(file for folder in config.args for file in Path(folder).resolve().rglob("test_*.py"))
    return [
        ".".join(file.relative_to(config.rootpath).with_suffix("").parts)
        for file in files
        if not any(map(file.is_relative_to, ignored)) and not (file.parent / "__init__.py").exists()
    ]


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """Restore the signal mask after each test.

    A command blocks stop signals until the process that it turns into can handle them. In a test it turns into none.
    A fixture for all tests would take half a second of their time.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    try:
        return (yield)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
