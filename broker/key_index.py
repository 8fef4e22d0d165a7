"""Finding messages by key: which records of the log carry which keys. RocketMQ: IndexService.

Derived data in sqlite3, off the hot path: `KeyIndexer` follows the log by position, a slice at a time in a worker, with
at most a twentieth of the time while the broker is busy. A look-up first lets the index catch up, so that it misses
nothing.
An index that is missing or broken is made anew from the log.

Invariants: every record below `position` is in the index; an entry may be of a record that is gone or belongs to
somebody else (a topic was deleted, a disk lost power): whoever looks up checks the record itself.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from typing import Any, NamedTuple

from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.properties import KEYS, UNIQ_KEY, find_property
from staticfire.protocol.record import (
    BLANK_BYTES_MIN,
    BLANK_MAGIC,
    RECORD_MAGIC,
    peek_record,
    peek_record_bytes,
    peek_topic_and_properties,
)
from staticfire.protocol.sys_flag import TRANSACTION_MASK, TransactionKind
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

try:
    from _blake2 import blake2b  # what hashlib has, without the OpenSSL that hashlib loads for its other names
except ImportError:
    from hashlib import blake2b

log = logger("broker")

LAYOUT = 1
# Of the tables below; an index with another one is made anew.
GATHER_MS = 100
# What was stored within that time is entered together.
BUSY_BYTES = 32 * 1024
IDLE_BYTES = 256 * 1024
# Read at once while the broker is busy, and while it isn't.
BUSY_PAUSE_TIMES = 19
# So many times as long as a step took the index rests while the broker is busy, which it shares an interpreter with.
RETRY_MS = 10_000
# After that the index is tried again when it couldn't be written, or the log not be read.
CATCH_UP_MS_MAX = 10_000
# So long a look-up waits for an index that is far behind; clients give up after 18 s.
_INT64_MAX = (1 << 63) - 1
_ROLLBACK = int(TransactionKind.ROLLBACK)

Entry = tuple[int, int, int]
"""Hash of topic and key, log position, stored time."""


class KeyIndex:
    """The tables. One caller at a time; everything blocks."""

    def __init__(self, path: str) -> None:
        """`path`: what sqlite3 is given. Raises: sqlite3.Error (what lies there is no database, or broken)."""
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        try:
            self._prepare()
        except sqlite3.Error:
            self._database.close()
            raise

    def _prepare(self) -> None:
        run = self._database.execute
        # Making empty tables waits for no disk: that was 15 ms of a broker's start, and a loss of power in the middle
        # leaves nothing that can't be made anew.
        run("PRAGMA synchronous = OFF")
        run("PRAGMA journal_mode = WAL")
        if run("PRAGMA user_version").fetchone()[0] != LAYOUT:
            run("DROP TABLE IF EXISTS keys")
            run("DROP TABLE IF EXISTS progress")
            run(f"PRAGMA user_version = {LAYOUT}")
        columns = "hash INTEGER, position INTEGER, stored_ms INTEGER, PRIMARY KEY (hash, position)"
        run(f"CREATE TABLE IF NOT EXISTS keys ({columns}) WITHOUT ROWID")
        columns = "start INTEGER, position INTEGER, last_position INTEGER, last_stored_ms INTEGER"
        run(f"CREATE TABLE IF NOT EXISTS progress ({columns})")
        row = run("SELECT start, position, last_position, last_stored_ms FROM progress").fetchone()
        if row is None:
            row = (0, 0, 0, 0)
            run("INSERT INTO progress VALUES (?, ?, ?, ?)", row)
        run("PRAGMA synchronous = NORMAL")
        self._start, self.position, self.last_position, self.last_stored_ms = row

    def cut(self, start_position: int, end_position: int) -> None:
        """Forget what lies before the log's start, and what a loss of power took from its end."""
        if start_position == self._start and self.position <= end_position:
            return  # there is nothing of that, and looking for it takes a while
        with self._transaction():
            query = "DELETE FROM keys WHERE position < ? OR position >= ?"
            self._database.execute(query, (start_position, end_position))
            position = min(max(self.position, start_position), end_position)
            self._move(start_position, position, self.last_position, self.last_stored_ms)

    def add(self, part: "IndexedSlice") -> None:
        """Enter a slice of the log and move on behind it."""
        with self._transaction():
            self._database.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?, ?)", part.entries)
            last = part.last or (self.last_position, self.last_stored_ms)
            self._move(self._start, part.end_position, *last)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def _move(self, *progress: int) -> None:
        query = "UPDATE progress SET start = ?, position = ?, last_position = ?, last_stored_ms = ?"
        self._database.execute(query, progress)
        self._start, self.position, self.last_position, self.last_stored_ms = progress

    def find(self, key_hash: int, begin_ms: int, end_ms: int, below: int, limit: int) -> list[int]:
        """Return the positions of records with a key that lie below a position, the newest first."""
        query = (
            "SELECT position FROM keys WHERE hash = ? AND position < ? AND stored_ms BETWEEN ? AND ? "
            "ORDER BY position DESC LIMIT ?"
        )
        with closing(self._database.execute(query, (key_hash, below, begin_ms, end_ms, limit))) as found:
            return [position for (position,) in found]

    def close(self) -> None:
        self._database.close()


