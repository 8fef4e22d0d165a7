"""One queue of a topic: the log position of each of its messages. RocketMQ: ConsumeQueue.

    0 ......... tail_offset ....... flushed_offset ....... max_offset ....... next_offset
    |---------- in the files ------------|
                |------------------- in memory (`tail`) ------------------------|
    |------------------ visible to readers ---------------------|

Invariants: `max_offset` is the offset after the last message of a burst that was written to the log, `next_offset` the
offset after the last assigned one; an entry is never in the files before its record is safe; no offset below
`min_offset` has a record. queue_table.py decides which queues are written, and when.
"""

from typing import Protocol

from staticfire.broker.store.outcomes import Entry
from staticfire.broker.store.queue_files import ENTRY, ENTRY_BYTES, LOST, QueueFiles, QueueWrite
from staticfire.broker.store.queue_start import find_first, next_entry
from staticfire.protocol.record import pack_topic

# The limit of consecutive entries of lost records in one queue. With more, it is not a salvaged queue but another one.
HOLES_MAX = 1_000_000
_LOAD_ENTRIES = 1024


class LogStart(Protocol):
    """The parts of the log that a queue needs."""

    @property
    def min_position(self) -> int: ...


class Queue:
    """Entries and offsets of one queue. The store appends to `tail`, and moves `next_offset` and `max_offset`."""

    __slots__ = (
        "_files",
        "_log",
        "_min",
        "_min_of",
        "_safe_file",
        "deleted",
        "first_file",
        "flushed_offset",
        "folder",
        "max_offset",
        "new_bytes",
        "next_offset",
        "packed_topic",
        "queue_id",
        "tail",
        "tail_offset",
        "topic",
        "unreadable",
    )

    def __init__(self, topic: str, queue_id: int, folder: str, files: QueueFiles, log: LogStart) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.packed_topic = pack_topic(topic)
        self.folder = folder
        self._files = files
        self._log = log
        # The first offset of the newest file whose name is known to be on the disk.
        self._safe_file = -1
        self.deleted = False
        self.unreadable: set[int] = set()
        """Offsets of messages whose records are damaged, as far as reads have detected it."""
        self.tail = bytearray()
        self.new_bytes = 0
        """The size of all records since the last call of `take_new_bytes`."""
        self.restart_at(0)

    def restart_at(self, offset: int) -> None:
        """Become an empty queue that continues at `offset`."""
        self.tail.clear()
        self.first_file = offset - offset % self._files.entries_per_file
        self.tail_offset = self.flushed_offset = self.max_offset = self.next_offset = self._min = offset
        # The log's start for which `_min` was determined.
        self._min_of = -1

    def begin_at(self, offset: int) -> None:
        """Do `restart_at` for a queue without messages before `offset`; its first file has a hole before it."""
        is_within_file = offset % self._files.entries_per_file > 0
        self.restart_at(offset - is_within_file)
        self.add_holes(int(is_within_file))

    # --- at start

    def load(self, trusted_below: int) -> bool:
        """Determine what the files contain; cut off entries of records at `trusted_below` or above.

        Return whether anything was cut: the cut is safe only after the queue was written again. Raises: OSError.
        """
        starts = self._files.starts(self.folder)
        if not starts:
            return False
        cut = removed = False
        while True:
            start = starts.pop()
            written = self._files.count(self.folder, start)
            count = self._trusted_entries(start, written, trusted_below)
            if count or not starts:
                break
            self._files.remove(self.folder, start)
            cut = removed = True
        if count < written:
            cut = True
        if count and not removed:
            self._safe_file = start  # The checkpoint covers this file, so its name is on the disk.
        self._files.cut(self.folder, start, count)
        self.restart_at(start + count)
        self.first_file = self._min = starts[0] if starts else start
        return cut

    def _trusted_entries(self, start: int, count: int, trusted_below: int) -> int:
        # Entries covered by the checkpoint come first. After them come entries that were written later, perhaps with
        # holes.
        lost_end = 0
        while count:
            first = max(0, count - _LOAD_ENTRIES)
            entries = self._files.read(self.folder, start + first, count - first)
            for index in range(len(entries) // ENTRY_BYTES - 1, -1, -1):
                position, size, _ = ENTRY.unpack_from(entries, index * ENTRY_BYTES)
                if size > 0 and position < trusted_below:
                    return lost_end or first + index + 1
                if size > 0:
                    lost_end = 0
                elif position < 0 and not lost_end:
                    lost_end = first + index + 1
            count = first
        return lost_end

    # --- appending

    def add(self, entry: bytes) -> None:
        """Append a visible entry, during recovery."""
        self.tail += entry
        self.next_offset += 1
        self.max_offset = self.next_offset

    def add_holes(self, count: int) -> None:
        """Append entries for lost records, during recovery."""
        self.tail += LOST * count
        self.next_offset += count
        self.max_offset = self.next_offset

    def go_on_at(self, end: int) -> int:
        """Leave the offsets from `max_offset` to `end` without messages and continue at `end`; return their number."""
        lost = end - self.max_offset
        if self.is_empty or lost > HOLES_MAX:
            self.begin_at(end - 1)
        self.add_holes(end - self.max_offset)
        return lost

    def roll_back(self) -> None:
        """Remove the entries that aren't visible: their records were not written."""
        at = (self.max_offset - self.tail_offset) * ENTRY_BYTES
        self.new_bytes -= sum(entry[1] for entry in ENTRY.iter_unpack(self.tail[at:]))
        del self.tail[at:]
        self.next_offset = self.max_offset

    def take_new_bytes(self) -> int:
        """Return the size of the records that were added since the last call."""
        taken, self.new_bytes = self.new_bytes, 0
        return taken

    # --- reading

    @property
    def min_offset(self) -> int:
        """The first offset whose record is still in the log; `max_offset` if there is none."""
        if self._min_of != self._log.min_position:
            self._find_min()
        return self._min

    @property
    def is_empty(self) -> bool:
        """Whether the queue has no message, or none any more."""
        return self.min_offset >= self.max_offset

    def _find_min(self) -> None:
        lowest = self._log.min_position
        self._min, self._min_of = find_first(self, self._min, lowest), lowest

    def begins_at(self, offset: int) -> None:
        """Note that there is no message before an offset."""
        self._min = max(self._min, offset)

    def mark_beginning(self) -> None:
        """Mark the empty entries before the first message, as an older version left them, as a hole.

        Raises: OSError.
        """
        first = next_entry(self, self.first_file, self.max_offset)
        if first > self.first_file and self.entry_bytes(first - 1, 1) != LOST:
            self.mend(first - 1, LOST)

    def entry_bytes(self, offset: int, count: int) -> bytes | bytearray:
        """Return entries from a visible offset on, at least one if the files are complete. Raises: OSError."""
        at = offset - self.tail_offset
        if at >= 0:
            return self.tail[at * ENTRY_BYTES : (at + count) * ENTRY_BYTES]
        return self._files.read(self.folder, offset, min(count, -at))

    def entries(self, offset: int, count: int) -> list[Entry]:
        """Return up to `count` visible entries, from a visible offset on. Raises: OSError."""
        found: list[Entry] = []
        offset = max(offset, self.min_offset)
        end = min(offset + count, self.max_offset)
        while offset < end and (entries := self.entry_bytes(offset, end - offset)):
            found.extend(map(Entry._make, ENTRY.iter_unpack(entries)))
            offset += len(entries) // ENTRY_BYTES
        return found

    def mend(self, offset: int, entry: bytes) -> None:
        """Replace a wrong entry. Raises: OSError."""
        at = offset - self.tail_offset
        if at >= 0:
            self.tail[at * ENTRY_BYTES : (at + 1) * ENTRY_BYTES] = entry
        if offset < self.flushed_offset:
            self._files.mend(self.folder, offset, entry)
        self._min = min(self._min, offset)

    # --- writing to files

    def unflushed(self, up_to_offset: int) -> list[QueueWrite]:
        """Return the writes after which the files contain everything below `up_to_offset`.

        If there is nothing new, one empty write is returned, which syncs the file.
        """
        writes = []
        offset = self.flushed_offset
        while True:
            in_file = offset % self._files.entries_per_file
            count = min(up_to_offset - offset, self._files.entries_per_file - in_file)
            at = (offset - self.tail_offset) * ENTRY_BYTES
            entries = bytes(self.tail[at : at + count * ENTRY_BYTES])
            path, is_new = self._files.path(self.folder, offset), offset - in_file != self._safe_file
            writes.append(QueueWrite(self.folder, path, in_file * ENTRY_BYTES, entries, is_new))
            offset += count
            if offset >= up_to_offset:
                return writes

    def flushed(self, up_to_offset: int, keep_entries: int) -> None:
        """Note that the files contain everything below `up_to_offset`, and keep only the last few entries in memory."""
        last_written = max(self.flushed_offset, up_to_offset - 1)
        self._safe_file = last_written - last_written % self._files.entries_per_file
        self.flushed_offset = up_to_offset
        drop = up_to_offset - keep_entries - self.tail_offset
        if drop > 0:
            del self.tail[: drop * ENTRY_BYTES]
            self.tail_offset += drop

    def remove_old_files(self) -> None:
        """Remove the files without records, except the last one, which defines the end offset. Raises: OSError."""
        per_file = self._files.entries_per_file
        # The condition on `min_offset` comes last: it may cost reads, and most queues have only one file.
        while (next_file := self.first_file + per_file) < self.flushed_offset and next_file <= self.min_offset:
            self._files.remove(self.folder, self.first_file)
            self.first_file = next_file
