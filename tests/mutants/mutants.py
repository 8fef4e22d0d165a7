"""The mutants: what somebody could get wrong in the broker or the client, each as a patch of the running program."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import pytest

from staticfire.broker import restoring
from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.delay.queue import DelayQueue
from staticfire.broker.delay.service import DelayService
from staticfire.broker.groups import retries
from staticfire.broker.groups.consumers import ConsumerManager
from staticfire.broker.groups.offsets import OffsetTable
from staticfire.broker.groups.queue_locks import QueueLock, QueueLocks
from staticfire.broker.registration import Registration
from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.log_sync import Span
from staticfire.broker.store.settling import Settling
from staticfire.broker.timers.waiting import TimerIndex
from staticfire.broker.transactions import recovery
from staticfire.broker.transactions.checks import HalfMessageChecks
from staticfire.broker.transactions.service import TransactionService
from staticfire.client.consume.listeners import ordered_consumption
from staticfire.client.consume.membership.queue_locks import LockOutcome, LockRequests
from staticfire.client.consume.queues import concurrent_policy
from staticfire.client.consume.queues.process_queue import NOTHING_HELD, ProcessQueue
from staticfire.client.consume.results.consume_results import ConsumeStatus
from staticfire.client.consume.results.ordered_results import OrderedVerdict
from staticfire.client.offsets.offset_store import RemoteOffsets
from staticfire.client.produce.producer import Producer
from staticfire.client.settings.allocation import Averagely, AveragelyByCircle
from staticfire.simulation.world.files import SimulatedFile, SimulatedFiles
from tests.mutants.foreign_mutants import FOREIGN_MUTANTS
from tests.mutants.judged_mutants import FURTHER_MUTANTS, MISSED_MUTANTS
from tests.mutants.kind_mutants import KIND_MUTANTS
from tests.mutants.look_up_mutants import LOOK_UP_MUTANTS
from tests.mutants.loss_mutants import LOSS_MUTANTS
from tests.mutants.pop_mutants import POP_MUTANTS
from tests.mutants.promise_mutants import PROMISE_MUTANTS
from tests.mutants.replica_mutants import REPLICA_MUTANTS
from tests.mutants.share_mutants import SHARE_MUTANTS

Patch = pytest.MonkeyPatch
EARLY_MS = 700


def nothing(*_: object, **__: object) -> None:
    """Stand for a step that somebody forgot."""


def _answered_before_it_is_synced(patch: Patch) -> None:
    whole = Settling.__init__

    def begin(self: Settling, *arguments: Any) -> None:
        whole(self, *arguments)
        self._waits_for_sync = False

    patch.setattr(Settling, "__init__", begin)


def _failed_write_is_stored(patch: Patch) -> None:
    whole = CommitLog.write

    def write(self: CommitLog, chunks: list[Any], end_position: int) -> None:
        try:
            whole(self, chunks, end_position)
        except OSError:
            self._stale_tail = False
            self.end_position = end_position

    patch.setattr(CommitLog, "write", write)


def _offsets_ahead(patch: Patch) -> None:
    whole = ConfigFiles.restore

    def at_once(
        files: ConfigFiles, name: str, snapshot: Any, restore: Any, after_log: bool = False, from_log: str = ""
    ) -> bool:
        return whole(files, name, snapshot, restore, from_log=from_log)

    patch.setattr(ConfigFiles, "restore", at_once)
    patch.setattr(restoring, "take_back_offsets", lambda *_: [])


def _sync_errors_ignored(patch: Patch) -> None:
    whole = SimulatedFile.sync

    def sync(self: SimulatedFile) -> None:
        with suppress(OSError):
            whole(self)

    patch.setattr(SimulatedFile, "sync", sync)


def _locked_without_asking(patch: Patch) -> None:
    async def lock(self: LockRequests, queues: Iterable[Any]) -> LockOutcome:
        return LockOutcome(self._client.machine.clock.uptime_ms(), granted=set(queues))

    patch.setattr(LockRequests, "lock", lock)


def _commits_what_is_pulled(patch: Patch) -> None:
    whole = ProcessQueue.remove

    def remove(self: ProcessQueue, messages: Sequence[Any]) -> int:
        return NOTHING_HELD if whole(self, messages) == NOTHING_HELD else self.next_offset

    patch.setattr(ProcessQueue, "remove", remove)


def _failures_count_as_done(patch: Patch) -> None:
    patch.setattr(concurrent_policy, "count_done", lambda _status, _ack_index, count, *_: count)


def _time_moved(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that believes in a later time."""

    def early(self: Any, message_ms: int, limit: int) -> Any:
        return method(self, message_ms + EARLY_MS, limit)

    return early


