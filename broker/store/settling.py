"""When an append is called back: it is stored: at once, or with SYNC_FLUSH when the disk has them.

Invariant: no append is settled as STORED before the bytes are where the flush policy promises.
"""

from collections.abc import Callable
from typing import TypeAlias

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.outcomes import PutOutcome, Settlement, settle
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.protocol.errors import StorageError

WaitForSync: TypeAlias = Callable[[int, list[Settlement]], None]
"""Takes over appends that are to be settled when the log is synced up to a position."""


class Settling:
    """Settles what a burst has written; while there is a flusher, that one syncs for it."""

    def __init__(self, log: CommitLog, settings: StoreSettings) -> None:
        self._log = log
        self._waits_for_sync = settings.flush_disk_type is FlushDiskType.SYNC_FLUSH
        self._on_written: Callable[[], None] = _ignore
        self._wait_for_sync: WaitForSync = self._sync_at_once

    def use_flusher(self, on_written: Callable[[], None], wait_for_sync: WaitForSync) -> None:
        """Call `on_written` after each burst; leave what waits for the disk to `wait_for_sync`."""
        self._on_written, self._wait_for_sync = on_written, wait_for_sync

    def forget_flusher(self) -> None:
        """Sync at once from now on, where an append waits for it."""
        self._on_written, self._wait_for_sync = _ignore, self._sync_at_once

    def written(self, end_position: int, settlements: list[Settlement]) -> None:
        """Settle the appends of a burst that is in the log up to a position."""
        if self._waits_for_sync:
            waiting = [settlement for settlement in settlements if settlement[4]]
            if waiting:
                self._wait_for_sync(end_position, waiting)
            settlements = [settlement for settlement in settlements if not settlement[4]]
        for on_stored, context, queue_offset, position, _ in settlements:
            on_stored(context, queue_offset, position, PutOutcome.STORED)
        self._on_written()

    def _sync_at_once(self, _end_position: int, settlements: list[Settlement]) -> None:
        outcome = PutOutcome.STORED
        try:
            self._log.sync()
        except (OSError, StorageError):
            outcome = PutOutcome.FLUSH_TIMEOUT
        settle(settlements, outcome)


def _ignore() -> None:
    """Do nothing."""
