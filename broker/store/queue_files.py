"""The files of the consume queues: entries of 20 bytes, 300,000 per file. RocketMQ: ConsumeQueue.

    <folder>/<topic>/<queue id>/00000000000000000000     log position i64, record bytes i32, tags code i64; ...
    <folder>/<topic>/<queue id>/00000000000006000000     the name is the byte position of the file's first entry

Reads share a bounded number of open files. Workers write through files of their own. LOST is the entry of a message
whose record is known to be gone. An entry of zeros was never written, or was written by an older version with the same
meaning as LOST.
"""

import errno
import posixpath
from functools import partial
from struct import Struct
from typing import NamedTuple

from staticfire.protocol.errors import StorageError
from staticfire.runtime.machine import File, Files

ENTRY = Struct(">qiq")
ENTRY_BYTES = 20
LOST = ENTRY.pack(-1, 0, 0)
FILE_NAME_DIGITS = 20
ENTRIES_READ_MAX = 1024
PLACE_MAX = (1 << 62) - 1
# This many files or more are synced together. For fewer files it isn't worth waiting for other data that the file
# system would sync as well.
TOGETHER_MIN = 64


class QueueWrite(NamedTuple):
    """Entries to write into one file."""

    folder: str
    path: str
    at: int
    entries: bytes
    is_new: bool
    """Whether the file's name may not be on the disk yet. Then the names of its folders may be missing, too."""


def write_entries(files: Files, writes: list[QueueWrite]) -> None:
    """Write and sync entries and their files' names, in a worker. Repeating it does no harm. Raises: OSError."""
    if len(writes) >= TOGETHER_MIN and files.syncs_together:
        files.make_folder(writes[0].folder)
        files.sync_together(writes[0].folder, partial(_write_unsynced, files, writes))
        return
    unsynced: dict[str, None] = {}
    for folder, path, at, entries, is_new in writes:
        if is_new:
            files.make_folder(folder)
            # The folder of the queue, of the topic, and of all queues.
            topic_folder = posixpath.dirname(folder)
            unsynced |= dict.fromkeys((folder, topic_folder, posixpath.dirname(topic_folder)))
        file = files.open(path)
        try:
            if entries:
                file.write(at, entries)
            file.sync()
        finally:
            file.close()
    for folder in unsynced:
        files.sync_folder(folder)


def _write_unsynced(files: Files, writes: list[QueueWrite]) -> None:
    for folder, path, at, entries, is_new in writes:
        if is_new:
            files.make_folder(folder)
        file = files.open(path)
        try:
            if entries:
                file.write(at, entries)
        finally:
            file.close()


