"""Brokers whose connection was lost, or whose routes have no master, and when to look for them next.

A broker that was killed is often back within a second. Before it gets this client's heartbeat, it has no producer to
check transactions with, and a consumer doesn't pull from it. Route polls and heartbeats come only every 30 s.
"""

import asyncio
from collections.abc import Callable

from staticfire.protocol.requests.routes import MASTER_ID, TopicRouteData
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock

# The pauses between two looks for a broker: the first and the longest. Each is twice as long as the one before.
LOOK_MS, LOOK_MS_MAX = 50, 1_000
# After this time only route polls and heartbeats look for it.
SEARCH_MS_MAX = 60_000


LostReplica = tuple[str, int]
"""A broker's name and the id of the lost replica: it may come back at another address, or another takes its place."""


class LostBrokers:
    """The lost brokers of one client."""

    def __init__(self, clock: Clock, has_consumers: Callable[[], bool]) -> None:
        self._has_consumers = has_consumers
        self._uptime_ms = clock.uptime_ms
        self._until_ms: dict[LostReplica, UptimeMs] = {}
        self._look_ms = LOOK_MS
        self._is_lost = asyncio.Event()

    @property
    def wanted(self) -> list[LostReplica]:
        """The brokers that are looked for."""
        return list(self._until_ms)

    def add(self, replica: LostReplica) -> None:
        """Start to look for a broker."""
        self._until_ms[replica] = UptimeMs(self._uptime_ms() + SEARCH_MS_MAX)
        self._look_ms = LOOK_MS
        self._is_lost.set()

    def route_changed(self, _: str, route: TopicRouteData) -> None:
        """Look for the masters that a route doesn't have: when they return, they lack the offsets of consumers."""
        for broker in route.broker_datas if self._has_consumers() else ():
            if MASTER_ID not in broker.broker_addrs:
                self.add((broker.broker_name, MASTER_ID))

    def found(self, replica: LostReplica) -> None:
        """Stop looking for a broker."""
        self._until_ms.pop(replica, None)

    async def next_look(self) -> int:
        """Return the milliseconds until the next look, as soon as there is a broker to look for."""
        uptime_ms = self._uptime_ms()
        for replica in [replica for replica, until_ms in self._until_ms.items() if until_ms <= uptime_ms]:
            del self._until_ms[replica]
        while not self._until_ms:
            self._is_lost.clear()
            await self._is_lost.wait()
        look_ms, self._look_ms = self._look_ms, min(2 * self._look_ms, LOOK_MS_MAX)
        return look_ms
