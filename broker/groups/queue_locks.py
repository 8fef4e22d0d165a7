"""Locks on queues, so that only one consumer works on a queue, for ordered consumption. RocketMQ: RebalanceLockManager.

A lock lasts 60 s from its last renewal and is in memory only. It doesn't end with its holder's connection: only the
time or the holder ends it, so that two consumers never have a queue at once. Pure.
"""

from collections.abc import Iterable

import msgspec

from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.times import UptimeMs

# RocketMQ: rocketmq.broker.rebalance.lockMaxLiveTime. Clients renew a lock every 20 s and stop using it after 30 s.
LOCK_MS_MAX = 60_000
# A client can lock any queue of any group, even if it doesn't exist, so the number of locks is limited.
LOCKS_MAX = 1_000_000
# How many waiting clients are remembered per lock: a request may contain any id. The others try again on their own.
WAITING_MAX = 1_000


class QueueLock(msgspec.Struct, gc=False):
    """The holder of a queue, and when it last renewed the lock."""

    client_id: str
    renewed_ms: UptimeMs
    waiting: dict[str, None] | None = None
    """The clients that were refused the queue in the meantime."""

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
        """Lock the queues that are free, the client's own, or whose lock has expired; return these queues."""
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
        """Remove the client's own locks. Return the clients that were refused one of these queues in the meantime."""
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
        """Return whether a client holds a lock: then the group consumes in order. RocketMQ: not isLockAllExpired."""
        locks = self._locks.get(group)
        return locks is not None and any(not lock.has_expired(uptime_ms) for lock in locks.values())

    def holder(self, group: str, queue: MessageQueue, uptime_ms: UptimeMs) -> str | None:
        """Return the client id that holds a queue."""
        lock = self._locks.get(group, {}).get(queue)
        return None if lock is None or lock.has_expired(uptime_ms) else lock.client_id

    def of_group(self, group: str, uptime_ms: UptimeMs) -> list[tuple[MessageQueue, QueueLock]]:
        """Return the locks of a group that haven't expired."""
        return [(queue, lock) for queue, lock in self._locks.get(group, {}).items() if not lock.has_expired(uptime_ms)]

    def expire(self, uptime_ms: UptimeMs) -> None:
        """Remove expired locks. They already have no effect."""
        for group, locks in list(self._locks.items()):
            for queue in [queue for queue, lock in locks.items() if lock.has_expired(uptime_ms)]:
                del locks[queue]
                self._count -= 1
            if not locks:
                del self._locks[group]

    def forget_all(self) -> None:
        """Remove all locks: the broker was reset."""
        self._locks.clear()
        self._count = 0