class QueueFiles:
    """Reads entries of all queues."""

    def __init__(self, files: Files, entries_per_file: int, open_max: int) -> None:
        self.files = files
        self.entries_per_file = entries_per_file
        self._open_max = open_max
        self._open: dict[str, File] = {}

    def path(self, folder: str, offset: int) -> str:
        """Return the path of the file that contains the entry of a queue offset."""
        start = offset - offset % self.entries_per_file
        return f"{folder}/{start * ENTRY_BYTES:0{FILE_NAME_DIGITS}d}"

    def starts(self, folder: str) -> list[int]:
        """Return the first offset of each file of a queue."""
        names = self.files.list_folder(folder)
        starts = [int(name) for name in names if _is_file_name(name)]
        if starts and starts[-1] > PLACE_MAX:
            path = f"{folder}/{starts[-1]:0{FILE_NAME_DIGITS}d}"
            raise StorageError(f"{path} is not a file of a consume queue, its number is too large: move it away")
        return [start // ENTRY_BYTES for start in starts]

    def first_position(self, folder: str) -> int | None:
        """Return the position of the record of the first entry that is no hole; None if there is none. Raises: OSError.

        If a queue consists only of holes, and some are LOST, the result is a position after the end of any log.
        """
        is_lost = False
        for start in self.starts(folder):
            offset, end = start, start + self.entries_per_file
            while offset < end and (entries := self.read(folder, offset, ENTRIES_READ_MAX)):
                for position, size, _ in ENTRY.iter_unpack(entries):
                    if size or position > 0:
                        return int(position)
                    is_lost |= position < 0
                offset += len(entries) // ENTRY_BYTES
        return PLACE_MAX if is_lost else None

    def read(self, folder: str, offset: int, count: int) -> bytes:
        """Return up to `count` entries, as many as the file has. Raises: OSError."""
        in_file = offset % self.entries_per_file
        count = min(count, self.entries_per_file - in_file)
        file = self._file(self.path(folder, offset))
        if file is None:
            return b""
        entries = file.read(in_file * ENTRY_BYTES, count * ENTRY_BYTES)
        rest = len(entries) % ENTRY_BYTES
        return entries[:-rest] if rest else entries

    def has_end(self, folder: str, end: int, trusted_below: int) -> bool:
        """Tell whether the last entry before `end` is in the files: LOST, or of a record below `trusted_below`.

        The file isn't opened permanently, because thousands of queues are checked in a row. Raises: OSError.
        """
        offset = end - 1
        at = offset % self.entries_per_file * ENTRY_BYTES
        try:
            entry = self.files.read_part(self.path(folder, offset), at, ENTRY_BYTES)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EISDIR):
                raise
            return False  # It is a bad sector, or a folder in place of the file.
        if len(entry) < ENTRY_BYTES:
            return False
        position, size, _ = ENTRY.unpack(entry)
        return (size > 0 and 0 <= position < trusted_below) or entry == LOST

    def _file(self, path: str) -> File | None:
        file = self._open.pop(path, None)
        if file is None:
            if not self.files.exists(path):
                return None
            if len(self._open) >= self._open_max:
                oldest = next(iter(self._open))
                self._open.pop(oldest).close()
            file = self.files.open(path)
        self._open[path] = file  # The most recently used file is the last one.
        return file

    def count(self, folder: str, start: int) -> int:
        """Return the number of whole entries in the file that begins with offset `start`. Raises: OSError."""
        file = self._file(self.path(folder, start))
        return 0 if file is None else min(file.size() // ENTRY_BYTES, self.entries_per_file)

    def cut(self, folder: str, start: int, count: int) -> None:
        """Cut a file after `count` entries. Raises: OSError."""
        file = self._file(self.path(folder, start))
        if file is not None and file.size() > count * ENTRY_BYTES:
            file.truncate(count * ENTRY_BYTES)

    def mend(self, folder: str, offset: int, entry: bytes) -> None:
        """Rewrite one entry, if necessary in a new file.

        It isn't synced, because the log has the data. Raises: OSError.
        """
        path = self.path(folder, offset)
        file = self._file(path)
        if file is None:
            self.files.make_folder(folder)
            file = self._open[path] = self.files.open(path)
        file.write(offset % self.entries_per_file * ENTRY_BYTES, entry)

    def remove(self, folder: str, start: int) -> None:
        """Remove the file that begins with offset `start`. Raises: OSError."""
        path = self.path(folder, start)
        self._close(path)
        self.files.remove(path)

    def remove_all(self, folder: str) -> list[str]:
        """Remove a queue's files, and its folder if nothing else is in it; return what else is. Raises: OSError."""
        self.forget(folder)
        try:
            names = self.files.list_folder(folder)
        except NotADirectoryError:
            return [folder]
        for name in names:
            if _is_file_name(name):
                self._remove_at(f"{folder}/{name}")
        others = [f"{folder}/{name}" for name in names if not _is_file_name(name)]
        # A name that isn't listed, such as notes.tmp, also keeps the folder.
        return others if others or self.files.remove_empty_folder(folder) else [folder]

    def _remove_at(self, path: str) -> None:
        try:
            self.files.remove(path)
        except IsADirectoryError:
            self.files.remove_folder(path)  # In place of the file, which can't be rebuilt otherwise.

    def has_files(self, folder: str) -> bool:
        """Return whether a queue has files. Raises: NotADirectoryError, OSError."""
        return any(map(_is_file_name, self.files.list_folder(folder)))

    def forget(self, folder: str) -> None:
        """Close all open files below a folder that will be removed."""
        for path in [path for path in self._open if path.startswith(folder + "/")]:
            self._close(path)

    def _close(self, path: str) -> None:
        file = self._open.pop(path, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close everything."""
        for path in list(self._open):
            self._close(path)


def _is_file_name(name: str) -> bool:
    """Return whether a file of a queue can have this name."""
    return len(name) == FILE_NAME_DIGITS and name.isdecimal()
