"""One fsync of the commit log, and what has to be written again after one that failed.

When a write to the disk fails, Linux tells one fsync of it, marks the pages clean and forgets what was to be written:
the next fsync succeeds, and the bytes are lost with the power. So nothing since the last success counts. As long as
memory still has them the bytes are written again, which makes the pages dirty again; each record carries its own CRC,
so it is known whether what is read back is what was once written, or what the disk has instead. docs/decisions/0015.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import Found, check_record, peek_record_bytes
from staticfire.runtime.machine import File

REWRITE_BYTES = 1024 * 1024
_HEAD_BYTES = 64


class UnsyncedLost(StorageError):
    """Records that were never safe are gone from memory, too: only a start can find out what there is."""


class Span(NamedTuple):
    """A part of a segment that isn't synced; it begins and ends between two records."""

    file: File
    path: str
    segment_start: int
    start: int
    stop: int
    is_rewritten: bool
    """An fsync of it has failed, or may have."""

    def rewrite(self) -> None:
        """Write it again. Raises: OSError, UnsyncedLost."""
        at, whole = self.start, bytearray()
        for record in self._records():
            whole += record
            if len(whole) >= REWRITE_BYTES:
                self.file.write(at, whole)
                at, whole = at + len(whole), bytearray()
        if whole:
            self.file.write(at, whole)

    def _records(self) -> Iterator[bytes]:
        """Yield the records and blanks as they are read. Raises: UnsyncedLost (there is something else)."""
        at = self.start
        while at < self.stop:
            head = self.file.read_unmapped(at, _HEAD_BYTES)
            claimed = peek_record_bytes(head) if len(head) >= 8 else 0
            record = self.file.read_unmapped(at, min(max(claimed, _HEAD_BYTES), self.stop - at))
            verdict = check_record(record, 0, self.segment_start + at)
            if verdict.found not in (Found.RECORD, Found.BLANK):
                raise UnsyncedLost(
                    f"{self.path}: {self.stop - at} bytes at {at} that the disk could not take are lost from memory as "
                    f"well ({verdict.reason}); nothing more can be promised until the broker has recovered: start it "
                    f"again, on a disk that works"
                )
            yield record[: verdict.size]
            at += verdict.size


class LogSync(NamedTuple):
    """An fsync to be done in a worker: `carry_out`, then `CommitLog.synced` or `CommitLog.sync_failed` on the loop."""

    target_position: int
    spans: list[Span]
    sync_names: Callable[[], None]

    def carry_out(self) -> None:
        """Return when everything below `target_position` is on the disk. Blocks. Raises: OSError, UnsyncedLost."""
        for span in self.spans:
            if span.is_rewritten:
                span.rewrite()
            span.file.sync()
        self.sync_names()
