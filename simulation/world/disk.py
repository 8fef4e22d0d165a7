"""A simulated disk: files survive a kill, but a power loss destroys what wasn't synced.

The content of a file becomes durable by a sync of the file; its name by a sync of its folder. The same is true for the
name of a folder in its parent, and for each removal. A file that was replaced is durable with its name, as
`Files.replace` promises. inode.py has both versions: what programs see, and what is durable.

Faults are set by tests: `bytes_left`, `others_bytes`, `fail_write`, `fail_sync`, `evicts`, `reorders`, `sync_ms`,
`rot`, `on_write`, `on_read`, and `before`, which is called before every step that changes something.
"""

import errno
import os
import posixpath
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import NamedTuple

from staticfire.runtime.machine import Bytes
from staticfire.simulation.world.inode import Folder, Inode, Node
from staticfire.simulation.world.process import Process


class DiskImage(NamedTuple):
    """A copy of a disk at some moment."""

    top: Folder


class Disk:  # house: all faults of a disk meet in one state
    """The files of one machine by path."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes_left: int | None = None
        """The free space for content; None: unlimited."""
        self.total_bytes = 1 << 40
        self.others_bytes = 0
        """How much of the total space others use. It is only reported: `bytes_left` makes writes fail."""
        self.sync_ms = 0.0
        """How long the sync of a file takes in a worker; the sync of a folder takes no time."""
        self.evicts = False
        """Data that a failed sync has lost can't be read any more either, as if the kernel had needed the memory."""
        self.reorders = False
        """A torn power loss keeps arbitrary sectors of what wasn't synced, instead of a prefix of it."""
        self.on_write: Callable[[str, int, Bytes], object] | None = None  # house: a fault, set while a test runs
        """Called before each write with path, position and data. Its exceptions are raised in the writer."""
        self.before: Callable[[str, str], object] | None = None  # house: a fault, set while a test runs
        """Called before each step with its kind (create, write, truncate, sync, rename, sync names, make folder,
        remove) and its path. Its exceptions are raised in the program; an OSError makes the step fail."""
        self.on_read: Callable[[str, int, int, bool], int] | None = None  # house: a fault, set while a test runs
        """Called before each read with path, position, size and whether it reads a map; returns the position to read
        instead. Its exceptions are raised in the program."""
        self.files: dict[str, Inode] = {}
        self._top = Folder()
        self.folders: dict[str, Folder] = {"/": self._top, ".": self._top}
        self.locks: dict[str, Process] = {}
        self.bad_sectors: list[tuple[str, int, int]] = []
        """Path, start, end: a read there fails; through a map it kills the process."""
        self.power_losses = 0
        self.syncing: list[tuple[Callable[[], None], float]] | None = None  # house: a list while a worker runs
        """While a worker runs: functions that make its syncs durable, and how many milliseconds each takes."""
        self._failing_writes: dict[int, int] = {}
        self._failing_syncs: dict[int, int] = {}
        self._writes = 0
        self._syncs = 0

    # -- faults ----------------------------------------------------------------------------------------------------

    def fail_write(self, count: int = 1, error_number: int = errno.EIO) -> None:
        """Let the count-th write from now fail: 1 is the next. The replacement of a file is a write, too."""
        self._failing_writes[self._writes + count] = error_number

    def fail_sync(self, count: int = 1, error_number: int = errno.EIO) -> None:
        """Let the count-th sync of a file from now fail: 1 is the next. The data that it covers is never written."""
        self._failing_syncs[self._syncs + count] = error_number

    def is_bad(self, path: str, position: int, size: int) -> bool:
        """Return whether a read touches a bad sector."""
        return any(path == bad and position < end and start < position + size for bad, start, end in self.bad_sectors)

    def rot(self, path: str, position: int, mask: int = 1) -> None:
        """Flip bits of a byte, also in its durable version."""
        self.files[path].rot(position, mask)

    def lose_power(self, torn: Random | None) -> None:
        """Keep only what is durable; `torn`: and a random part of the rest."""
        self.power_losses += 1
        used_bytes = self.used_bytes
        self._come_back(self._top, torn)
        self._find_all(self._top)
        self._give_back(used_bytes - self.used_bytes)

    def _come_back(self, node: Node, torn: Random | None) -> None:
        """Apply a power loss to a file, or to a folder and everything in it."""
        if isinstance(node, Inode):
            node.lose_power(torn, self.reorders)
            return
        node.lose_power(torn)
        for name in sorted(node.names):
            self._come_back(node.names[name], torn)

    def image(self) -> DiskImage:
        """Return a copy of everything, durable or not."""
        return DiskImage(deepcopy(self._top))

    def put_back(self, image: DiskImage) -> None:
        """Restore the disk to the state of an image."""
        used_bytes = self.used_bytes
        self._top = image.top
        self._find_all(self._top)
        self._give_back(used_bytes - self.used_bytes)

    def replace_all(self) -> None:
        """Put an empty disk into its place: all of it is gone. No process may have a file open."""
        used_bytes = self.used_bytes
        self._top = Folder()
        self._find_all(self._top)
        self._give_back(used_bytes - self.used_bytes)

    def _find_all(self, top: Folder) -> None:
        """Index all files and folders by path."""
        self.files.clear()
        self.folders = {"/": top, ".": top}
        unseen: list[tuple[str, Folder]] = [("/", top)]
        while unseen:
            path, folder = unseen.pop()
            for name, node in folder.names.items():
                inner = posixpath.join(path, name)
                if isinstance(node, Inode):
                    self.files[inner] = node
                else:
                    self.folders[inner] = node
                    unseen.append((inner, node))

    @property
    def used_bytes(self) -> int:
        """How much of the total space is used."""
        return self.others_bytes + sum(len(inode.content) for inode in self.files.values())

    # -- files and folders -------------------------------------------------------------------------------------------

    def write(self, path: str, inode: Inode, position: int, data: Bytes) -> None:
        self._step("write", path)
        self._count_write(path, inode.growth_bytes(position, len(data)), position, data)
        inode.write(position, data)

    def truncate(self, path: str, inode: Inode, size: int, keep_size: bool) -> None:
        self._step("truncate", path)
        self._give_back(max(0, len(inode.content) - size))
        inode.truncate(size, keep_size)

    def replace(self, path: str, data: bytes) -> None:
        """Replace or create a file durably: it is written, synced, renamed, and its name synced."""
        self._require_folder(path)
        self._step("sync", path)
        self._count_sync(path)
        self._count_write(path, len(data), 0, data)
        inode = Inode()
        inode.write(0, data)
        inode.synced(inode.changes)
        self._step("rename", path)
        self._give_back(len(self.files[path].content) if path in self.files else 0)
        self._add(path, inode)
        self.sync_folder(posixpath.dirname(path) or ".")

    def sync(self, path: str, inode: Inode) -> None:
        changes = inode.changes
        try:
            self._step("sync", path)
            self._count_sync(path)
        except OSError:
            inode.sync_failed(changes, self.evicts)
            raise
        self._when_synced(lambda: inode.synced(changes), self.sync_ms)

    def sync_folder(self, path: str) -> None:
        if path not in self.folders:
            raise disk_error(errno.ENOENT, path)
        self._step("sync names", path)
        folder = self.folders[path]
        changes = folder.changes
        self._when_synced(lambda: folder.synced(changes), 0)

    def _when_synced(self, done: Callable[[], None], takes_ms: float) -> None:
        if self.syncing is None:
            done()
        else:
            self.syncing.append((done, takes_ms))

    def open(self, path: str) -> Inode:
        """Return the file at a path; create it if there is none."""
        if path in self.folders:
            raise disk_error(errno.EISDIR, path)
        self._require_folder(path)
        if path not in self.files:
            self._step("create", path)
            self._add(path, Inode())
        return self.files[path]

    def make_folder(self, path: str) -> None:
        if path in self.files:
            raise disk_error(errno.EEXIST, path)
        if path not in self.folders:
            parent, name = posixpath.split(path)
            self.make_folder(parent or ".")
            self._step("make folder", path)
            self.folders[path] = Folder()
            self.folders[parent or "."].put(name, self.folders[path])

    def remove(self, path: str) -> None:
        if path in self.files:
            self._step("remove", path)
            self._give_back(len(self.files.pop(path).content))
            self._folder_of(path).drop(posixpath.basename(path))

    def remove_folder(self, path: str) -> None:
        if path in self.folders:
            for name in sorted(self.folders[path].names):
                inner = posixpath.join(path, name)
                self.remove(inner)
                self.remove_folder(inner)
            self._step("remove", path)
            del self.folders[path]
            self._folder_of(path).drop(posixpath.basename(path))

    def copy(self, path: str, target: str) -> int:
        """Copy a file, or a folder with its content; return the number of bytes."""
        if path in self.folders:
            self.make_folder(target)
            copied = sum(self.copy(f"{path}/{name}", f"{target}/{name}") for name in sorted(self.folders[path].names))
            self.sync_folder(target)
            return copied
        if path not in self.files:
            raise disk_error(errno.ENOENT, path)
        content = bytes(self.files[path].content)
        inode = self.open(target)
        inode.grow(self.files[path].size)
        self.write(target, inode, 0, content)
        self.sync(target, inode)
        return len(content)

    def move(self, path: str, target: str) -> None:
        """Rename a file or a folder."""
        node = self.files.get(path) or self.folders.get(path)
        if node is None:
            raise disk_error(errno.ENOENT, path)
        self._require_folder(target)
        self._step("rename", target)
        self._folder_of(target).put(posixpath.basename(target), node)
        self._folder_of(path).drop(posixpath.basename(path))
        self._find_all(self._top)

    def _add(self, path: str, inode: Inode) -> None:
        self.files[path] = inode
        self._folder_of(path).put(posixpath.basename(path), inode)

    def _folder_of(self, path: str) -> Folder:
        return self.folders[posixpath.dirname(path) or "."]

    def _require_folder(self, path: str) -> None:
        if (posixpath.dirname(path) or ".") not in self.folders:
            raise disk_error(errno.ENOENT, path)

    def _step(self, what: str, path: str) -> None:
        if self.before is not None:
            self.before(what, path)

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
    """Return the error that an operating system raises."""
    return OSError(number, os.strerror(number), path)
