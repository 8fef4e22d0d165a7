"""One fsync of the commit log, and the rewrite of data after a failed fsync.

If a write to the disk fails, Linux reports the error to one fsync, marks the pages clean and drops the unwritten data.
The next fsync succeeds, although the bytes will be lost at a power loss. So after a failure, nothing written since the
last successful fsync counts as safe. While memory still contains the bytes, they are written again, which makes the
pages dirty again. Each record has its own CRC, so a read shows whether the page still contains the record, or other
bytes from the disk. See docs/decisions/0015.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import Found, check_record, peek_record_bytes
from staticfire.runtime.machine import File

REWRITE_BYTES = 1024 * 1024
_HEAD_BYTES = 64


class UnsyncedLost(StorageError):
    """Records that were never synced are lost from memory, too. Only a restart with recovery can tell what is left."""


class Span(NamedTuple):
    """A part of a segment that isn't synced. It begins and ends at record boundaries."""

    file: File
    path: str
    segment_start: int
    start: int
    stop: int
    is_rewritten: bool
    """Whether it must be written again, because an fsync of it failed or may have failed."""

    def rewrite(self) -> None:
        """Write the records again. Raises: OSError, UnsyncedLost."""
        at, whole = self.start, bytearray()
        for record in self._records():
            whole += record
            if len(whole) >= REWRITE_BYTES:
                self.file.write(at, whole)
                at, whole = at + len(whole), bytearray()
        if whole:
            self.file.write(at, whole)

    def _records(self) -> Iterator[bytes]:
        """Yield the records and blanks as they are read. Raises: UnsyncedLost (other bytes were read)."""
        at = self.start
        while at < self.stop:
            head = self.file.read_unmapped(at, _HEAD_BYTES)
            claimed = peek_record_bytes(head) if len(head) >= 8 else 0
            record = self.file.read_unmapped(at, min(max(claimed, _HEAD_BYTES), self.stop - at))
            verdict = check_record(record, 0, self.segment_start + at)
            if verdict.found not in (Found.RECORD, Found.BLANK):
                raise UnsyncedLost(
                    f"{self.path}: {self.stop - at} bytes at {at} that the disk could not take are lost from memory as "
                    f"well ({verdict.reason}); the broker must recover before it can store more: restart it on a "
                    "working disk"
                )
            yield record[: verdict.size]
            at += verdict.size


class LogSync(NamedTuple):
    """One fsync. A worker calls `carry_out`; then the loop calls `CommitLog.synced` or `CommitLog.sync_failed`."""

    target_position: int
    spans: list[Span]
    sync_names: Callable[[], None]

    def carry_out(self) -> None:
        """Sync everything below `target_position` to the disk. Blocks. Raises: OSError, UnsyncedLost."""
        for span in self.spans:
            if span.is_rewritten:
                span.rewrite()
            span.file.sync()
        self.sync_names()
