"""Live parts: who watches, how often they are made, and browsers that don't read. Without a cluster."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest

from staticfire.dashboard import live, site, watch
from staticfire.dashboard.live import WATCHED_MAX, LivePages
from staticfire.dashboard.site import is_written
from staticfire.runtime.live import live_machine

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


async def test_many_pages_are_made_less_often_each(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []

    async def pause(ended: asyncio.Event, seconds: float) -> None:
        paused.append(seconds)
        await ended.wait()

    monkeypatch.setattr(live, "pause", pause)
    pages = LivePages(rendered, live_machine())
    followers = [pages.follow(f"/{number}") for number in range(live.WATCHED_AT_FULL_RATE * 4)]
    tasks = [asyncio.create_task(anext(follower)) for follower in followers]
    await asyncio.gather(*tasks)
    assert min(paused) >= 4 * live.LIVE_S
    await pages.close()


async def test_a_part_is_made_once_for_all_and_no_more_when_nobody_watches() -> None:
    made: list[str] = []

    async def render(address: str) -> str:
        made.append(address)
        return "same"

    pages = LivePages(render, live_machine())
    async with aclosing(pages.follow("/a")) as one, aclosing(pages.follow("/a")) as other:
        assert (await anext(one), await anext(other)) == ("same", "same")
    assert made == ["/a"]
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "dashboard page"]
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
    seen.samples.append(watch.ClusterSample(1, 2, 3, 4))
    seen.look()
    assert await seen.first_overview() == gone
    assert list(seen.samples) == []
    await seen.close()


async def test_the_chart_doesnt_count_what_slaves_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = asyncio.Event()

    async def pause(ended: asyncio.Event, _seconds: float) -> None:
        sampled.set()
        await ended.wait()

    monkeypatch.setattr(watch, "pause", pause)
    brokers = [{"id": 0, "stored": 5, "delivered": 4}, {"id": 1, "stored": 5, "delivered": 2}]
    answers = Answers({"/overview": {"lag": 3}, "/brokers": {"brokers": brokers}})
    seen = watch.Watch(answers, live_machine())  # type: ignore[arg-type]
    seen.look()
    await sampled.wait()
    await seen.close()
    ((_, stored, delivered, lag),) = seen.samples
    assert (stored, delivered, lag) == (5, 4, 3)
