"""Rebalances again and again: the plan for one topic, and the loop of a client. RocketMQ: RebalanceService.

The loop runs every 20 s. It runs at once when a broker notifies that the members of a group have changed, when a broker
connection is new, and when a route has changed; and 1 s after a round that could not do everything. Two rounds are at
least 100 ms apart, however often it is woken. If one consumer or topic fails, the others continue.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ClientSettings
from staticfire.client.cluster.wakeup import Wakeup
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.dispatcher import Call
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock
from staticfire.runtime.service import Pause, Spawn

log = logger("client")


class RebalancePlan(NamedTuple):
    """The queues of a topic to drop and to take. A queue in both lists is dropped and taken again."""

    drop: list[MessageQueue]
    take: list[MessageQueue]


def plan_rebalance(
    held: Mapping[MessageQueue, UptimeMs], assigned: Iterable[MessageQueue], uptime_ms: UptimeMs, idle_ms_max: int
) -> RebalancePlan:
    """Return the change from the held to the assigned queues, each list sorted.

    `held`: the time of each queue's last pull. A queue that wasn't pulled for more than `idle_ms_max` is stuck, and is
    taken again.
    """
    wanted = set(assigned)
    drop = [queue for queue, pulled_ms in held.items() if queue not in wanted or uptime_ms - pulled_ms > idle_ms_max]
    kept = held.keys() - drop
    return RebalancePlan(sorted(drop), sorted(wanted - kept))


class Rebalanced(Protocol):
    """A consumer, as the loop sees it."""

    async def rebalance(self) -> bool:
        """Update its queues. Return whether everything could be done."""


class RebalanceLoop:
    """The loop of one client, for all its consumers. It starts with the first consumer."""

    @classmethod
    def of(cls, client: ClusterClient) -> "RebalanceLoop":
        """Return the loop of a client. Its consumers share it."""
        return client.part(cls._made_for)

    @classmethod
    def _made_for(cls, client: ClusterClient) -> "RebalanceLoop":
        loop = cls(client.settings, client.machine.clock, client.spawn, client.pause_for)
        client.broker_connected.append(lambda _: loop.wake())
        client.dispatcher.handle(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, loop.notified)
        return loop

    def __init__(
        self,
        settings: ClientSettings,
        clock: Clock,
        spawn: Spawn,
        pause: Pause,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._spawn = spawn
        self._pause = pause
        self._wakeup = Wakeup()
        self._consumers: dict[str, Rebalanced] = {}
        self._is_running = False

    def add(self, group: str, consumer: Rebalanced) -> None:
        """Rebalance a consumer from now on."""
        self._consumers[group] = consumer
        if not self._is_running:
            self._is_running = True
            self._spawn(self._rebalance_loop(), "rebalance")

    def remove(self, group: str) -> None:
        """Stop rebalancing a consumer."""
        self._consumers.pop(group, None)

    def wake(self) -> None:
        """Rebalance now."""
        self._wakeup.wake()

    def notified(self, _: Call) -> None:
        """Handle a broker's notification that the members of a group have changed. It is one-way."""
        self._wakeup.wake()

    async def _rebalance_loop(self) -> None:
        settings, clock = self._settings, self._clock
        wait_ms, earliest_ms = settings.rebalance_interval_ms, clock.uptime_ms()
        while True:
            await self._wakeup.wait(wait_ms)
            early_ms = earliest_ms - clock.uptime_ms()
            if early_ms > 0:
                await self._pause(early_ms)
            earliest_ms = UptimeMs(clock.uptime_ms() + settings.rebalance_min_interval_ms)
            done = await self._rebalance_all()
            wait_ms = settings.rebalance_interval_ms if done else settings.rebalance_retry_ms

    async def _rebalance_all(self) -> bool:
        consumers = dict(self._consumers)
        rounds = [consumer.rebalance() for consumer in consumers.values()]
        done = True
        for group, outcome in zip(consumers, await asyncio.gather(*rounds, return_exceptions=True), strict=True):
            if isinstance(outcome, BaseException):
                log.error("rebalance_failed", group=group, error=repr(outcome))
                done = False
            else:
                done = done and outcome
        return done