def _deliveries_not_counted(patch: Patch) -> None:
    """After a start, what the log has of deliveries behind the saved progress."""
    patch.setattr(DelayService, "_take_in_marks", nothing)


def _waiting_messages_forgotten(patch: Patch) -> None:
    whole = DelayService.restore

    def restore(self: DelayService, queues: int) -> None:
        whole(self, queues)
        for level in list(self.queue._offsets):
            self.queue._offsets[level] = self.queue._entries.bounds(level)[1]

    patch.setattr(DelayService, "restore", restore)


def _all_end_as(patch: Patch, is_commit: bool) -> None:
    whole = TransactionService.end

    def end(self: TransactionService, half: Any, _: bool, *others: Any) -> None:
        whole(self, half, is_commit, *others)

    patch.setattr(TransactionService, "end", end)


def _end_forgotten_by_a_start(patch: Patch) -> None:
    """Half messages that were ended are open again."""
    patch.setattr(recovery, "ended_by", lambda _: [])


def _nobody_leaves(patch: Patch) -> None:
    patch.setattr(ConsumerManager, "disconnect", lambda *_: [])
    patch.setattr(ConsumerManager, "expire", lambda *_: [])


def _begins_at_zero(patch: Patch) -> None:
    async def stored(self: RemoteOffsets, queue: Any) -> int:
        return 0

    patch.setattr(RemoteOffsets, "stored", stored)


def _begins_at_the_end(patch: Patch) -> None:
    whole = RemoteOffsets.stored

    async def stored(self: RemoteOffsets, queue: Any) -> int:
        return await whole(self, queue) + 1

    patch.setattr(RemoteOffsets, "stored", stored)


def _no_lower_offset_refused(patch: Patch) -> None:
    """A broker keeps the first offset that it was told for a while."""
    whole = OffsetTable.commit

    def commit(self: OffsetTable, group: str, topic: str, queue_id: int, offset: int) -> None:
        whole(self, group, topic, queue_id, max(0, offset - offset % 7))

    patch.setattr(OffsetTable, "commit", commit)


def _offset_one_too_far(patch: Patch) -> None:
    whole = OffsetTable.commit

    def commit(self: OffsetTable, group: str, topic: str, queue_id: int, offset: int) -> None:
        whole(self, group, topic, queue_id, offset + 1)

    patch.setattr(OffsetTable, "commit", commit)


def _failed_turns_are_committed(patch: Patch) -> None:
    patch.setattr(ordered_consumption, "decide", lambda *_: OrderedVerdict.COMMIT)


def _registered_once(patch: Patch) -> None:
    async def stay_alive(self: Registration, address: str, _: int) -> None:
        await self._changed[address].wait()

    patch.setattr(Registration, "_stay_alive", stay_alive)
    patch.setattr(Registration, "lost", nothing)


def _allocated(patch: Patch, share: Callable[[Sequence[Any], list[Any]], list[Any]]) -> None:
    for strategy in (Averagely, AveragelyByCircle):
        whole = strategy.allocate

        def allocate(
            self: Any, group: str, client_id: str, queues: Sequence[Any], client_ids: Sequence[str],
            whole: Callable[..., list[Any]] = whole,
        ) -> list[Any]:  # fmt: skip
            return share(queues, whole(self, group, client_id, queues, client_ids))

        patch.setattr(strategy, "allocate", allocate)


def _send_that_failed_is_reported_as_done(patch: Patch) -> None:
    """What nobody knows of counts as stored where it was last known to be."""
    whole = Producer.send
    last: list[Any] = []

    async def send(self: Producer, message: Any, **where: Any) -> Any:
        try:
            result = await whole(self, message, **where)
        except Exception:
            if not last:
                raise
            return last[-1]
        last[:] = [result]
        return result

    patch.setattr(Producer, "send", send)


