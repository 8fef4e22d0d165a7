"""Which consumer may work on a queue alone, for ordered consumption. RocketMQ: RebalanceLockManager.

A lock is held for 60 s from its last renewal and is in memory only. It doesn't end with its holder's connection: only
time or the holder end it, so that two consumers never have a queue at once. Pure.
"""

from collections.abc import Iterable

import msgspec

from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.times import UptimeMs

LOCK_MS_MAX = 60_000
# RocketMQ: rocketmq.broker.rebalance.lockMaxLiveTime. Clients renew every 20 s and distrust a lock after 30 s.
LOCKS_MAX = 1_000_000
# Any group and any queue may be named, whether it exists or not.
WAITING_MAX = 1_000
# Clients that are remembered per lock: any id may be named. One that isn't remembered asks again by itself.


class QueueLock(msgspec.Struct, gc=False):
    """Who holds a queue, and since when."""

    client_id: str
    renewed_ms: UptimeMs
    waiting: dict[str, None] | None = None
    """The clients that were refused meanwhile."""

    def has_expired(self, uptime_ms: UptimeMs) -> bool:
        return uptime_ms - self.renewed_ms > LOCK_MS_MAX


class QueueLocks:
    """All locks, by group and queue."""

    def __init__(self) -> None:
        self._locks: dict[str, dict[MessageQueue, QueueLock]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], uptime_ms: UptimeMs
    ) -> list[MessageQueue]:
        """Give a client the queues that are free, its own, or whose lock has expired; return those, and no others."""
        locks = self._locks.setdefault(group, {})
        granted = [queue for queue in queues if self._grant(locks, queue, client_id, uptime_ms)]
        if not locks:
            del self._locks[group]
        return granted

    def _grant(
        self, locks: dict[MessageQueue, QueueLock], queue: MessageQueue, client_id: str, uptime_ms: UptimeMs
    ) -> bool:
        held = locks.get(queue)
        if held is None:
            if self._count >= LOCKS_MAX:
                return False
            locks[queue] = QueueLock(client_id, uptime_ms)
            self._count += 1
            return True
        if held.client_id != client_id and not held.has_expired(uptime_ms):
            held.waiting = held.waiting or {}
            if len(held.waiting) < WAITING_MAX:
                held.waiting[client_id] = None
            return False
        held.client_id, held.renewed_ms = client_id, uptime_ms
        if held.waiting is not None:
            held.waiting.pop(client_id, None)
        return True

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> list[str]:
        """Take a client's own locks away; others' stay. Return the clients that were refused one of them meanwhile."""
        locks = self._locks.get(group)
        if locks is None:
            return []
        waiting: dict[str, None] = {}
        for queue in queues:
            held = locks.get(queue)
            if held is not None and held.client_id == client_id:
                del locks[queue]
                self._count -= 1
                waiting |= held.waiting or {}
        if not locks:
            del self._locks[group]
        return list(waiting)

    def holds_any(self, group: str, uptime_ms: UptimeMs) -> bool:
        """Whether anybody in the group holds a lock: then it consumes in order. RocketMQ: not isLockAllExpired."""
        locks = self._locks.get(group)
        return locks is not None and any(not lock.has_expired(uptime_ms) for lock in locks.values())

    def holder(self, group: str, queue: MessageQueue, uptime_ms: UptimeMs) -> str | None:
        """Return the client id that holds a queue."""
        lock = self._locks.get(group, {}).get(queue)
        return None if lock is None or lock.has_expired(uptime_ms) else lock.client_id

    def of_group(self, group: str, uptime_ms: UptimeMs) -> list[tuple[MessageQueue, QueueLock]]:
        """Return what a group's clients hold."""
        return [(queue, lock) for queue, lock in self._locks.get(group, {}).items() if not lock.has_expired(uptime_ms)]

    def expire(self, uptime_ms: UptimeMs) -> None:
        """Forget the locks that nobody holds any more; they are as good as none already."""
        for group, locks in list(self._locks.items()):
            for queue in [queue for queue, lock in locks.items() if lock.has_expired(uptime_ms)]:
                del locks[queue]
                self._count -= 1
            if not locks:
                del self._locks[group]

    def forget_all(self) -> None:
        """Start anew: the broker was reset."""
        self._locks.clear()
        self._count = 0