def key_hash(topic: bytes, key: bytes) -> int:
    """Return what stands for a key of a topic: 64 bits, so that nothing else has the same."""
    return int.from_bytes(blake2b(b"%b#%b" % (topic, key), digest_size=8).digest(), "big", signed=True)


class IndexedSlice(NamedTuple):
    """A part of the log, read."""

    entries: list[Entry]
    end_position: int
    last: tuple[int, int] | None
    """Position and stored time of its last record."""
    wanted_bytes: int
    """How much has to be read for the next record, if there was none as a whole."""


def read_slice(window: bytes, position: int) -> IndexedSlice:
    """Return the keys of all whole records of a window, which begins with a record. Raises: StorageError."""
    entries: list[Entry] = []
    last: tuple[int, int] | None = None
    at = wanted_bytes = 0
    while len(window) - at >= BLANK_BYTES_MIN:
        size, magic = peek_record_bytes(window, at), int.from_bytes(window[at + 14 : at + 18], "big")
        if magic == BLANK_MAGIC:
            at += size
            break
        if magic != RECORD_MAGIC:
            raise StorageError(f"there is no record at position {position + at} of the log: it was damaged")
        if at + size > len(window):
            wanted_bytes = size if at == 0 else 0
            break
        peek = peek_record(window, at)
        last = position + at, peek.stored_ms
        if peek.sys_flag & TRANSACTION_MASK != _ROLLBACK:
            topic, properties = peek_topic_and_properties(window, at)
            topic_bytes = topic.encode()
            for key in keys_of(properties):
                entries.append((key_hash(topic_bytes, key), *last))
        at += size
    return IndexedSlice(entries, position + at, last, wanted_bytes)


def keys_of(properties: bytes) -> list[bytes]:
    """Return the unique id and the keys of a message."""
    unique_id, keys = find_property(properties, UNIQ_KEY), find_property(properties, KEYS)
    found = keys.split(b" ") if keys else []
    return [key for key in (*found, unique_id) if key]