def _connection_kept(patch: Patch) -> None:
    """A listener's tasks are left behind: one for each start of a rebalance."""
    import asyncio

    from staticfire.client.consume.membership.rebalancer import Rebalancer

    whole = Rebalancer.rebalance

    async def rebalance(self: Rebalancer) -> bool:
        self._leaked = [*getattr(self, "_leaked", []), asyncio.ensure_future(asyncio.Event().wait())]  # type: ignore[attr-defined]
        return await whole(self)

    patch.setattr(Rebalancer, "rebalance", rebalance)


def _answers_late(patch: Patch) -> None:
    """What a listener says counts for the next message, too."""
    whole = concurrent_policy.ConcurrentPolicy.answered

    def answered(self: Any, messages: Any, status: Any, context: Any) -> Any:
        if status is ConsumeStatus.RECONSUME_LATER and messages[0].queue_offset % 2:
            status = ConsumeStatus.CONSUME_SUCCESS
        return whole(self, messages, status, context)

    patch.setattr(concurrent_policy.ConcurrentPolicy, "answered", answered)


def _set(owner: Any, name: str, value: Any) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(owner, name, value)


MUTANTS: dict[str, Callable[[Patch], None]] = {
    "a message is acknowledged before the disk has it": _answered_before_it_is_synced,
    "what a failed write didn't store is acknowledged": _failed_write_is_stored,
    "offsets are saved ahead of the log": _offsets_ahead,
    "what a failed fsync covered isn't written again": _set(Span, "rewrite", nothing),
    "errors of fsync are ignored": _sync_errors_ignored,
    "names of new files aren't synced": _set(SimulatedFiles, "sync_folder", nothing),
    "offsets of a burst that failed aren't taken back": _set(Queue, "roll_back", nothing),
    "locks are granted to whoever asks": _set(QueueLocks, "lock", lambda *given: list(given[3])),
    "locks never expire": _set(QueueLock, "has_expired", lambda *_: False),
    "a consumer takes queues without asking for their locks": _locked_without_asking,
    "what was pulled is committed, not what is done": _commits_what_is_pulled,
    "a failed message counts as done": _failures_count_as_done,
    "every second failed message counts as done": _answers_late,
    "a failed turn of an ordered queue is committed": _failed_turns_are_committed,
    "one retry too many": _set(retries, "is_dead", lambda came, most, is_given_up: is_given_up or came > most),
    "one retry too few": _set(retries, "is_dead", lambda came, most, is_given_up: is_given_up or came + 1 >= most),
    "delayed messages come early": lambda patch: patch.setattr(DelayQueue, "due", _time_moved(DelayQueue.due)),
    "messages with a delivery time come early": lambda patch: patch.setattr(
        TimerIndex, "take_due", _time_moved(TimerIndex.take_due)
    ),
    "a start delivers again what was delivered": _deliveries_not_counted,
    "a start forgets what waits": _waiting_messages_forgotten,
    "what was rolled back is delivered": lambda patch: _all_end_as(patch, True),
    "what was committed is dropped": lambda patch: _all_end_as(patch, False),
    "open transactions are never checked": _set(HalfMessageChecks, "_check_all", lambda *_: 0),
    "who is gone is never missed": _nobody_leaves,
    "a new owner begins a queue at its start": _begins_at_zero,
    "a new owner begins one message too late": _begins_at_the_end,
    "offsets are kept a little too low": _no_lower_offset_refused,
    "offsets are kept one too high": _offset_one_too_far,
    "a broker registers once and for all": _registered_once,
    "every member takes all queues": lambda patch: _allocated(patch, lambda queues, _: list(queues)),
    "no member takes the last queue": lambda patch: _allocated(
        patch, lambda queues, own: [queue for queue in own if queue != queues[-1]]
    ),
    "a send that failed is reported as done": _send_that_failed_is_reported_as_done,
    "a rebalance leaves a task behind": _connection_kept,
    **POP_MUTANTS,
    **MISSED_MUTANTS,
    **FURTHER_MUTANTS,
    **KIND_MUTANTS,
    **FOREIGN_MUTANTS,
    **REPLICA_MUTANTS,
    **LOSS_MUTANTS,
    **PROMISE_MUTANTS,
    **SHARE_MUTANTS,
    **LOOK_UP_MUTANTS,
}  # fmt: skip
