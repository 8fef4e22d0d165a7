"""Restore timers at start, from timers.json, the log after its position, and the entries of waiting messages.

The file contains which messages of the queue were done at a certain log position. It is written after the disk has the
log up to there. After that position, the marks in delivered and recall records show the rest. So neither a kill nor a
power loss causes a message to be delivered twice, not at all, or although it was recalled. If the file is missing or
damaged, all marks of the log are read.
"""

import base64
import zlib
from collections.abc import Iterator

import msgspec

from staticfire.broker.config_files import ConfigFiles
from staticfire.broker.delay.stored_form import read_mark
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import Entry
from staticfire.broker.store.store import MessageStore
from staticfire.broker.timers.forms import HASH_BITS, HASH_MASK, TIMER_LEVEL
from staticfire.broker.timers.waiting import DoneOffsets, TimerIndex
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.names import WHEEL_TIMER_TOPIC
from staticfire.protocol.numbers import LogPosition
from staticfire.protocol.record import peek_prepared_position
from staticfire.runtime.log import logger

log = logger("broker")

FILE = "timers.json"
READ_MAX = 4096


class SavedTimers(msgspec.Struct, rename="camel", gc=False):
    """The content of the file. `done`: the bits from offset `base` on, packed by zlib."""

    base: LogPosition = 0
    end: LogPosition = 0
    """The end of the queue."""
    log_position: LogPosition = 0
    done: str = ""


class TimerRecovery:
    """The file, and the search for waiting messages."""

    def __init__(self, config_files: ConfigFiles, store: MessageStore, index: TimerIndex) -> None:
        self._config_files = config_files
        self._store = store
        self._index = index
        self.saved = SavedTimers()

    def restore(self) -> int:
        """Find the waiting messages; return their number. Raises: StorageError."""
        words = "waiting, delivered and recalled messages are read from the log"
        self._config_files.restore(FILE, self._snapshot, self._take_in, after_log=True, from_log=words)
        queue, store = self._store.queue(WHEEL_TIMER_TOPIC, 0), self._store
        saved, deleted_at = self.saved, store.deletions.get(WHEEL_TIMER_TOPIC, -1)
        is_wrong = saved.end > queue.max_offset or saved.log_position > store.max_position
        if saved.log_position <= deleted_at or is_wrong:
            self.saved = saved = SavedTimers(log_position=max(deleted_at, 0))
        if is_wrong:
            words = "it contains more than the log; the progress is read from the log"
            log.error("timer_progress_wrong", file=FILE, reason=words)
            self._config_files.changed(FILE)
        done = self._index.done = DoneOffsets(saved.base, _unpacked(saved.done))
        done.add_below(queue.min_offset)
        if done.first_missing() >= queue.max_offset:
            return 0
        for offset in self._marked(queue, saved.log_position):
            done.add(offset)
        return self._take_in_entries(queue)

    def _marked(self, queue: Queue, log_position: int) -> Iterator[int]:
        """Yield the offsets that were delivered or recalled after a log position."""
        for position, record in self._store.records_from(log_position):
            mark = read_mark(peek_prepared_position(record))
            if mark is None or mark.level != TIMER_LEVEL or not queue.min_offset <= mark.offset < queue.max_offset:
                continue
            entries = self._store.entries(queue, mark.offset, 1)
            # Otherwise the log has lost the earlier message at that offset.
            if entries and entries[0].log_position < position:
                yield mark.offset

    def _take_in_entries(self, queue: Queue) -> int:
        index, offset, count = self._index, self._index.done.first_missing(), 0
        while offset < queue.max_offset:
            entries = self._store.entries(queue, offset, READ_MAX)
            if not entries:
                break
            for entry in entries:
                if offset not in index.done:
                    count += self._take_in_entry(offset, entry)
                offset += 1
        return count

    def _take_in_entry(self, offset: int, entry: Entry) -> bool:
        if entry.record_bytes <= 0 or entry.tags_code <= 0:
            self._index.done.add(offset)  # It is a recall, or damaged.
            return False
        self._index.add(entry.tags_code >> HASH_BITS, offset, entry.tags_code & HASH_MASK)
        return True

    def save(self) -> None:
        """Request that the file is written."""
        self._config_files.changed(FILE)

    def _take_in(self, data: bytes) -> None:
        try:
            saved = msgspec.json.decode(data, type=SavedTimers)
            _unpacked(saved.done)
        except (msgspec.MsgspecError, ValueError, zlib.error) as error:
            raise ProtocolError(str(error)) from error
        self.saved = saved

    def _snapshot(self) -> bytes:
        done = self._index.done
        done.first_missing()
        packed = base64.b64encode(zlib.compress(done.bits, 1)).decode()
        end = self._store.queue(WHEEL_TIMER_TOPIC, 0).max_offset
        self.saved = SavedTimers(done.base, end, self._store.max_position, packed)
        return msgspec.json.encode(self.saved)


def _unpacked(done: str) -> bytes:
    return zlib.decompress(base64.b64decode(done, validate=True)) if done else b""
