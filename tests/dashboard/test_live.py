"""Live parts: who watches, how often they are made, and browsers that don't read. Without a cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from staticfire.client import ClusterClient
from staticfire.control.controlled_cluster import ControlledCluster
from staticfire.dashboard import live, site, watch
from staticfire.dashboard.live import WATCHED_MAX, LivePages
from staticfire.dashboard.site import is_written
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool

pytestmark = [pytest.mark.row("S9")]


async def rendered(address: str) -> str:
    return f"part of {address}"


async def test_a_page_that_is_watched_can_be_watched_by_more_when_there_are_too_many() -> None:
    pages = LivePages(rendered, live_machine())
    followers = [pages.follow(f"/{number}") for number in range(WATCHED_MAX)]
    for follower in followers:
        assert (await anext(follower)).startswith("part of /")
    assert not pages.is_full_for("/0")
    assert pages.is_full_for("/another")
    for follower in followers:
        await follower.aclose()
    assert not pages.is_full_for("/another")
    await pages.close()


async def the_reader() -> None:
    """Wait until the only other task of this loop has ended. Raises: what it ended with."""
    (reader,) = asyncio.all_tasks() - {asyncio.current_task()}
    await reader


class Watched:
    """Pages in virtual time: it advances when the reader pauses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, took_ms: int = 0) -> None:
        self.now_ms = 0
        self.took_ms = took_ms
        self.made: list[tuple[int, str]] = []
        self.text = ""
        self.rounds = 0
        self.clock = self
        self._more = asyncio.Event()
        monkeypatch.setattr(live, "pause", self._pause)
        self.pages = LivePages(self._render, self, self._round)  # type: ignore[arg-type]

    def uptime_ms(self) -> int:
        return self.now_ms

    @asynccontextmanager
    async def _round(self) -> AsyncIterator[None]:
        self.rounds += 1
        yield

    async def _render(self, address: str) -> str:
        self.made.append((self.now_ms, address))
        self._more.set()
        self.now_ms += self.took_ms
        return self.text or f"part of {address}"

    async def _pause(self, _: asyncio.Event, seconds: float) -> None:
        self.now_ms += round(seconds * 1_000)
        await asyncio.sleep(0)

    async def until(self, count: int) -> list[int]:
        """Wait until parts were made so often; return when."""
        while len(self.made) < count:
            self._more.clear()
            await self._more.wait()
        return [at_ms for at_ms, _ in self.made[:count]]


async def test_all_pages_together_take_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, took_ms=20)
    followers = [watched.pages.follow(f"/{number}") for number in range(10)]
    for follower in followers:
        await anext(follower)
    times = await watched.until(60)
    assert times[-1] - times[20] >= 39 * 20 * live.TIMES_ITS_DURATION * 0.8
    for follower in followers:
        await follower.aclose()
    await watched.pages.close()


async def test_pages_of_one_moment_are_made_in_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    followers = [watched.pages.follow(f"/{number}") for number in range(10)]
    for follower in followers:
        await anext(follower)
    await watched.until(len(watched.made) + 40)
    before, made = watched.rounds, len(watched.made)
    await watched.until(made + 30)
    assert watched.rounds - before <= 4
    for follower in followers:
        await follower.aclose()
    await watched.pages.close()


async def test_a_page_that_doesnt_change_is_made_less_often_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    async with aclosing(watched.pages.follow("/a")) as parts:
        await anext(parts)
        times = await watched.until(12)
        assert times[1] - times[0] == live.LIVE_S * 1_000
        assert times[-1] - times[-2] == live.STILL_S * 1_000
        watched.text = "changed"
        assert await anext(parts) == "changed"
        count = len(watched.made)
        times = await watched.until(count + 1)
        assert times[-1] - times[-2] <= live.LIVE_S * live.LATER * 1_000
    await watched.pages.close()


async def test_a_page_that_takes_seconds_is_made_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch, took_ms=3_000)
    async with aclosing(watched.pages.follow("/a")) as parts:
        await anext(parts)
        times = await watched.until(5)
    assert max(later - at for at, later in pairwise(times)) <= 3_000 + live.PAUSE_S_MAX * 1_000
    await watched.pages.close()


async def test_nothing_is_made_when_the_last_browser_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    async with aclosing(watched.pages.follow("/a")) as parts:
        await anext(parts)
    await the_reader()
    count = len(watched.made)
    async with aclosing(watched.pages.follow("/b")) as parts:
        assert await anext(parts) == "part of /b"
    assert watched.made[count][1] == "/b"
    await watched.pages.close()


async def test_a_reader_that_has_failed_lets_browsers_connect_again() -> None:
    readers: list[asyncio.Task[None]] = []

    async def broken(address: str) -> str:
        reader = asyncio.current_task()
        assert reader is not None
        readers.append(reader)
        raise KeyError(address)

    pages = LivePages(broken, live_machine())
    async with aclosing(pages.follow("/a")) as parts:
        with pytest.raises(StopAsyncIteration):
            await anext(parts)
    with pytest.raises(KeyError):
        await readers[0]
    await pages.close()


async def test_a_part_is_rendered_once_for_all_and_no_more_without_watchers() -> None:
    made: list[str] = []

    async def render(address: str) -> str:
        made.append(address)
        return "same"

    pages = LivePages(render, live_machine())
    async with aclosing(pages.follow("/a")) as one, aclosing(pages.follow("/a")) as other:
        assert {*await asyncio.gather(anext(one), anext(other))} == {"same"}
    assert made == ["/a"]
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "dashboard page"]
    await pages.close()


