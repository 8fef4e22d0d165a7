"""Find messages by key, with an index that follows the log. RocketMQ: IndexService.

The index is derived data and not on the hot path. `KeyIndexer` reads the log a slice at a time in a worker; while the
broker is busy, this takes at most a twentieth of the time. A lookup first lets the index catch up, so that it misses
nothing. If that takes too long, the caller can determine how much is missing (`lacks`). A missing or broken index is
rebuilt from the log.

Invariants: every record below `position` is in the index. An entry may refer to a record that is gone or was replaced
by another one (a topic was deleted, a disk lost power), so the caller of a lookup checks the record itself.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from staticfire.broker.key_tables import Entry, IndexedSlice, KeyTables
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import StorageError
from staticfire.protocol.limits import INT64_MAX
from staticfire.protocol.properties import KEYS, UNIQ_KEY, find_property
from staticfire.protocol.record import (
    BLANK_BYTES_MIN,
    BLANK_MAGIC,
    RECORD_BYTES_MIN,
    RECORD_MAGIC,
    peek_record,
    peek_record_bytes,
    peek_topic_and_properties,
)
from staticfire.protocol.sys_flag import TRANSACTION_MASK, TransactionKind
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

try:
    from _blake2 import blake2b  # The same as in hashlib, but without loading OpenSSL, which hashlib does.
except ImportError:
    from hashlib import blake2b
from struct import error as StructError

log = logger("broker")

T = TypeVar("T")

# Records that were stored within this time are added in one transaction. A lookup doesn't wait for it: see `catch_up`.
GATHER_MS = 2_000
# The number of bytes read at once, while the broker is busy, and while it is idle.
BUSY_BYTES = 32 * 1024
IDLE_BYTES = 256 * 1024
# While the broker is busy, the pause is this multiple of a step's duration, because both share one interpreter.
BUSY_PAUSE_TIMES = 19
# The pause before the next try if the index couldn't be written, or the log couldn't be read.
RETRY_MS = 10_000
# How long a lookup waits for an index that lags far behind. Clients give up after 18 s.
CATCH_UP_MS_MAX = 10_000
_TOPIC_BITS = (1 << 24) - 1
_ROLLBACK = int(TransactionKind.ROLLBACK)


def key_hash(topic: bytes, key: bytes) -> int:
    """Return the hash of a key of a topic: 40 bits of the key, 24 of the topic.

    So all entries of a key are successive, whatever their topics: `hashes_of` finds them without the topics' names.
    Collisions are very unlikely, and the caller of a lookup recognizes them.
    """
    return hashes_of(key)[0] | (crc32(topic) & _TOPIC_BITS)


def hashes_of(key: bytes) -> tuple[int, int]:
    """Return the first and the last hash that a key may have, in any topic."""
    first = int.from_bytes(blake2b(key, digest_size=5).digest(), "big", signed=True) << 24
    return first, first | _TOPIC_BITS


def read_slice(window: bytes, position: int, segment_end: int) -> IndexedSlice:
    """Return the keys of all whole records of a window that begins with a record, up to the first damaged one.

    `segment_end`: where the segment of the window ends. Raises: StorageError (the first record is damaged).
    """
    entries: list[Entry] = []
    last: tuple[int, int] | None = None
    at = wanted_bytes = 0
    while len(window) - at >= BLANK_BYTES_MIN:
        size, magic = peek_record_bytes(window, at), int.from_bytes(window[at + 14 : at + 18], "big")
        if magic == BLANK_MAGIC and BLANK_BYTES_MIN <= size <= segment_end - position - at:
            at += size
            break
        if magic != RECORD_MAGIC or size < RECORD_BYTES_MIN:  # With the size 0, this loop would never end.
            if at == 0:
                raise StorageError(f"there is no record at position {position} of the log: it was damaged")
            break
        if at + size > len(window):
            wanted_bytes = size if at == 0 else 0
            break
        try:
            stored_ms, found = _keys_at(window, at)
        except (UnicodeDecodeError, IndexError, StructError):
            if at == 0:
                raise StorageError(f"the record at position {position} of the log is damaged") from None
            break
        last = position + at, stored_ms
        for hashed in found:
            entries.append((hashed, *last))
        at += size
    return IndexedSlice(entries, position + at, last, wanted_bytes)


def _keys_at(window: bytes, at: int) -> tuple[int, list[int]]:
    """Return stored time and hashed keys of a record. Raises: UnicodeDecodeError, IndexError, StructError (damaged)."""
    peek = peek_record(window, at)
    if peek.sys_flag & TRANSACTION_MASK == _ROLLBACK:
        return peek.stored_ms, []
    topic, properties = peek_topic_and_properties(window, at)
    topic_bytes = topic.encode()
    return peek.stored_ms, [key_hash(topic_bytes, key) for key in keys_of(properties)]


def _read_and_add(index: KeyTables, window: bytes, start: int, segment_end: int) -> IndexedSlice:
    """Add the records of a window; return them, or nothing if the window is damaged. Raises: sqlite3.Error."""
    try:
        part = read_slice(window, start, segment_end)
    except StorageError:
        return IndexedSlice([], start, None, 0)
    if part.end_position > start:
        index.add(part)
    return part


def keys_of(properties: bytes) -> list[bytes]:
    """Return the unique id and the keys of a message."""
    unique_id, keys = find_property(properties, UNIQ_KEY), find_property(properties, KEYS)
    found = keys.split(b" ") if keys else []
    return [key for key in (*found, unique_id) if key]


class KeyIndexer:
    """Keeps the index of one broker up to date with its log, and does lookups."""

    def __init__(
        self, machine: Machine, folder: str, store: MessageStore, activity: Callable[[], int] | None = None
    ) -> None:
        """`activity` is a counter that changes while the broker is busy, with sends or anything else."""
        self._activity = activity or (lambda: store.max_position)
        self._machine = machine
        self._folder, self._path = folder, f"{folder}/keys.sqlite"
        self._store = store
        self._index: KeyTables | None = None
        self._is_open = False
        self._turn = asyncio.Lock()
        self._stored = asyncio.Event()

    async def open(self) -> None:
        """Open the index, or create a new one. If that fails, messages can't be found by key until it succeeds."""
        async with self._turn:
            try:
                await self._open()
            except (StorageError, OSError) as error:
                reason = "messages can't be found by key; move that file away, then a new index is built"
                log.error("key_index_stands", error=str(error), reason=reason)
        self._is_open = True
        self.wake()

    async def _open(self) -> None:
        self._machine.files.make_folder(self._folder)
        try:
            self._index = await self._machine.workers.run(self._make)
            await self._cut(self._index)
        except sqlite3.Error as error:
            await self._make_anew(error)

    def _make(self) -> KeyTables:
        files = self._machine.files
        return KeyTables(files.database_path(self._path), is_durable=files.is_durable)

    async def _cut(self, index: KeyTables) -> None:
        await self._machine.workers.run(index.cut, self._store.min_position, self._store.max_position)

    async def _make_anew(self, reason: sqlite3.Error) -> None:
        """Create an empty index in place of a broken one; it is filled by the loop. Raises: StorageError."""
        files, run = self._machine.files, self._machine.workers.run
        broken, self._index = self._index, None
        if broken is not None:
            with suppress(sqlite3.Error):
                await run(broken.close)
        try:
            files.make_folder(self._folder)
            for suffix in ("", "-wal", "-shm"):
                files.remove(self._path + suffix)
            self._index = await run(self._make)
            await self._cut(self._index)
        except (sqlite3.Error, OSError) as still:
            raise StorageError(f"the key index {self._path} can't be created: {still}") from still
        log.warning("key_index_made_anew", path=self._path, reason=str(reason))
        self.wake()

    async def _try_anew(self) -> None:
        """Try again to create an index after an earlier failure."""
        async with self._turn:
            with suppress(StorageError):
                await self._make_anew(sqlite3.Error("it does not exist"))

    async def _do(self, function: Callable[..., T], *arguments: Any) -> T | None:
        """Call a function on the index. If the index turns out to be broken, create a new one instead.

        The caller holds the lock, and the index is open. Raises: sqlite3.Error, StorageError.
        """
        try:
            return await self._machine.workers.run(function, self._index, *arguments)
        except UnicodeDecodeError as error:  # sqlite3's error message contains bytes of a broken file.
            await self._make_anew(sqlite3.DatabaseError(str(error)))
            return None
        except sqlite3.Error as error:
            if type(error) is not sqlite3.DatabaseError:
                raise  # Another cause, such as a full disk.
            await self._make_anew(error)
            return None

    async def close(self) -> None:
        """Close the index. What is missing is added after the next start."""
        self._is_open = False
        async with self._turn:
            if self._index is not None:
                index, self._index = self._index, None
                await self._machine.workers.run(index.close)

    def wake(self) -> None:
        """Note that something was stored."""
        self._stored.set()

    # -- following the log -----------------------------------------------------------------------------------------

    async def loop(self, pause: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """Follow the log. This takes little time while the broker is busy, and half of the time while it is idle."""
        uptime_ms = self._machine.clock.uptime_ms
        trouble = ""
        while True:
            await self._stored.wait()
            await pause(GATHER_MS)
            self._stored.clear()
            if self._index is None:
                await pause(RETRY_MS)
                await self._try_anew()
            try:
                await self._check(pause)
                seen = self._activity()
                while self._is_behind:
                    busy, seen = self._activity() != seen, self._activity()
                    started_ms = uptime_ms()
                    await self._step(BUSY_BYTES if busy else IDLE_BYTES)
                    await pause(max(1, uptime_ms() - started_ms) * (BUSY_PAUSE_TIMES if busy else 1))
                trouble = ""
            except (StorageError, sqlite3.Error, OSError) as error:
                if trouble != str(error):
                    trouble = str(error)
                    log.error("key_index_stands", error=trouble, reason="messages can't be found by newer keys")
                await pause(RETRY_MS)
                self._stored.set()
                if self._index is None and self._is_open:
                    await self._try_anew()

    async def _check(self, pause: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """Check part by part what an earlier process has written, before a lookup must wait for it.

        Raises: StorageError, sqlite3.Error.
        """
        uptime_ms = self._machine.clock.uptime_ms
        while self._index is not None and not self._index.is_checked:
            started_ms = uptime_ms()
            async with self._turn:
                if self._index is not None:
                    await self._do(KeyTables.check_next)
            await pause(max(1, uptime_ms() - started_ms) * BUSY_PAUSE_TIMES)

    @property
    def _is_behind(self) -> bool:
        return self._index is not None and self._index.position < self._store.max_position

    async def _step(self, window_bytes: int) -> None:
        """Add a slice. Raises: StorageError, OSError, sqlite3.Error."""
        async with self._turn:
            if self._index is None or not self._is_behind:
                return
            start = max(self._index.position, self._store.min_position)
            part = await self._enter(start, window_bytes)
            if part is not None and part.wanted_bytes:
                part = await self._enter(start, part.wanted_bytes)
            if part is not None and part.end_position <= start:
                # Skip the damage. The store reports it.
                behind = self._store.next_record(start + 1)
                await self._do(KeyTables.add, IndexedSlice([], behind, None, 0))

    async def _enter(self, start: int, window_bytes: int) -> IndexedSlice | None:
        """Add the records of a window of the log, in one call of a worker, and return them.

        If the result ends at its start, the log is damaged there. None: the index turned out to be broken. Raises:
        OSError, sqlite3.Error, StorageError.
        """
        try:
            window, segment_end = self._store.log_window(start, window_bytes), self._store.window_end(start)
        except StorageError:
            return IndexedSlice([], start, None, 0)
        return await self._do(_read_and_add, window, start, segment_end)

    async def forget_old(self) -> None:
        """Remove what retention has removed from the log."""
        try:
            async with self._turn:
                if self._index is not None:
                    await self._do(KeyTables.cut, self._store.min_position, self._store.max_position)
        except (sqlite3.Error, StorageError) as error:
            log.warning("key_index_not_shortened", error=str(error))

    # -- lookups ---------------------------------------------------------------------------------------------------

    async def catch_up(self, end: int) -> None:
        """Add the records of the log up to `end` that are missing, unless that is impossible or takes very long."""
        deadline_ms = self._machine.clock.uptime_ms() + CATCH_UP_MS_MAX
        while self._index is not None and self.lacks(end):
            if self._machine.clock.uptime_ms() > deadline_ms:
                log.warning("key_index_behind", missing_bytes=self.lacks(end))
                return
            try:
                await self._step(IDLE_BYTES)
            except (StorageError, OSError, sqlite3.Error):
                return  # The loop logs the error.

    def lacks(self, end: int) -> int:
        """Return the number of bytes of the log up to `end` that aren't in the index yet."""
        start = self._store.min_position
        return end - min(end, start if self._index is None else max(start, self._index.position))

    async def find(self, topic: str, key: str, begin_ms: int, end_ms: int, below: int, limit: int) -> list[int]:
        """Return possible positions of records with a key: below a position, the newest first. No topic: of all topics.

        If the index turns out to be broken, the result is empty, and `lacks` returns everything. Raises: StorageError,
        sqlite3.Error.
        """
        key_bytes = key.encode("utf-8", "replace")
        first, last = (key_hash(topic.encode(), key_bytes), None) if topic else hashes_of(key_bytes)
        begin_ms, end_ms = (min(max(time_ms, -INT64_MAX), INT64_MAX) for time_ms in (begin_ms, end_ms))
        async with self._turn:
            if self._index is None:
                return []
            return await self._do(KeyTables.find, first, begin_ms, end_ms, below, limit, last) or []

    @property
    def last(self) -> tuple[int, int]:
        """Position and stored time of the last record that was added."""
        return (0, 0) if self._index is None else (self._index.last_position, self._index.last_stored_ms)
