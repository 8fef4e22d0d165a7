"""The background flush of a store: two loops, and the appends that wait for an fsync (group commit).

    log loop      ASYNC_FLUSH: an fsync `flush_ms` after something was written
                  SYNC_FLUSH: an fsync at once; appends that arrive meanwhile share the next fsync
    queue loop    a flush round `queue_flush_ms` after something was written, a number of queues per period

All blocking calls run in workers. Without writes, the loops are idle. Invariants: a waiting append is settled once, as
STORED after an fsync that covers it, otherwise as FLUSH_TIMEOUT; the log has only one fsync at a time, for all callers.

After a failed fsync, unsafe data is written again before the next one (log_sync.py). After a second failure in a row,
the store refuses appends until an fsync succeeds: this limits what may be lost, and notifies the senders. RocketMQ:
GroupCommitService, FlushRealTimeService, FlushConsumeQueueService.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from staticfire.broker.store.outcomes import PutOutcome, Settlement, settle
from staticfire.broker.store.settings import FlushDiskType
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.machine import Clock, Workers

# The number of failed fsyncs in a row after which the store refuses messages.
FAILURES_MAX = 2
NOT_SYNCED = "log not synced"


class _Group(NamedTuple):
    """The appends of one burst that wait for the disk."""

    end_position: int
    deadline_ms: UptimeMs
    settlements: list[Settlement]


class StoreFlusher:
    """The background loops of one open store. Call `stop` before the store is closed."""

    def __init__(
        self, store: MessageStore, clock: Clock, workers: Workers, on_trouble: Callable[[StorageError], None]
    ) -> None:
        self._store = store
        self._settings = store.settings
        self._clock = clock
        self._workers = workers
        self._on_trouble = on_trouble
        self._is_sync = self._settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._groups: deque[_Group] = deque()
        self._log_written = asyncio.Event()
        self._queues_written = asyncio.Event()
        self._stopping = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._log_turn = asyncio.Lock()
        # The number of failed fsyncs in a row.
        self._failures = 0

    def start(self, spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]) -> None:
        """Start the loops as tasks of the service that `spawn` belongs to."""
        self._store.use_flusher(self._wake, self._wait_for_sync)
        self._wake()  # Recovery may have left something to write.
        self._loops = [spawn(self._log_loop(), "store_log_loop"), spawn(self._queue_loop(), "store_queue_loop")]

    async def stop(self) -> None:
        """Let the loops end after their current step; the store itself writes the rest."""
        self._stopping.set()
        self._wake()
        if self._loops:
            await asyncio.wait(self._loops)
        self._store.forget_flusher()
        try:
            await self._sync_log()
        except StorageError as error:
            self._on_trouble(error)
        self._expire(None)

    def _wake(self) -> None:
        self._log_written.set()
        self._queues_written.set()

    def _wait_for_sync(self, end_position: int, settlements: list[Settlement]) -> None:
        deadline_ms = UptimeMs(self._clock.uptime_ms() + self._settings.sync_flush_timeout_ms)
        self._groups.append(_Group(end_position, deadline_ms, settlements))

    # --- the log

    async def _log_loop(self) -> None:
        while await self._work(self._log_written):
            if not self._is_sync:
                await self._pause(self._settings.flush_ms)
            if not await self._sync_log():
                await self._pause(self._settings.flush_ms)
                self._log_written.set()

    async def make_safe(self) -> None:
        """Wait until everything stored before the call is on the disk. Raises: StorageError."""
        if not await self._sync_log(self._store.log.end_position):
            raise StorageError("the commit log can't be synced, so files that refer to it aren't saved either")

    async def _sync_log(self, end_position: int | None = None) -> bool:
        """Do one fsync for all waiting appends, unless the log is already safe up to `end_position`.

        Return whether it is safe. Raises: StorageError (the unsynced data is lost).
        """
        log = self._store.log
        async with self._log_turn:
            if end_position is not None and log.synced_position >= end_position:
                return True
            sync = log.start_sync()
            if sync is not None:
                try:
                    await self._wait_for(asyncio.ensure_future(self._workers.run(sync.carry_out)))
                    log.synced(sync)
                except OSError as error:
                    self._failed(error)
                    return False
                except BaseException:
                    log.sync_failed()
                    raise
                self._succeeded()
            while self._groups and self._groups[0].end_position <= log.synced_position:
                settle(self._groups.popleft().settlements, PutOutcome.STORED)
            return True

    async def _wait_for(self, syncing: asyncio.Future[None]) -> None:
        """Wait for an fsync, and settle the appends whose deadline passes meanwhile. Raises: what the fsync raises."""
        try:
            while not syncing.done():
                await asyncio.wait({syncing}, timeout=self._patience_s())
                self._expire(self._clock.uptime_ms())
        except asyncio.CancelledError:
            await _ended(syncing)
            raise
        syncing.result()

    def _failed(self, error: OSError) -> None:
        if self._store.log.is_syncing:
            self._store.log.sync_failed()
        self._expire(None)
        self._failures += 1
        trouble = StorageError(f"the commit log can't be synced: {error}")
        self._on_trouble(trouble)
        if self._failures >= FAILURES_MAX:
            self._store.refuse(StorageError(f"{trouble}; no message is stored until that succeeds"), cause=NOT_SYNCED)

    def _succeeded(self) -> None:
        if self._failures >= FAILURES_MAX:
            self._store.refuse(None, cause=NOT_SYNCED)
        self._failures = 0

    def _patience_s(self) -> float:
        """Return the time until the first deadline. Appends that arrive later have at least that much time."""
        if not self._groups:
            return self._settings.sync_flush_timeout_ms / 1000
        return max(0, self._groups[0].deadline_ms - self._clock.uptime_ms()) / 1000

    def _expire(self, uptime_ms: UptimeMs | None) -> None:
        """Settle the appends whose deadline has passed, or all, as FLUSH_TIMEOUT."""
        while self._groups and (uptime_ms is None or self._groups[0].deadline_ms <= uptime_ms):
            settle(self._groups.popleft().settlements, PutOutcome.FLUSH_TIMEOUT)

    # --- the queues

    async def _queue_loop(self) -> None:
        while await self._work(self._queues_written):
            await self._pause(self._settings.queue_flush_ms)
            try:
                is_done = await self._flush_queues()
            except OSError as error:
                self._on_trouble(StorageError(f"the consume queues can't be written: {error}"))
                is_done = False
            if not is_done:
                await self._pause(self._settings.queue_flush_ms)
                self._queues_written.set()

    async def _flush_queues(self) -> bool:
        """Do one round; return whether it was completed. Raises: OSError, StorageError."""
        steps = self._store.flush_steps()
        try:
            for step in steps:
                if not step.is_log:
                    await self._in_worker(step.carry_out)
                elif not await self._sync_log():
                    return False
                if step.more_queues:
                    await self._pause(self._settings.queue_flush_ms)
                if self._stopping.is_set():
                    return False
            return True
        finally:
            steps.close()

    # --- waiting

    async def _work(self, written: asyncio.Event) -> bool:
        """Wait until something was written; return False when the loop must end."""
        await written.wait()
        written.clear()
        return not self._stopping.is_set()

    async def _pause(self, pause_ms: int) -> None:
        try:
            async with asyncio.timeout(pause_ms / 1000):
                await self._stopping.wait()
        except TimeoutError:
            pass  # The pause is over.

    async def _in_worker(self, carry_out: Callable[[], None]) -> None:
        """Carry out a step in a worker.

        If cancelled, wait for its end first: its files must not be closed during it.
        """
        task = asyncio.ensure_future(self._workers.run(carry_out))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await _ended(task)
            raise


async def _ended(task: asyncio.Future[None]) -> None:
    """Wait for the end of a task and ignore its outcome: the caller was cancelled, perhaps twice."""
    task.add_done_callback(_look)
    if not task.done():
        await asyncio.wait({task})


def _look(task: asyncio.Future[None]) -> None:
    """Retrieve the exception, so that asyncio doesn't report it as unhandled."""
    if not task.cancelled():
        task.exception()
