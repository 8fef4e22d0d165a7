"""Samples of the cluster while people look at the overview, for it and its chart.

The first request for the overview starts it. It samples every SAMPLE_S; if samples take long, after pauses of
TIMES_ITS_DURATION their time. After IDLE_S without a request it stops. So what is shown may be some seconds old, as the
page notes.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from itertools import pairwise
from typing import Any, NamedTuple

from staticfire.dashboard.calls import Calls
from staticfire.runtime.machine import Machine

SAMPLE_S = 2.0
TIMES_ITS_DURATION = 50
# The longest pause, if a sample takes seconds because a server doesn't answer.
PAUSE_S_MAX = 10.0
IDLE_S = 60.0
# Ten minutes, if the cluster is quick.
SAMPLES_MAX = 300


class BrokerCounters(NamedTuple):
    """What a broker has stored and delivered until one moment."""

    stored: int
    delivered: int


class ClusterSample(NamedTuple):
    """The cluster at one moment."""

    wall_ms: int
    brokers: dict[str, BrokerCounters]
    """The masters that responded, by address."""
    lag: int


class Watch:
    """Takes samples in the background."""

    def __init__(self, calls: Calls, machine: Machine) -> None:
        self._calls = calls
        self._machine = machine
        self._task: asyncio.Task[None] | None = None
        self._looked_ms = 0
        self._ended = asyncio.Event()
        self.overview: dict[str, Any] | None = None
        """The latest response of GET /overview; None before the first."""
        self.samples: deque[ClusterSample] = deque(maxlen=SAMPLES_MAX)

    def look(self) -> None:
        """Note that the overview is requested; start sampling if it has stopped."""
        self._looked_ms = self._machine.clock.uptime_ms()
        if self._task is None or self._task.done():
            # What was seen before a pause is too old for the overview, and would be a long line in the chart.
            self.overview = None
            self.samples.clear()
            # The context is a new one, because the page's own shares connections that are closed after the page.
            loop, context = asyncio.get_running_loop(), Context()
            self._task = loop.create_task(self._sample_loop(), name="dashboard watch", context=context)

    async def first_overview(self) -> dict[str, Any]:
        """Return the latest overview; query it if there is none."""
        self.look()
        # A problem of some seconds ago may be solved.
        if self.overview is None or "error" in self.overview:
            self.overview = await self._calls.get_if_any("/overview")
        return self.overview

    async def close(self) -> None:
        """Stop sampling."""
        self._ended.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _sample_loop(self) -> None:
        while not self._ended.is_set() and self._machine.clock.uptime_ms() - self._looked_ms < IDLE_S * 1_000:
            began_ms = self._machine.clock.uptime_ms()
            await self._take()
            took_s = (self._machine.clock.uptime_ms() - began_ms) / 1_000
            await pause(self._ended, max(SAMPLE_S, min(PAUSE_S_MAX, took_s * TIMES_ITS_DURATION)))

    async def _take(self) -> None:
        # Messages of slaves are copies.
        brokers = [one for one in (await self._calls.get_if_any("/brokers")).get("brokers", []) if not one["id"]]
        self.overview = await self._calls.get_if_any("/overview")
        if not brokers:
            return
        counters = {
            one["address"]: BrokerCounters(one["stored"], one["delivered"]) for one in brokers if "stored" in one
        }
        self.samples.append(ClusterSample(self._machine.clock.wall_ms(), counters, self.overview.get("lag", 0)))


def rates(samples: Sequence[ClusterSample]) -> dict[str, Any]:
    """Return the chart of the overview: times in seconds, messages per second stored and delivered, and the backlog.

    Between samples of different brokers a rate is None, a gap: the counters of a broker that responds again have grown
    since its last sample, and not in this moment.
    """
    times: list[float] = []
    stored: list[float | None] = []
    delivered: list[float | None] = []
    lag: list[int] = []
    for before, one in pairwise(samples):
        took_s = (one.wall_ms - before.wall_ms) / 1_000
        if took_s <= 0:
            continue
        times.append(one.wall_ms / 1_000)
        lag.append(one.lag)
        if before.brokers.keys() != one.brokers.keys():
            stored.append(None)
            delivered.append(None)
            continue
        pairs = [(before.brokers[address], now) for address, now in one.brokers.items()]
        # A counter that has gone back was started again, as its broker.
        stored.append(sum(max(0, now.stored - then.stored) for then, now in pairs) / took_s)
        delivered.append(sum(max(0, now.delivered - then.delivered) for then, now in pairs) / took_s)
    return {"times": times, "stored": stored, "delivered": delivered, "lag": lag}


async def pause(ended: asyncio.Event, seconds: float) -> None:
    """Wait for some seconds, or until the end."""
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        pass  # The pause is over.
