"""What somebody could get wrong that no checker saw once: a copy too many, a delay, a lock, an offset that is lost."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.delay.queue import DelayQueue
from staticfire.broker.groups import retries
from staticfire.broker.groups.consumers import ConsumerManager
from staticfire.broker.groups.queue_locks import QueueLocks
from staticfire.broker.handlers.clients import ClientHandlers
from staticfire.broker.handlers.pull import PullHandlers
from staticfire.broker.handlers.send_back import SendBackHandlers
from staticfire.broker.pop.acks import Acknowledger, InvisibleTimeChange
from staticfire.broker.pop.in_flight import InFlight
from staticfire.broker.retention import Reason, RetentionPolicy
from staticfire.broker.timers.waiting import TimerIndex
from staticfire.broker.transactions.checks import HalfMessageChecks
from staticfire.broker.transactions.open_halves import OpenHalves
from staticfire.client.cluster.heartbeats import Heartbeats
from staticfire.client.consume.listeners import ordered_consumption
from staticfire.client.consume.membership.lock_keeper import LockKeeper
from staticfire.client.consume.popping import pop_returns
from staticfire.client.consume.popping.pop_policy import judge_failed
from staticfire.client.offsets.offset_store import RemoteOffsets
from staticfire.client.produce.producer import Producer
from staticfire.protocol.errors import AnswerTimeout

Patch = pytest.MonkeyPatch
LATE_MS, VERY_LATE_MS = 7_000, 60_000
FAILED_EVERY = 50


async def no_step(*_: object, **__: object) -> None:
    """Stand for a step that somebody forgot."""


def _retry_stored_twice(patch: Patch) -> None:
    whole = SendBackHandlers._put

    def put(self: SendBackHandlers, call: Any, *arguments: Any) -> None:
        unanswered: Any = _Unanswered(call)
        whole(self, unanswered, *arguments)
        whole(self, call, *arguments)

    patch.setattr(SendBackHandlers, "_put", put)


class _Unanswered:
    """A request that nothing answers."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def answer(self, _: object) -> None:
        """Keep it to oneself."""


def _lock_kept_on_close(patch: Patch) -> None:
    whole = LockKeeper.release

    async def release(self: LockKeeper, queues: Sequence[Any]) -> None:
        if not self._state.is_over:
            await whole(self, queues)

    patch.setattr(LockKeeper, "release", release)


def _one_queue_not_notified(patch: Patch) -> None:
    whole = PullHandlers.arrived

    def arrived(self: PullHandlers, queues: Iterable[Any]) -> None:
        whole(self, [queue for queue in queues if queue.queue_id != 0 or queue.topic.startswith("%")])

    patch.setattr(PullHandlers, "arrived", arrived)


def _foreign_unlock(patch: Patch) -> None:
    whole = QueueLocks.unlock

    def unlock(self: QueueLocks, group: str, client_id: str, queues: Iterable[Any]) -> list[str]:
        named = list(queues)
        for queue, lock in list(self._locks.get(group, {}).items()):
            if queue in named:
                lock.client_id = client_id
        return whole(self, group, client_id, named)

    patch.setattr(QueueLocks, "unlock", unlock)


def _member_expires_late(patch: Patch) -> None:
    whole = ConsumerManager.expire
    patch.setattr(ConsumerManager, "expire", lambda self, now_ms, silent_ms: whole(self, now_ms, 10 * silent_ms))


def _popped_dead_early(patch: Patch) -> None:
    whole = judge_failed

    def judged(message: Any, level: int, settings: Any, *times: Any) -> Any:
        return whole(message, level, replace(settings, max_reconsume_times=settings.retries_max - 1), *times)

    patch.setattr(pop_returns, "judge_failed", judged)


# -- further ones ----------------------------------------------------------------------------------------------------