class KeyIndexer:
    """Keeps the index of one broker up with its log, and looks up."""

    def __init__(
        self, machine: Machine, folder: str, store: MessageStore, activity: Callable[[], int] | None = None
    ) -> None:
        """`activity`: a counter that moves while the broker is busy, with sends or anything else."""
        self._activity = activity or (lambda: store.max_position)
        self._machine = machine
        self._folder = folder
        self._store = store
        self._index: KeyIndex | None = None
        self._turn = asyncio.Lock()
        self._stored = asyncio.Event()

    async def open(self) -> None:
        """Open the index, or make a new one. Raises: StorageError."""
        files, path = self._machine.files, f"{self._folder}/keys.sqlite"
        files.make_folder(self._folder)
        database = files.database_path(path)
        try:
            self._index = await self._machine.workers.run(KeyIndex, database)
        except sqlite3.Error as error:
            log.warning("key_index_made_anew", path=path, reason=str(error))
            for suffix in ("", "-wal", "-shm"):
                files.remove(path + suffix)
            try:
                self._index = await self._machine.workers.run(KeyIndex, database)
            except sqlite3.Error as still:
                raise StorageError(f"the key index {path} can't be made: {still}") from still
        await self._in_turn(self._index.cut, self._store.min_position, self._store.max_position)
        self.wake()

    async def close(self) -> None:
        """Close the index; what it lacks it gets after the next start."""
        async with self._turn:
            if self._index is not None:
                index, self._index = self._index, None
                await self._machine.workers.run(index.close)

    def wake(self) -> None:
        """Something was stored."""
        self._stored.set()

    # -- following the log -----------------------------------------------------------------------------------------

    async def loop(self, pause: Callable[[int], Coroutine[Any, Any, None]]) -> None:
        """Follow the log. It takes little while the broker is busy, and half of the time when it isn't."""
        uptime_ms = self._machine.clock.uptime_ms
        trouble = ""
        while True:
            await self._stored.wait()
            await pause(GATHER_MS)
            self._stored.clear()
            try:
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

    @property
    def _is_behind(self) -> bool:
        return self._index is not None and self._index.position < self._store.max_position

    async def _step(self, window_bytes: int) -> None:
        """Enter a slice. Raises: StorageError, OSError, sqlite3.Error."""
        async with self._turn:
            if self._index is None or not self._is_behind:
                return
            start = max(self._index.position, self._store.min_position)
            try:
                part = await self._read_slice(start, window_bytes)
            except StorageError:
                part = IndexedSlice([], self._store.next_record(start + 1), None, 0)  # The store tells what is damaged.
            await self._machine.workers.run(self._index.add, part)

    async def _read_slice(self, start: int, window_bytes: int) -> IndexedSlice:
        """Read the records from a position on. Raises: StorageError (it is damaged), OSError."""
        run, window_of = self._machine.workers.run, self._store.log_window
        part = await run(read_slice, window_of(start, window_bytes), start)
        if part.wanted_bytes:
            part = await run(read_slice, window_of(start, part.wanted_bytes), start)
        if part.end_position <= start:
            raise StorageError(f"there is no whole record at position {start} of the log")
        return part

    async def _in_turn(self, function: Callable[..., None], *arguments: int) -> None:
        async with self._turn:
            await self._machine.workers.run(function, *arguments)

    async def forget_old(self) -> None:
        """Forget what retention has removed from the log."""
        if self._index is None:
            return
        try:
            await self._in_turn(self._index.cut, self._store.min_position, self._store.max_position)
        except sqlite3.Error as error:
            log.warning("key_index_not_shortened", error=str(error))

    # -- looking up ------------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Enter what isn't in the index yet, unless that takes very long."""
        end, deadline_ms = self._store.max_position, self._machine.clock.uptime_ms() + CATCH_UP_MS_MAX
        while self._index is not None and self._index.position < end:
            if self._machine.clock.uptime_ms() > deadline_ms:
                log.warning("key_index_behind", missing_bytes=end - self._index.position)
                return
            await self._step(IDLE_BYTES)

    async def find(self, topic: str, key: str, begin_ms: int, end_ms: int, below: int, limit: int) -> list[int]:
        """Return where records with a key may lie: below a position, the newest first."""
        hashed = key_hash(topic.encode(), key.encode("utf-8", "replace"))
        begin_ms, end_ms = (min(max(time_ms, -_INT64_MAX), _INT64_MAX) for time_ms in (begin_ms, end_ms))
        async with self._turn:
            if self._index is None:
                return []
            return await self._machine.workers.run(self._index.find, hashed, begin_ms, end_ms, below, limit)

    @property
    def last(self) -> tuple[int, int]:
        """Position and stored time of the last record that was entered."""
        return (0, 0) if self._index is None else (self._index.last_position, self._index.last_stored_ms)
