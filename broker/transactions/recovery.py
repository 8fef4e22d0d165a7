"""Restore transactions at start, from transactions.json and the two queues.

The file contains which half messages were open when the queues ended at certain offsets, and which were committed after
they were moved away. The entries after these offsets are read at a start. If the file is missing or damaged, or a queue
is shorter than in the file, both queues are read completely; then the checks of each half message are counted from 0
again.
"""

from collections.abc import Iterator

import msgspec

from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.store import MessageStore
from staticfire.broker.transactions.expired_halves import ExpiredHalves
from staticfire.broker.transactions.forms import ended_by
from staticfire.broker.transactions.open_halves import OpenHalves, SavedHalves
from staticfire.protocol.names import HALF_TOPIC, OP_HALF_TOPIC
from staticfire.protocol.record import StoredRecord, decode_record
from staticfire.runtime.service import Pause

FILE = "transactions.json"
SAVE_MS = 10_000
READ_MAX = 512


class TransactionRecovery:
    """The file, and the search for open half messages."""

    def __init__(
        self, config_files: ConfigFiles, store: MessageStore, halves: OpenHalves, expired: ExpiredHalves
    ) -> None:
        self._config_files = config_files
        self._store = store
        self._open = halves
        self._expired = expired
        self._saved = SavedHalves()

    def restore(self) -> Iterator[tuple[StoredRecord, int]]:
        """Yield each open half message, and the number of its checks. Note those that were committed late.

        Raises: StorageError.
        """
        words = "open half messages are read from the log; their checks are counted from 0 again"
        self._config_files.restore(FILE, self._snapshot, self._take_in, after_log=True, from_log=words)
        halves, ends = self._queues()
        saved = self._saved
        if saved.half_end > halves.max_offset or saved.op_end > ends.max_offset:
            saved = SavedHalves()
        checks, ended = saved.checks, set[int]()
        self._expired.committed(saved.committed_late)
        for record in self._records(ends, saved.op_end):
            offsets = ended_by(record)
            ended_before = (one for one in offsets if one in ended or (one < saved.half_end and one not in checks))
            self._expired.committed(ended_before)
            ended.update(offsets)
        for offset in sorted(checks):
            if offset not in ended:
                for record in self._records(halves, offset, offset + 1):
                    yield record, checks[offset]
        for record in self._records(halves, saved.half_end):
            if record.queue_offset not in ended:
                yield record, 0

    def save(self) -> None:
        """Request that the file is written, if it isn't up to date."""
        halves, ends = self._queues()
        if (self._saved.half_end, self._saved.op_end) != (halves.max_offset, ends.max_offset) or len(self._open):
            self._config_files.changed(FILE)

    def forget(self) -> None:
        """Reset everything, because the queues were deleted."""
        self._saved = SavedHalves()
        self._config_files.changed(FILE)

    async def loop(self, pause: Pause) -> None:
        """Save periodically, forever."""
        while True:
            await pause(SAVE_MS)
            self.save()

    def _queues(self) -> tuple[Queue, Queue]:
        return self._store.queue(HALF_TOPIC, 0), self._store.queue(OP_HALF_TOPIC, 0)

    def _records(self, queue: Queue, offset: int, end: int | None = None) -> Iterator[StoredRecord]:
        """Yield the whole records of a queue from an offset on."""
        offset, end = max(offset, queue.min_offset), queue.max_offset if end is None else min(end, queue.max_offset)
        while offset < end:
            entries = self._store.entries(queue, offset, min(READ_MAX, end - offset))
            if not entries:
                return
            for entry in entries:
                data = self._store.record_at(entry.log_position) if entry.record_bytes else None
                if data is not None:
                    yield decode_record(data)
            offset += len(entries)

    def _take_in(self, data: bytes) -> None:
        self._saved = msgspec.json.decode(data, type=SavedHalves)

    def _snapshot(self) -> bytes:
        halves, ends = self._queues()
        half_end, late = halves.max_offset, self._expired.committed_offsets()
        self._saved = SavedHalves(half_end, ends.max_offset, self._open.checks_before(half_end), late)
        return msgspec.json.encode(self._saved)
