"""What keeps bringing a store to the disk: two loops, and the appends that wait for an fsync.

    log loop      ASYNC_FLUSH: an fsync `flush_ms` after something was written
                  SYNC_FLUSH: an fsync at once; while it runs the next group of appends gathers, one fsync answers all
    queue loop    a flush round `queue_flush_ms` after something was written, a number of queues per period

All blocking happens in workers. Nothing runs while nothing is written. Invariant: an append that waits is settled once:
STORED after an fsync that covers it, else FLUSH_TIMEOUT. RocketMQ: GroupCommitService, FlushRealTimeService,
FlushConsumeQueueService.
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


class _Group(NamedTuple):
    """The appends of one burst that wait for the disk."""

    end_position: int
    deadline_ms: UptimeMs
    settlements: list[Settlement]


class StoreFlusher:
    """The background of one open store. `stop` it before the store is closed."""

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

    def start(self, spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]]) -> None:
        """Start the loops as tasks of the service whose `spawn` this is."""
        self._store.use_flusher(self._wake, self._wait_for_sync)
        self._wake()  # recovery may have left something to write
        self._loops = [spawn(self._log_loop(), "store_log_loop"), spawn(self._queue_loop(), "store_queue_loop")]

    async def stop(self) -> None:
        """Let the loops end after the step they are at; the store takes over what is left."""
        self._stopping.set()
        self._wake()
        if self._loops:
            await asyncio.wait(self._loops)
        self._store.forget_flusher()
        await self._sync_log()
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

    async def _sync_log(self) -> bool:
        """Do one fsync for all who wait; return whether it succeeded."""
        sync = self._store.log.start_sync()
        if sync is not None:
            task = asyncio.ensure_future(self._in_worker(sync.carry_out))
            try:
                while not task.done():
                    await asyncio.wait({task}, timeout=self._patience_s())
                    self._expire(self._clock.uptime_ms())
            finally:
                if not task.done():
                    await asyncio.wait({task})
            error = task.exception()
            if isinstance(error, OSError):
                self._store.log.sync_failed()
                self._expire(None)
                self._on_trouble(StorageError(f"the commit log can't be synced: {error}"))
                return False
            task.result()
            self._store.log.synced(sync)
        while self._groups and self._groups[0].end_position <= self._store.log.synced_position:
            settle(self._groups.popleft().settlements, PutOutcome.STORED)
        return True

    def _patience_s(self) -> float:
        """Return how long nobody who waits is due. Who comes meanwhile has at least as long."""
        if not self._groups:
            return self._settings.sync_flush_timeout_ms / 1000
        return max(0, self._groups[0].deadline_ms - self._clock.uptime_ms()) / 1000

    def _expire(self, uptime_ms: UptimeMs | None) -> None:
        """Give up those whose deadline has passed, or all."""
        while self._groups and (uptime_ms is None or self._groups[0].deadline_ms <= uptime_ms):
            settle(self._groups.popleft().settlements, PutOutcome.FLUSH_TIMEOUT)

    # --- the queues

    async def _queue_loop(self) -> None:
        while await self._work(self._queues_written):
            await self._pause(self._settings.queue_flush_ms)
            try:
                await self._flush_queues()
            except OSError as error:
                self._on_trouble(StorageError(f"the consume queues can't be written: {error}"))
                await self._pause(self._settings.queue_flush_ms)
                self._queues_written.set()

    async def _flush_queues(self) -> None:
        steps = self._store.flush_steps()
        try:
            for step in steps:
                await self._in_worker(step.carry_out)
                if step.more_queues:
                    await self._pause(self._settings.queue_flush_ms)
                if self._stopping.is_set():
                    return
        finally:
            steps.close()

    # --- waiting

    async def _work(self, written: asyncio.Event) -> bool:
        """Wait until something was written; return False when it is time to end."""
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
        """Carry a step out. Also when cancelled it ends first: its files must not be closed under it."""
        task = asyncio.ensure_future(self._workers.run(carry_out))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                await asyncio.wait({task})
            raise
