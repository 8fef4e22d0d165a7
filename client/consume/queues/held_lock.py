"""How long a queue's lock can be relied on. Pure. RocketMQ: ProcessQueue.isLocked, isLockExpired.

A lock is trusted for a while from its last renewal, counted from when that was asked for. The broker keeps it for
longer: until then nobody else can have had the queue, even if this client doesn't trust its lock any more.
"""

import math

from staticfire.protocol.times import UptimeMs

BROKER_LOCK_MS = 60_000
# RocketMQ: rocketmq.broker.rebalance.lockMaxLiveTime. After that somebody else may have had the queue.
NOT_LOCKED = -math.inf


class HeldLock:
    """The lock of one queue."""

    __slots__ = ("_live_ms", "_until_ms")

    def __init__(self, live_ms: int, asked_ms: UptimeMs) -> None:
        self._live_ms = live_ms
        self._until_ms: float = asked_ms + live_ms

    def granted(self, asked_ms: UptimeMs) -> None:
        """Trust it again."""
        self._until_ms = asked_ms + self._live_ms

    def lost(self) -> None:
        """Trust it no more, and know nothing of who had the queue."""
        self._until_ms = NOT_LOCKED

    def is_trusted(self, uptime_ms: UptimeMs) -> bool:
        """Whether this client may pull and consume."""
        return uptime_ms < self._until_ms

    def is_sure(self, uptime_ms: UptimeMs) -> bool:
        """Whether nobody else can have had the queue."""
        return uptime_ms < self._until_ms - self._live_ms + BROKER_LOCK_MS
