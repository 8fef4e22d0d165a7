"""Settle appends, that is, notify their callers that the records are stored.

This happens right after the write; with SYNC_FLUSH, after the fsync.

Invariant: no append is settled as STORED before its bytes are as safe as the flush policy promises.
"""

from collections.abc import Callable
from typing import TypeAlias

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.outcomes import PutOutcome, Settlement, settle
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.protocol.errors import StorageError

WaitForSync: TypeAlias = Callable[[int, list[Settlement]], None]
"""Takes appends that must be settled when the log is synced up to a position."""
WaitForCopies: TypeAlias = Callable[[int, list[Settlement]], list[Settlement]]
"""Takes the appends of a burst that must be settled when slaves have the log up to a position. Returns the others, with
one that reports the outcome of the write or the fsync. It is called once per burst; with no appends if the write has
failed, because the next burst has the same positions."""


class Settling:
    """Settles the appends of written bursts. If there is a flusher, it does the syncs; otherwise this class does."""

    def __init__(self, log: CommitLog, settings: StoreSettings) -> None:
        self._log = log
        self._waits_for_sync = settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._on_written: Callable[[], None] = _ignore
        self._wait_for_sync: WaitForSync = self._sync_at_once
        self._wait_for_copies: WaitForCopies | None = None

    def use_flusher(self, on_written: Callable[[], None], wait_for_sync: WaitForSync) -> None:
        """Call `on_written` after each burst; pass appends that wait for the disk to `wait_for_sync`."""
        self._on_written, self._wait_for_sync = on_written, wait_for_sync

    def use_copies(self, wait_for_copies: WaitForCopies | None) -> None:
        """Pass appends that wait for slaves to `wait_for_copies`; None: no append waits for them."""
        self._wait_for_copies = wait_for_copies

    def forget_flusher(self) -> None:
        """From now on, sync at once when an append waits for the disk."""
        self._on_written, self._wait_for_sync = _ignore, self._sync_at_once

    def written(self, end_position: int, settlements: list[Settlement]) -> None:
        """Settle the appends of a burst that was written to the log up to a position."""
        if self._wait_for_copies is not None:
            settlements = self._wait_for_copies(end_position, settlements)
        if self._waits_for_sync:
            waiting = [settlement for settlement in settlements if settlement[4]]
            if waiting:
                self._wait_for_sync(end_position, waiting)
            settlements = [settlement for settlement in settlements if not settlement[4]]
        for on_stored, context, queue_offset, position, _ in settlements:
            on_stored(context, queue_offset, position, PutOutcome.STORED)
        self._on_written()

    def failed(self, settlements: list[Settlement]) -> None:
        """Settle the appends of a burst that could not be written."""
        if self._wait_for_copies is not None:
            self._wait_for_copies(self._log.end_position, [])
        settle(settlements, PutOutcome.FAILED)

    def _sync_at_once(self, _end_position: int, settlements: list[Settlement]) -> None:
        outcome = PutOutcome.STORED
        try:
            self._log.sync()
        except (OSError, StorageError):
            outcome = PutOutcome.FLUSH_TIMEOUT
        settle(settlements, outcome)


def _ignore() -> None:
    """Do nothing."""
