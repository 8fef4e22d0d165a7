"""`@pytest.mark.rocketmq(chaos="mild", seeds=5)`: a test without faults, then under those of seeds.

The test is repeated: `test_billing[calm]`, `test_billing[seed-1]` ... Each fails if the test itself fails, or if a
promise is broken, as with `staticfire chaos`. The calm run shows what is used; without it, or if it fails, the others
are skipped. More parameters: `each="orders -> invoices by key"` (or several), `only` and `never`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from staticfire.protocol.errors import UsageError
from staticfire.runtime.live import live_machine
from staticfire.runtime.loop_thread import LoopThread

if TYPE_CHECKING:
    from staticfire.chaos.evidence import Evidence
    from staticfire.chaos.injection import FaultInjection
    from staticfire.chaos.journals import JournalTails
    from staticfire.chaos.session import RunChecks
    from staticfire.testing.rocketmq import RocketMQ

CALM = "calm"
SEEDS = 5
WORDS = ("chaos", "seeds", "each", "only", "never")
WEATHER = "_rocketmq_weather"
"""The parameter that says which run of a test it is."""

TestKey = tuple[str, tuple[tuple[str, int], ...]]
"""A test with its own parameters, but without its weather."""
_CALM: "pytest.StashKey[dict[TestKey, Evidence | None]]" = pytest.StashKey()
"""What the brokers saw of calm tests; None: it failed."""


def parametrize(metafunc: pytest.Metafunc) -> None:
    """Repeat a test that has the marker."""
    marker = metafunc.definition.get_closest_marker("rocketmq")
    if marker is None or "chaos" not in marker.kwargs or WEATHER not in metafunc.fixturenames:
        return
    seeds = marker.kwargs.get("seeds", SEEDS)
    is_whole = isinstance(seeds, int) and not isinstance(seeds, bool)
    count = seeds if is_whole and 1 <= seeds <= 10_000 else 0  # `begin` reports a wrong one, as a failure of the test.
    names = [CALM, *(f"seed-{seed}" for seed in range(1, count + 1))]
    metafunc.parametrize(WEATHER, names, indirect=True, ids=names)


def calm_first(items: list[pytest.Item]) -> None:
    """Exchange each calm run with the first run of the same test."""
    first: dict[TestKey, int] = {}
    for index, item in enumerate(items):
        call = getattr(item, "callspec", None)
        name = None if call is None else call.params.get(WEATHER)
        if name is None:
            continue
        at = first.setdefault(_key_of(item), index)
        if name == CALM and at != index:
            items[at], items[index] = items[index], items[at]


def _key_of(item: pytest.Item) -> TestKey:
    """Return what the runs of a test have in common. Its own parameters are part of it: they may change what it uses.

    All runs have the same objects as values. They needn't be hashable or comparable, so their identities are compared.
    """
    values: dict[str, object] = item.callspec.params  # type: ignore[attr-defined]  # The class is private in pytest.
    own = sorted((name, id(value)) for name, value in values.items() if name != WEATHER)
    return item.nodeid.partition("[")[0], tuple(own)


def without_chaos(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of the cluster. Rough weather kills and freezes processes, so it needs some."""
    found = {name: value for name, value in parameters.items() if name not in WORDS}
    if parameters.get("chaos") in ("rough", "hell"):
        found.setdefault("isolation", "process")
    return found


@contextmanager
def weather(
    request: pytest.FixtureRequest, cluster: "RocketMQ", name: str, is_passed: Callable[[], bool]
) -> Iterator[None]:
    """Play the weather of one test, and fail it if a promise is broken.

    `name`: `calm`, `seed-1` ... `is_passed`: returns whether the test's own lines have passed.
    """
    marker = request.node.get_closest_marker("rocketmq")
    test = TestWeather(request, cluster, judge_of(marker.kwargs), marker.kwargs)
    thread = LoopThread("the weather of this test")
    try:
        thread.call(test.begin(name))
        yield
        thread.call(test.end(name, is_passed()))
    finally:
        thread.close()


