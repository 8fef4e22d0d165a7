"""Who may work on a queue alone."""

import pytest

from staticfire.broker.groups import queue_locks
from staticfire.broker.groups.queue_locks import LOCK_MS_MAX, QueueLocks
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.times import UptimeMs

pytestmark = pytest.mark.row("O1")

START = UptimeMs(1_000)
EXPIRED = UptimeMs(START + LOCK_MS_MAX + 1)
QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(4)]


def test_a_lock_is_granted_renewed_refused_and_taken_over() -> None:
    locks = QueueLocks()
    assert locks.lock("billing", "a", QUEUES[:2], START) == QUEUES[:2]
    assert locks.lock("billing", "b", QUEUES[1:3], START) == QUEUES[2:3]
    assert locks.lock("billing", "a", QUEUES[:1], UptimeMs(START + LOCK_MS_MAX)) == QUEUES[:1]
    assert locks.lock("billing", "b", QUEUES[:2], EXPIRED) == QUEUES[1:2]
    assert locks.holder("billing", QUEUES[0], EXPIRED) == "a"
    assert locks.holder("billing", QUEUES[1], EXPIRED) == "b"
    assert locks.holder("billing", QUEUES[3], EXPIRED) is None


def test_ones_own_expired_lock_is_had_again() -> None:
    locks = QueueLocks()
    locks.lock("billing", "a", QUEUES, START)
    assert locks.lock("billing", "a", QUEUES, EXPIRED) == QUEUES


def test_groups_dont_see_each_other() -> None:
    locks = QueueLocks()
    locks.lock("billing", "a", QUEUES, START)
    assert locks.lock("shipping", "b", QUEUES, START) == QUEUES
    locks.unlock("shipping", "a", QUEUES)
    assert len(locks) == 8


def test_only_the_holder_unlocks() -> None:
    locks = QueueLocks()
    locks.lock("billing", "a", QUEUES, START)
    locks.unlock("billing", "b", QUEUES)
    assert len(locks) == 4
    locks.unlock("billing", "a", QUEUES)
    assert len(locks) == 0
    assert not locks.holds_any("billing", START)
    locks.unlock("billing", "a", QUEUES)


def test_an_unlock_says_who_was_refused_meanwhile() -> None:
    locks = QueueLocks()
    locks.lock("billing", "a", QUEUES, START)
    locks.lock("billing", "b", QUEUES[:2], START)
    locks.lock("billing", "c", QUEUES[1:3], START)
    assert locks.unlock("billing", "b", QUEUES) == []
    assert locks.unlock("billing", "a", QUEUES[:1]) == ["b"]
    assert locks.unlock("billing", "a", QUEUES[3:]) == []
    assert locks.unlock("billing", "a", QUEUES[1:3]) == ["b", "c"]
    assert locks.unlock("billing", "a", QUEUES) == []


def test_who_took_over_an_expired_lock_waits_no_more() -> None:
    locks = QueueLocks()
    locks.lock("billing", "a", QUEUES[:1], START)
    locks.lock("billing", "b", QUEUES[:1], START)
    locks.lock("billing", "b", QUEUES[:1], EXPIRED)
    assert locks.unlock("billing", "b", QUEUES[:1]) == []


def test_a_group_holds_something_until_its_last_lock_has_expired() -> None:
    locks = QueueLocks()
    locks.lock("billing", "a", QUEUES[:1], START)
    locks.lock("billing", "b", QUEUES[1:], UptimeMs(START + 10))
    assert locks.holds_any("billing", EXPIRED)
    assert not locks.holds_any("billing", UptimeMs(EXPIRED + 10))


def test_expired_locks_take_no_memory() -> None:
    locks = QueueLocks()
    locks.lock("billing", "a", QUEUES[:1], START)
    locks.lock("billing", "a", QUEUES[1:], EXPIRED)
    locks.expire(EXPIRED)
    assert len(locks) == 3
    locks.forget_all()
    assert len(locks) == 0


def test_there_is_an_end_to_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "LOCKS_MAX", 3)
    locks = QueueLocks()
    assert locks.lock("billing", "a", QUEUES, START) == QUEUES[:3]
    assert locks.lock("shipping", "a", QUEUES, START) == []
    assert locks.lock("billing", "a", QUEUES, START) == QUEUES[:3]
