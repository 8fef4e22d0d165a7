"""How long a consumer may rely on the lock of a queue. Pure. RocketMQ: ProcessQueue.isLocked, isLockExpired.

A lock is trusted for a limited time after its last renewal, counted from when the request was sent. The broker keeps it
longer: until that ends, no other client can have owned the queue, even if this client no longer trusts its lock.
"""

import math

from staticfire.protocol.times import UptimeMs

# RocketMQ: rocketmq.broker.rebalance.lockMaxLiveTime. After this time another client may have owned the queue.
BROKER_LOCK_MS = 60_000
NOT_LOCKED = -math.inf


class HeldLock:
    """The lock of one queue."""

    __slots__ = ("_live_ms", "_until_ms")

    def __init__(self, live_ms: int, requested_ms: UptimeMs) -> None:
        self._live_ms = live_ms
        self._until_ms: float = requested_ms + live_ms

    def granted(self, requested_ms: UptimeMs) -> None:
        """Trust the lock again."""
        self._until_ms = requested_ms + self._live_ms

    def lost(self) -> None:
        """Stop trusting the lock. Another client may have owned the queue."""
        self._until_ms = NOT_LOCKED

    def is_trusted(self, uptime_ms: UptimeMs) -> bool:
        """Whether this client may pull and consume."""
        return uptime_ms < self._until_ms

    def is_sure(self, uptime_ms: UptimeMs) -> bool:
        """Whether it is certain that no other client has owned the queue."""
        return uptime_ms < self._until_ms - self._live_ms + BROKER_LOCK_MS