class TestWeather:
    """The weather of one test. Its coroutines run in a thread of their own, while the test may block."""

    __test__ = False

    def __init__(
        self, request: pytest.FixtureRequest, cluster: "RocketMQ", judge: "RunChecks", words: Mapping[str, Any]
    ) -> None:
        self._cluster = cluster.cluster.aio
        self._settings = cluster.client_settings
        self._clock = live_machine().clock
        self._judge = judge
        self._words = words
        self._known = request.config.stash.setdefault(_CALM, {})
        self._key = _key_of(request.node)
        self._began_ms = 0
        self._journals: JournalTails | None = None
        self._injection: FaultInjection | None = None
        self._stack = AsyncExitStack()

    async def begin(self, name: str) -> None:
        """Send the rules of this test's faults."""
        from staticfire.chaos.connections import connections
        from staticfire.chaos.injection import FaultInjection
        from staticfire.chaos.journals import JournalTails
        from staticfire.chaos.member import CLIENT_ID
        from staticfire.chaos.usage import learn
        from staticfire.chaos.weather import plan

        faults = []
        if name != CALM:
            calm = self._known.get(self._key)
            if calm is None:
                pytest.skip("its run in calm weather hasn't passed here, so nothing is known about what it uses")
            usage = learn(calm.events, calm.requests, self._cluster.addresses)
            seed = int(name.removeprefix("seed-"))
            wanted = self._words
            faults = plan(seed, usage, wanted["chaos"], names_in(wanted, "only"), names_in(wanted, "never"))
        async with AsyncExitStack() as opened:
            pool = await opened.enter_async_context(connections(self._settings))
            self._journals = JournalTails(pool, self._cluster.addresses, [CLIENT_ID])
            await self._journals.read()
            self._journals.forget()  # What is older belongs to another test.
            self._injection = FaultInjection(self._cluster, self._journals, faults, self._settings)
            await self._injection.prepare()
            self._stack = opened.pop_all()
        self._injection.start()
        self._began_ms = self._clock.wall_ms()

    async def end(self, name: str, is_passed: bool) -> None:
        """End the faults; fail the test if a promise is broken."""
        from staticfire.chaos.evidence import Evidence
        from staticfire.chaos.stored import read_stored

        assert self._journals is not None and self._injection is not None  # noqa: PT018 (`begin` has set both)
        try:
            await self._injection.finish()
            await self._journals.read()
            stored = await read_stored(self._cluster.namesrv, self._settings)
        finally:
            await self._stack.aclose()
        events, requests = self._journals.in_order()
        injected, gaps = self._injection.injected, frozenset(self._journals.gaps)
        ended_ms = self._clock.wall_ms()
        code = 0 if is_passed else 1
        evidence = Evidence(events, requests, stored, code, self._began_ms, ended_ms, injected, gaps)
        self._conclude(name, evidence, is_passed)

    def _conclude(self, name: str, evidence: "Evidence", is_passed: bool) -> None:
        if name == CALM:
            self._known[self._key] = evidence if is_passed else None
            broken, problem = self._judge.calm(evidence)
            if is_passed and problem:
                self._known[self._key] = None
                pytest.fail("\n".join([f"rocketmq: {problem}", *map(str, broken)]), pytrace=False)
            return
        calm = self._known[self._key]
        assert calm is not None, "`begin` skips a test without it"
        broken = self._judge.seed(evidence, calm)
        faults = [one.fault.command for one in evidence.injected if one.hits]
        if is_passed and broken:
            lines = [line for one in broken for line in (str(one), *(f"  {words}" for words in one.evidence))]
            pytest.fail(
                "\n".join([f"rocketmq, {name}: a promise is broken", *lines, "faults:", *faults]), pytrace=False
            )
        if is_passed and evidence.injected and not faults:
            pytest.skip("no fault has hit anything, so nothing was tested")


def names_in(words: Mapping[str, Any], word: str) -> tuple[str, ...]:
    """Return the names in a parameter: a text with commas, or several texts. Raises: UsageError."""
    given = words.get(word, ())
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"@pytest.mark.rocketmq({word}={given!r}): write names, like 'duplicate,rebalance'")
    return tuple(name.strip() for name in names if name.strip())


def judge_of(words: Mapping[str, Any]) -> "RunChecks":
    """Return what judges a test. Raises: UsageError (a wrong parameter)."""
    from staticfire.chaos.each import parse_each
    from staticfire.chaos.kinds import WEATHERS
    from staticfire.chaos.session import RunChecks
    from staticfire.chaos.weather import check_kinds

    if words["chaos"] not in WEATHERS:
        raise UsageError(f"@pytest.mark.rocketmq(chaos={words['chaos']!r}): the weathers are {', '.join(WEATHERS)}")
    seeds = words.get("seeds", SEEDS)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or not 1 <= seeds <= 10_000:
        raise UsageError(f"@pytest.mark.rocketmq(seeds={seeds!r}): a whole number from 1 to 10,000 is needed")
    check_kinds((*names_in(words, "only"), *names_in(words, "never")))
    each = words.get("each", ())
    return RunChecks(tuple(parse_each(text) for text in ([each] if isinstance(each, str) else each)))