async def test_a_page_that_is_opened_now_isnt_sent_what_others_were_sent_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched = Watched(monkeypatch)
    async with aclosing(watched.pages.follow("/a")) as first:
        assert await anext(first) == "part of /a"
        watched.text = "newer"
        async with aclosing(watched.pages.follow("/a")) as second:
            assert await anext(second) == "newer"
    await watched.pages.close()


async def test_a_page_that_is_opened_while_it_is_rendered_isnt_sent_the_older_state() -> None:
    began, may_end = asyncio.Event(), asyncio.Event()
    state = "old"

    async def render(address: str) -> str:
        seen = state
        began.set()
        await may_end.wait()
        return seen

    pages = LivePages(render, live_machine())
    async with aclosing(pages.follow("/a")) as first, aclosing(pages.follow("/a")) as second:
        earlier = asyncio.ensure_future(anext(first))
        await began.wait()
        state = "new"  # Somebody adds a rule, and opens the page, which shows it.
        later = asyncio.ensure_future(anext(second))
        await asyncio.sleep(0)
        may_end.set()
        assert await later == "new"
        assert await earlier in ("old", "new")
    await pages.close()


async def test_a_page_that_is_opened_during_a_round_is_rendered_in_the_next_one() -> None:
    began, may_end = asyncio.Event(), asyncio.Event()
    state, known = "old", {"state": "old"}

    async def render(address: str) -> str:
        known.setdefault("state", state)  # The responses of a round are shared.
        if address == "/slow":
            began.set()
            await may_end.wait()
        return f"{address} {known['state']}"

    @asynccontextmanager
    async def in_round() -> AsyncIterator[None]:
        known.clear()
        yield

    pages = LivePages(render, live_machine(), in_round)
    async with aclosing(pages.follow("/slow")) as slow, aclosing(pages.follow("/a")) as first:
        earlier = [asyncio.ensure_future(anext(one)) for one in (slow, first)]
        await began.wait()
        state = "new"
        async with aclosing(pages.follow("/a")) as second:
            later = asyncio.ensure_future(anext(second))
            await asyncio.sleep(0)
            may_end.set()
            assert await later == "/a new"
        assert (await asyncio.gather(*earlier))[0] == "/slow old"
    await pages.close()


async def test_a_page_that_doesnt_change_is_felt_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "BEAT_S", 0.01)
    pages = LivePages(rendered, live_machine())
    async with aclosing(pages.follow("/a")) as parts:
        assert await anext(parts) == "part of /a"
        assert await anext(parts) == ""
    await pages.close()


class Unread:
    async def write(self, data: bytes) -> None:
        await asyncio.Event().wait()


class Gone:
    async def write(self, data: bytes) -> None:
        raise ConnectionResetError


async def test_a_browser_that_reads_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "UNREAD_S", 0.01)
    for answer in (Unread(), Gone()):
        assert not await is_written(answer, b"data")  # type: ignore[arg-type]


class Answers:
    """Calls with one response for each path."""

    def __init__(self, responses: dict[str, dict[str, Any]]) -> None:
        self._responses = responses

    async def get_if_any(self, path: str) -> dict[str, Any]:
        return self._responses[path]


async def test_what_was_seen_before_a_pause_isnt_shown_after_it() -> None:
    gone = {"error": "gone"}
    seen = watch.Watch(Answers({"/overview": gone, "/brokers": gone}), live_machine())  # type: ignore[arg-type]
    seen.overview = {"topics": 7}
    seen.samples.append(watch.ClusterSample(1, {}, 4))
    seen.look()
    assert await seen.first_overview() == gone
    assert list(seen.samples) == []
    await seen.close()


class Elsewhere:
    """A cluster to which no client connects."""

    namesrv = "nowhere:1"


async def test_samples_dont_use_the_connections_of_the_page_that_began_them() -> None:
    seen: list[ClusterClient] = []
    sampled = asyncio.Event()
    cluster = ControlledCluster(Elsewhere(), ConnectionPool(live_machine()), "http://nowhere", False)  # type: ignore[arg-type]

    class Noting:
        async def get_if_any(self, path: str) -> dict[str, Any]:
            async with cluster.connected() as client:
                seen.append(client)
            if len(seen) > 1:
                sampled.set()
            return {}

    samples = watch.Watch(Noting(), live_machine())  # type: ignore[arg-type]
    async with cluster.sharing(), cluster.connected() as of_the_page:
        samples.look()
        async with asyncio.timeout(60):
            await sampled.wait()
        assert of_the_page not in seen
    await samples.close()


async def test_the_chart_doesnt_count_what_slaves_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = asyncio.Event()

    async def pause(ended: asyncio.Event, _seconds: float) -> None:
        sampled.set()
        await ended.wait()

    monkeypatch.setattr(watch, "pause", pause)
    brokers = [
        {"id": 0, "address": "10.0.0.1:1", "stored": 5, "delivered": 4},
        {"id": 1, "address": "10.0.0.2:1", "stored": 5, "delivered": 2},
    ]
    answers = Answers({"/overview": {"lag": 3}, "/brokers": {"brokers": brokers}})
    seen = watch.Watch(answers, live_machine())  # type: ignore[arg-type]
    seen.look()
    await sampled.wait()
    await seen.close()
    ((_, counters, lag),) = seen.samples
    assert (counters, lag) == ({"10.0.0.1:1": (5, 4)}, 3)