def _later(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that answers with a later time."""

    def later(self: Any, *arguments: Any) -> Any:
        due_ms = method(self, *arguments)
        return None if due_ms is None else due_ms + LATE_MS

    return later


def _taken_late(patch: Patch, owner: type[Any]) -> None:
    """Let what is due at some time be taken later."""
    whole_next, whole_take = owner.next_due_ms, owner.take_due

    def next_due_ms(self: Any, *arguments: Any) -> Any:
        due_ms = whole_next(self, *arguments)
        return None if due_ms is None else due_ms + VERY_LATE_MS

    patch.setattr(owner, "next_due_ms", next_due_ms)
    patch.setattr(
        owner, "take_due", lambda self, message_ms, *others: whole_take(self, message_ms - VERY_LATE_MS, *others)
    )


def _put_off_in_vain(patch: Patch) -> None:
    whole = Acknowledger.change

    def change(self: Acknowledger, place: Any, handle: Any, offset: int, change: InvisibleTimeChange) -> Any:
        return whole(self, place, handle, offset, change._replace(invisible_ms=min(change.invisible_ms, 3_000)))

    patch.setattr(Acknowledger, "change", change)


def _acknowledges_a_neighbour(patch: Patch) -> None:
    whole = Acknowledger.ack

    def ack(self: Acknowledger, place: Any, handle: Any, offsets: Sequence[int], peer: str) -> None:
        whole(self, place, handle, [*offsets, offsets[-1] + 1], peer)

    patch.setattr(Acknowledger, "ack", ack)


def _offsets_not_saved(patch: Patch) -> None:
    """Not even by a broker that stops in order."""
    whole = ConfigFiles._save_one

    async def save_one(self: ConfigFiles, name: str) -> None:
        if name != "consumerOffset.json":
            await whole(self, name)

    patch.setattr(ConfigFiles, "_save_one", save_one)


async def _not_renewed(self: LockKeeper) -> bool:
    return True


def _removed_too_early(patch: Patch) -> None:
    whole = RetentionPolicy.reason_to_remove

    def reason(self: RetentionPolicy, segment: Any, end_position: int, *others: Any) -> Reason | None:
        return Reason.AGE if segment.end_position < end_position else whole(self, segment, end_position, *others)

    patch.setattr(RetentionPolicy, "reason_to_remove", reason)


def _stored_and_reported_as_failed(patch: Patch) -> None:
    whole, count = Producer.send, [0]

    async def send(self: Producer, message: Any, **where: Any) -> Any:
        result = await whole(self, message, **where)
        count[0] += 1
        if count[0] % FAILED_EVERY == 0:
            raise AnswerTimeout("no answer came")
        return result

    patch.setattr(Producer, "send", send)


def _greets_one_broker(patch: Patch) -> None:
    whole = Heartbeats.addresses
    patch.setattr(Heartbeats, "addresses", lambda self: whole(self)[:1])


def _reconsumptions_not_counted(patch: Patch) -> None:
    whole = SendBackHandlers._put

    def put(self: SendBackHandlers, call: Any, old: Any, queue: Any, sent_back: Any) -> None:
        import msgspec

        whole(self, call, old, queue, msgspec.structs.replace(sent_back, reconsume_times=old.reconsume_times))

    patch.setattr(SendBackHandlers, "_put", put)


def _set(owner: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, value)


MISSED_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "a retry is stored twice": _retry_stored_twice,
    "a lock is kept on close": _lock_kept_on_close,
    "a retry waits one level too long": _set(retries, "retry_level", lambda times: 4 + times),
    "a retry waits one level too short": _set(retries, "retry_level", lambda times: 2 + times),
    "held pulls of one queue aren't notified": _one_queue_not_notified,
    "anybody may unlock a queue": _foreign_unlock,
    "a silent member is removed ten times as late": _member_expires_late,
    "who leaves doesn't hand over its offsets": _set(RemoteOffsets, "hand_over", no_step),
    "a popped message is dead one retry early": _popped_dead_early,
}
"""Those that somebody else had thought of, and nothing noticed."""

FURTHER_MUTANTS: dict[str, Callable[[Patch], None]] = {
    "delayed messages come late": _set(DelayQueue, "_due_ms", _later(DelayQueue._due_ms)),
    "messages with a delivery time come late": _set(TimerIndex, "next_due_ms", _later(TimerIndex.next_due_ms)),
    "transactions are checked late": lambda patch: _taken_late(patch, OpenHalves),
    "popped messages come again late": lambda patch: _taken_late(patch, InFlight),
    "a popped message isn't put off for as long as it says": _put_off_in_vain,
    "an acknowledgement counts for the next message, too": _acknowledges_a_neighbour,
    "offsets are never saved": _offsets_not_saved,
    "no member is notified when a group changes": _set(ClientHandlers, "notify", lambda *_: None),
    "queue locks aren't renewed": _set(LockKeeper, "_renew", _not_renewed),
    "what was just stored is removed as old": _removed_too_early,
    "one send of fifty is reported as failed": _stored_and_reported_as_failed,
    "heartbeats go to one broker only": _greets_one_broker,
    "questions about transactions are never sent": _set(HalfMessageChecks, "_ask", lambda *_: None),
    "retries aren't counted": _reconsumptions_not_counted,
    "an ordered message is never given up": _set(
        ordered_consumption, "split_failed", lambda messages, _: (list(messages), [])
    ),
}
