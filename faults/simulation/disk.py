"""A simulated disk: files that survive a kill, and lose what wasn't synced when the power goes.

    inode.content     what a read returns
    inode.unsynced    how to undo each write since the last sync, oldest first

A sync forgets the oldest of those notes, a loss of power undoes all (or, torn, a part chosen by chance: a prefix of
the writes, the last of them in part). A new file is on the disk for good with its first sync, a replaced or a removed
one at once.

Faults are set by hand: `bytes_left`, `others_bytes`, `fail_write`, `fail_sync`, `sync_ms`, `on_write`.
"""

import errno
import os
import posixpath
from collections import deque
from collections.abc import Callable
from random import Random
from typing import NamedTuple

from staticfire.faults.simulation.process import Process
from staticfire.runtime.machine import Bytes

UNSYNCED_WRITES_MAX = 200_000
# Of a file. Above that the older half is taken as written back, as a kernel does after a while.


class Undo(NamedTuple):
    """How to take one write back."""

    position: int
    overwritten: bytes
    content_bytes: int
    size: int
    written_bytes: int


class Inode:
    """One file, whatever its name is."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.size = 0
        """May be more than the content: the rest reads as zeros."""
        self.is_durable = False
        """It still exists after a loss of power."""
        self.unsynced: deque[Undo] = deque()
        self._synced_writes = 0

    @property
    def writes(self) -> int:
        """How many writes there were."""
        return self._synced_writes + len(self.unsynced)

    def growth_bytes(self, position: int, size: int) -> int:
        """Return how much space that write takes."""
        return max(0, position + size - max(len(self.content), position))

    def write(self, position: int, data: Bytes) -> None:
        end = position + len(data)
        self._note(position, end, len(data))
        if position > len(self.content):
            self.content.extend(bytes(position - len(self.content)))
        self.content[position:end] = data
        self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        self._note(min(size, len(self.content)), len(self.content), 0)
        del self.content[size:]
        self.size = size

    def read(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size)
        found = bytes(self.content[position:end])
        missing = end - position - len(found)
        return found + bytes(missing) if missing > 0 else found

    def synced(self, writes: int) -> None:
        """Take the first so many writes as on the disk."""
        self.is_durable = True
        while self._synced_writes < writes and self.unsynced:
            self.unsynced.popleft()
            self._synced_writes += 1

    def lose_power(self, torn: Random | None) -> None:
        """Undo what wasn't synced; with `torn`, only what follows a part of it chosen by chance."""
        kept = torn.randint(0, len(self.unsynced)) if torn is not None and self.unsynced else 0
        while len(self.unsynced) > kept:
            undo = self.unsynced.pop()
            written = bytes(self.content[undo.position : undo.position + undo.written_bytes])
            self._undo(undo)
            if torn is not None and written and len(self.unsynced) == kept:
                part = written[: torn.randint(0, len(written))]
                self.content[undo.position : undo.position + len(part)] = part
                self.size = max(self.size, len(self.content))
        self.synced(self.writes)

    def _undo(self, undo: Undo) -> None:
        del self.content[undo.content_bytes :]
        self.content[undo.position : undo.position + len(undo.overwritten)] = undo.overwritten
        self.size = undo.size

    def _note(self, position: int, end: int, written_bytes: int) -> None:
        overwritten = bytes(self.content[position:end])
        self.unsynced.append(Undo(position, overwritten, len(self.content), self.size, written_bytes))
        if len(self.unsynced) > UNSYNCED_WRITES_MAX:
            self.synced(self._synced_writes + UNSYNCED_WRITES_MAX // 2)


class Disk:
    """The files of one machine by their paths."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes_left: int | None = None
        """Space for content; None: enough."""
        self.total_bytes = 1 << 40
        self.others_bytes = 0
        """How much of the total somebody else takes. It only shows: what makes writes fail is `bytes_left`."""
        self.sync_ms = 0.0
        """How long a sync takes in a worker."""
        self.on_write: Callable[[str, int, Bytes], object] | None = None  # house: a fault, set while a test runs
        """Called before each write with path, position and data. What it raises, the writer gets."""
        self.files: dict[str, Inode] = {}
        self.folders: dict[str, set[str]] = {"/": set(), ".": set()}
        self.locks: dict[str, Process] = {}
        self.power_losses = 0
        self.syncing: list[tuple[Inode, int]] | None = None
        """While a worker runs: what it synced, which is on the disk only when the time for that has passed."""
        self._failing_writes: dict[int, int] = {}
        self._failing_syncs: dict[int, int] = {}
        self._writes = 0
        self._syncs = 0

    # -- faults ----------------------------------------------------------------------------------------------------

    def fail_write(self, count: int = 1, error_number: int = errno.EIO) -> None:
        """Let the count-th write from now fail: 1 is the next. Replacing a file is a write, too."""
        self._failing_writes[self._writes + count] = error_number

    def fail_sync(self, count: int = 1, error_number: int = errno.EIO) -> None:
        """Let the count-th sync from now fail: 1 is the next."""
        self._failing_syncs[self._syncs + count] = error_number

    def lose_power(self, torn: Random | None) -> None:
        """Keep only what is on the disk for good; `torn`: and a part of the rest, chosen by chance."""
        self.power_losses += 1
        for path, inode in list(self.files.items()):
            survives = inode.is_durable or (torn is not None and torn.random() < 0.5)
            inode.lose_power(torn)
            if not survives:
                self.remove(path)

    @property
    def used_bytes(self) -> int:
        """How much of the total is taken."""
        return self.others_bytes + sum(len(inode.content) for inode in self.files.values())

    # -- what files are made of --------------------------------------------------------------------------------------

    def write(self, path: str, inode: Inode, position: int, data: Bytes) -> None:
        self._count_write(path, inode.growth_bytes(position, len(data)), position, data)
        inode.write(position, data)

    def truncate(self, inode: Inode, size: int) -> None:
        self._give_back(max(0, len(inode.content) - size))
        inode.truncate(size)

    def replace(self, path: str, data: bytes) -> None:
        """Put a new file there, on the disk for good."""
        self._require_folder(path)
        self._count_sync(path)
        self._count_write(path, len(data), 0, data)
        self.remove(path)
        inode = self._add(path)
        inode.write(0, data)
        inode.synced(inode.writes)

    def sync(self, path: str, inode: Inode) -> None:
        self._count_sync(path)
        if self.syncing is None:
            inode.synced(inode.writes)
        else:
            self.syncing.append((inode, inode.writes))

    def open(self, path: str) -> Inode:
        """Return the file, a new one if there is none."""
        if path in self.folders:
            raise disk_error(errno.EISDIR, path)
        self._require_folder(path)
        return self.files.get(path) or self._add(path)

    def make_folder(self, path: str) -> None:
        if path in self.files:
            raise disk_error(errno.EEXIST, path)
        if path not in self.folders:
            parent, name = posixpath.split(path)
            self.make_folder(parent or ".")
            self.folders[path] = set()
            self.folders[parent or "."].add(name)

    def remove(self, path: str) -> None:
        inode = self.files.pop(path, None)
        if inode is not None:
            self._give_back(len(inode.content))
            self._names_beside(path).discard(posixpath.basename(path))

    def remove_folder(self, path: str) -> None:
        for name in sorted(self.folders.get(path, ())):
            inner = posixpath.join(path, name)
            self.remove(inner)
            self.remove_folder(inner)
        if self.folders.pop(path, None) is not None:
            self._names_beside(path).discard(posixpath.basename(path))

    def _add(self, path: str) -> Inode:
        inode = self.files[path] = Inode()
        self._names_beside(path).add(posixpath.basename(path))
        return inode

    def _names_beside(self, path: str) -> set[str]:
        return self.folders[posixpath.dirname(path) or "."]

    def _require_folder(self, path: str) -> None:
        if (posixpath.dirname(path) or ".") not in self.folders:
            raise disk_error(errno.ENOENT, path)

    def _count_write(self, path: str, growth_bytes: int, position: int, data: Bytes) -> None:
        self._writes += 1
        if self._writes in self._failing_writes:
            raise disk_error(self._failing_writes.pop(self._writes), path)
        if self.on_write is not None:
            self.on_write(path, position, data)
        if self.bytes_left is not None:
            if growth_bytes > self.bytes_left:
                raise disk_error(errno.ENOSPC, path)
            self.bytes_left -= growth_bytes

    def _count_sync(self, path: str) -> None:
        self._syncs += 1
        if self._syncs in self._failing_syncs:
            raise disk_error(self._failing_syncs.pop(self._syncs), path)

    def _give_back(self, size: int) -> None:
        if self.bytes_left is not None:
            self.bytes_left += size


def disk_error(number: int, path: str) -> OSError:
    """Return the error that an operating system gives."""
    return OSError(number, os.strerror(number), path)
