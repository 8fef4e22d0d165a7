"""The pytest plugin. pytest finds it wherever staticfire is installed; it loads nothing until a test uses it.

    def test_orders(rocketmq): ...                                    # an empty cluster with its own message time

    @pytest.mark.rocketmq(brokers=2, isolation="process")             # parameters of Cluster for this test
    def test_failover(rocketmq): ...

Tests with the same parameters share a cluster. It starts before the first of them and is reset between tests, which
takes milliseconds. Each worker of pytest-xdist has its own. The report of a failed test describes the consumer groups
as they were when it failed: `failures.py`.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from staticfire.testing.failures import FailureReport
    from staticfire.testing.real_target import RealTarget
    from staticfire.testing.rocketmq import RocketMQ
    from staticfire.testing.target import StandTarget

_FAILURE_REPORT: "pytest.StashKey[FailureReport]" = pytest.StashKey()
_NO_CALL = SimpleNamespace(params={})
_PASSED: "pytest.StashKey[bool]" = pytest.StashKey()
"""Whether the test's own lines have passed. `weather.py` needs it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that apply to all tests."""
    group = parser.getgroup("rocketmq")
    group.addoption(
        "--rocketmq-target",
        metavar="HOST:PORT",
        help="run tests that have the fixture `rocketmq` on this real cluster (also: ROCKETMQ_TARGET); "
        "those that need a clock or processes of their own are skipped there",
    )
    parser.addini("rocketmq_brokers", "how many brokers clusters have, unless a marker says otherwise", default="1")
    parser.addini("rocketmq_settings", "settings under RocketMQ's names: lines of name=value", type="linelist")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", "rocketmq(**parameters): parameters of staticfire.Cluster for the fixture `rocketmq` of this test"
    )


@pytest.fixture(scope="session")
def _rocketmq_targets() -> "Iterator[dict[str, StandTarget | RealTarget]]":
    """The clusters of this session, by their parameters."""
    targets: dict[str, StandTarget | RealTarget] = {}
    yield targets
    for target in targets.values():
        target.stop()


@pytest.fixture
def _rocketmq_weather(request: pytest.FixtureRequest) -> str | None:
    """The weather of this test: `calm`, or a seed; None for a test without the marker's parameter `chaos`."""
    return getattr(request, "param", None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test with `@pytest.mark.rocketmq(chaos=...)` for each seed."""
    marker = metafunc.definition.get_closest_marker("rocketmq")
    if marker is not None and "chaos" in marker.kwargs:
        from staticfire.testing.weather import parametrize

        parametrize(metafunc)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let a test's run in calm weather be the first of its runs, in whatever order another plugin has put them."""
    if any("_rocketmq_weather" in getattr(item, "callspec", _NO_CALL).params for item in items):
        from staticfire.testing.weather import calm_first

        calm_first(items)


@pytest.fixture
def rocketmq(
    request: pytest.FixtureRequest,
    _rocketmq_targets: "dict[str, StandTarget | RealTarget]",
    _rocketmq_weather: str | None,
) -> "Iterator[RocketMQ]":
    """A RocketMQ cluster for this test: empty, with running message time. See `staticfire.testing.RocketMQ`."""
    from staticfire.protocol.lazy_names import CollectionPaused

    with CollectionPaused():
        from staticfire.protocol.errors import StaticfireError, UsageError
        from staticfire.testing.target import target_of

    try:
        parameters = _parameters(request)
        if _rocketmq_weather is not None:
            from staticfire.testing.weather import weather, without_chaos

            parameters = without_chaos(parameters)
        key = repr(sorted(parameters.items()))
        if key not in _rocketmq_targets:
            target = target_of(parameters, request.config.getoption("--rocketmq-target"))
            target.start()
            _rocketmq_targets[key] = target
        cluster = _rocketmq_targets[key].begin_test()
    except StaticfireError as error:
        pytest.fail(f"rocketmq: {error}", pytrace=False)
    from staticfire.runtime.failing_blocks import observed
    from staticfire.testing.failures import FailureReport

    request.node.stash[_FAILURE_REPORT] = report = FailureReport(cluster)
    with closing(cluster), observed(report):
        if _rocketmq_weather is None:
            yield cluster
            return
        try:
            with weather(request, cluster, _rocketmq_weather, lambda: request.node.stash.get(_PASSED, False)):
                yield cluster
        except BaseException as error:
            report.failed(error)  # Weather that doesn't begin is reported after the cluster is closed.
            if isinstance(error, UsageError):
                pytest.fail(f"rocketmq: {error}", pytrace=False)
            raise


def _parameters(request: pytest.FixtureRequest) -> Mapping[str, Any]:
    """Return the parameters that differ from the defaults: those of the ini file, then those of the test's marker."""
    from staticfire.protocol.errors import UsageError

    found: dict[str, Any] = {}
    brokers = request.config.getini("rocketmq_brokers")
    if not brokers.isdecimal():
        raise UsageError(f"rocketmq_brokers = {brokers}: a whole number is needed")
    if int(brokers) != 1:
        found["brokers"] = int(brokers)
    settings: dict[str, str] = {}
    for line in request.config.getini("rocketmq_settings"):
        name, equals, value = line.partition("=")
        if not equals:
            raise UsageError(f"rocketmq_settings: {line!r} isn't name=value")
        settings[name.strip()] = value.strip()
    marker = request.node.get_closest_marker("rocketmq")
    if marker is not None and marker.args:
        raise UsageError(f"@pytest.mark.rocketmq takes parameters by name, like brokers=2; not {marker.args[0]!r}")
    given = dict(marker.kwargs) if marker is not None else {}
    chosen = given.pop("settings", None) or {}
    if not isinstance(chosen, Mapping):
        words = f'settings={chosen!r}: it must be a dictionary, like {{"autoCreateTopicEnable": False}}'
        raise UsageError(f"@pytest.mark.rocketmq({words})")
    settings |= chosen
    return {**found, **given, **({"settings": settings} if settings else {})}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Add the state of the consumer groups to the report of a failed test, and place a skip at the test."""
    if call.when == "call" and "_rocketmq_weather" in getattr(item, "fixturenames", ()):
        item.stash[_PASSED] = call.excinfo is None
    if call.excinfo is None or "rocketmq" not in getattr(item, "fixturenames", ()):
        return (yield)
    from staticfire.testing.failures import forget_our_frames, place_of_skip

    error = call.excinfo.value  # pytest replaces a SkipTest of unittest.
    forget_our_frames(error)
    report = yield
    described = item.stash.get(_FAILURE_REPORT, None)
    if report.failed and described is not None and call.when != "teardown":
        report.sections.append(("RocketMQ", described.text_for(error)))
    if report.skipped and isinstance(report.longrepr, tuple) and (place := place_of_skip(item, error)) is not None:
        report.longrepr = (*place, report.longrepr[2])
    return report
