"""Tables in sqlite3: which records of the log have which keys. RocketMQ: IndexFile.

Hashes are scattered, so inserting each row at its place costs a disk page: with ten million messages that was a hundred
gigabytes. Therefore rows are collected in memory and written one generation at a time, in order and in one piece. A
lookup reads the generations, newest first: one page of each.

    staged (in memory)    hash, position, stored_ms: of the log after the last generation
    keys                  generation, hash, position, stored_ms
    generations           id, start, end, first_ms, last_ms, row_count, row_sum: the part of the log that each
                          generation covers, in order
    progress              start, reached, last_position, last_stored_ms, checksum: the part of the log that all
                          generations cover together; the checksum is of this row and all generations

sqlite3 has no checksums of its own, and a flipped bit would hide a message. So `generations` and `progress` are checked
at start, and the rows of each generation are checked against `row_sum` before the first lookup in it: 20 ms each.

Invariant: the keys of every record below `position` are in a generation, or staged. After a kill, what was staged is
read from the log again.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple
from weakref import finalize

from staticfire.protocol.checksums import crc32

# The version of the tables. An index with another one is rebuilt.
LAYOUT = 4
# 3 MiB, and 5 MiB while the rows are staged. Ten million messages with two keys each are 150 generations.
GENERATION_ROWS = 131_072

Entry = tuple[int, int, int]
"""Hash of topic and key, log position, stored time."""

_TABLES = (
    "CREATE TABLE generations (id INTEGER PRIMARY KEY, start INTEGER, end INTEGER, first_ms INTEGER, last_ms INTEGER,"
    " row_count INTEGER, row_sum INTEGER)",
    "CREATE TABLE keys (generation INTEGER, hash INTEGER, position INTEGER, stored_ms INTEGER,"
    " PRIMARY KEY (generation, hash, position)) WITHOUT ROWID",
    "CREATE TABLE progress (start INTEGER, reached INTEGER, last_position INTEGER, last_stored_ms INTEGER,"
    " checksum INTEGER)",
    "INSERT INTO progress VALUES (0, 0, 0, 0, 0)",
)
_STAGED = (
    "CREATE TABLE staged.keys (hash INTEGER, position INTEGER, stored_ms INTEGER, PRIMARY KEY (hash, position))"
    " WITHOUT ROWID"
)
_ENTER = (
    "INSERT INTO keys SELECT :id, hash, position, stored_ms FROM staged.keys"
    " UNION ALL SELECT :id, hash, position, stored_ms FROM main.keys WHERE generation = :last ORDER BY 2, 3"
)
# A sum that one flipped bit changes. The sum of a whole generation fits into 64 bits.
_ROW_SUM = "ifnull(sum(generation + (hash & 4294967295) + (hash >> 32) + position + stored_ms), 0)"
_NOTE = (
    "INSERT INTO generations SELECT :id, :start, :end, min(stored_ms), max(stored_ms), count(*),"
    f" {_ROW_SUM} FROM main.keys WHERE generation = :id"
)
_CHECK = (
    f"SELECT (SELECT count(*) = g.row_count AND {_ROW_SUM} = g.row_sum FROM main.keys"
    " WHERE generation = g.id) FROM generations AS g WHERE g.id = ?"
)
# With one hash, rows are read in the order of the primary key, so that the newest are found without sorting all.
_FIND_STAGED = (
    "SELECT position FROM staged.keys WHERE hash = ?1 AND position < ?2 AND stored_ms BETWEEN ?3 AND ?4"
    " ORDER BY position DESC LIMIT ?5"
)
_FIND = (
    "SELECT k.position FROM generations AS g CROSS JOIN main.keys AS k ON k.generation = g.id AND k.hash = ?1"
    " WHERE g.start < ?2 AND g.last_ms >= ?3 AND g.first_ms <= ?4 AND k.position < ?2 AND k.stored_ms BETWEEN ?3 AND ?4"
    " ORDER BY g.id DESC, k.position DESC LIMIT ?5"
)

_RANGE_STAGED = _FIND_STAGED.replace("hash = ?1", "hash BETWEEN ?1 AND ?6")
_RANGE = _FIND.replace("k.hash = ?1", "k.hash BETWEEN ?1 AND ?6")


class IndexedSlice(NamedTuple):
    """A part of the log that was read."""

    entries: list[Entry]
    end_position: int
    last: tuple[int, int] | None
    """Position and stored time of its last record."""
    wanted_bytes: int
    """If there was no whole record: the number of bytes to read for the next one."""


class KeyTables:
    """The tables. They have one caller at a time; everything blocks and may raise sqlite3.Error."""

    def __init__(self, path: str, generation_rows: int = GENERATION_ROWS, is_durable: bool = True) -> None:
        """Open or create the tables at `path`, a path for sqlite3. `is_durable`: writes wait for the disk.

        Raises: sqlite3.Error (the file is no database, or broken).
        """
        self._is_durable = is_durable
        self._generation_rows = generation_rows
        self._staged_rows = 0
        # Generations whose rows may have changed since they were written.
        self._unchecked: list[int] = []
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        # A killed process of the simulation closes nothing, and Python 3.13 warns of each connection that isn't closed.
        finalize(self, self._database.close).atexit = False
        self._run = self._database.execute
        try:
            self._prepare()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            self._database.close()
            if isinstance(error, UnicodeDecodeError):  # sqlite3's error message contains bytes of a broken file.
                raise sqlite3.DatabaseError(str(error)) from None
            raise

    def _prepare(self) -> None:
        run = self._run
        # Don't wait for the disk while empty tables are created: that was 15 ms of a broker's start. After a power loss
        # in between, the index is simply rebuilt.
        run("PRAGMA synchronous = OFF")
        run("PRAGMA journal_mode = WAL")
        if run("PRAGMA user_version").fetchone()[0] != LAYOUT:
            for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
                run(f"DROP TABLE {name}")
            for statement in _TABLES:
                run(statement)
            run(f"PRAGMA user_version = {LAYOUT}")
        progress = run("SELECT start, reached, last_position, last_stored_ms, checksum FROM progress").fetchone()
        if progress is None or None in progress:
            raise sqlite3.DatabaseError("its end isn't recorded")
        self._start, self._reached, self.last_position, self.last_stored_ms, checksum = progress
        if checksum != self._checksum():
            raise sqlite3.DatabaseError("the checksum of its progress does not match")
        self._unchecked = [number for (number,) in run("SELECT id FROM generations ORDER BY id").fetchall()]
        self.position = self._reached
        if self._is_durable:
            run("PRAGMA synchronous = NORMAL")
        run("ATTACH ':memory:' AS staged")
        run(_STAGED)

    def _checksum(self) -> int:
        """Return the checksum of generations and progress; 0 for a new index."""
        generations = self._run("SELECT * FROM generations ORDER BY id").fetchall()
        progress = self._start, self._reached, self.last_position, self.last_stored_ms
        return crc32(repr((generations, progress)).encode()) if any(progress) or generations else 0

    # -- checking ----------------------------------------------------------------------------------------------------

    @property
    def is_checked(self) -> bool:
        """Whether the rows of all generations were checked and are unchanged."""
        return not self._unchecked

    def check_next(self) -> None:
        """Check the rows of the newest generation that wasn't checked yet."""
        if self._unchecked:
            self._check(self._unchecked[-1])

    def _check(self, generation: int) -> None:
        try:
            is_whole = self._run(_CHECK, (generation,)).fetchone() == (1,)
        except sqlite3.OperationalError as error:
            if "overflow" not in str(error):
                raise
            is_whole = False
        if not is_whole:
            raise sqlite3.DatabaseError("the checksum of its rows does not match")
        self._unchecked.remove(generation)

    # -- adding ------------------------------------------------------------------------------------------------------

    def add(self, part: IndexedSlice) -> None:
        """Add a slice of the log and advance `position` to its end."""
        if self._staged_rows >= self._generation_rows:
            self._write_out()  # The previous attempt failed.
        with self._transaction():
            self._database.executemany("INSERT OR REPLACE INTO staged.keys VALUES (?, ?, ?)", part.entries)
        self._staged_rows += len(part.entries)
        self.position = part.end_position
        if part.last is not None:
            self.last_position, self.last_stored_ms = part.last
        if self._staged_rows >= self._generation_rows:
            self._write_out()

    def _write_out(self) -> None:
        """Write the staged rows as a generation, merged with the last one if that is small."""
        last, start, rows = self._run("SELECT id, start, row_count FROM generations ORDER BY id DESC").fetchone() or (
            (0, self._reached, 0)
        )
        is_joined = 0 < rows <= self._generation_rows - self._staged_rows
        if is_joined and last in self._unchecked:
            self._check(last)
        names = {"id": last + 1, "last": last if is_joined else 0}
        names |= {"start": start if is_joined else self._reached, "end": self.position}
        with self._transaction():
            if self._staged_rows:
                self._run(_ENTER, names)
                self._run(_NOTE, names)
                if is_joined:
                    self._remove(last)
            self._save(self._start, self.position)
        self._run("DELETE FROM staged.keys")
        self._staged_rows = 0

    def cut(self, start_position: int, end_position: int) -> None:
        """Remove everything before the log's start, and everything that a power loss took from its end."""
        if start_position == self._start and self.position <= end_position:
            return  # There is nothing to remove.
        query = "SELECT id, start, end FROM generations WHERE end <= ? OR end > ?"
        generations = self._run(query, (start_position, end_position)).fetchall()
        # Remove such a generation completely, and read the rest of its part of the log again.
        starts = [start for _, start, end in generations if end > end_position]
        with self._transaction():
            for generation, _, _ in generations:
                self._remove(generation)
            self._save(start_position, max(start_position, min(self._reached, end_position, *starts)))
        if self.position > end_position:
            self._run("DELETE FROM staged.keys")
            self._staged_rows, self.position = 0, self._reached
        self.position = max(self.position, self._reached)

    def _remove(self, generation: int) -> None:
        self._run("DELETE FROM main.keys WHERE generation = ?", (generation,))
        self._run("DELETE FROM generations WHERE id = ?", (generation,))
        if generation in self._unchecked:
            self._unchecked.remove(generation)

    def _save(self, start: int, reached: int) -> None:
        self._start, self._reached = start, reached
        query = "UPDATE progress SET start = ?, reached = ?, last_position = ?, last_stored_ms = ?, checksum = ?"
        self._run(query, (start, reached, self.last_position, self.last_stored_ms, self._checksum()))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        before, unchecked = (self._start, self._reached), [*self._unchecked]
        self._run("BEGIN")
        try:
            yield
            self._run("COMMIT")
        except BaseException:
            self._start, self._reached = before
            self._unchecked = unchecked
            if self._database.in_transaction:
                self._run("ROLLBACK")
            raise

    # -- lookups -----------------------------------------------------------------------------------------------------

    def find(
        self, key_hash: int, begin_ms: int, end_ms: int, below: int, limit: int, last_hash: int | None = None
    ) -> list[int]:
        """Return the positions of records with a key, below a position, the newest first.

        `last_hash`: with any hash from the first one to this one.
        """
        while self._unchecked:
            self.check_next()
        more = () if last_hash is None else (last_hash,)
        values = key_hash, below, begin_ms, end_ms
        found = self._positions(_RANGE_STAGED if more else _FIND_STAGED, *values, limit, *more)
        if len(found) < limit:
            found += self._positions(_RANGE if more else _FIND, *values, limit - len(found), *more)
        return found

    def _positions(self, query: str, *values: int) -> list[int]:
        with closing(self._run(query, values)) as rows:
            return [position for (position,) in rows]

    def close(self) -> None:
        """Save the staged rows, and close."""
        try:
            if self.position != self._reached:
                self._write_out()
        finally:
            self._database.close()
