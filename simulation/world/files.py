"""The file system, as seen by one simulated process."""

import errno
import posixpath
from collections.abc import Callable

from staticfire.runtime.machine import Bytes, DiskUse
from staticfire.simulation.world.disk import Disk, disk_error
from staticfire.simulation.world.history import History
from staticfire.simulation.world.inode import Inode
from staticfire.simulation.world.process import Process, ProcessKilled

LOCK_NAME = "lock"


class SimulatedFile:
    """An open file."""

    def __init__(self, files: "SimulatedFiles", path: str, inode: Inode, map_bytes: int) -> None:
        self._files = files
        self._path = path
        self._inode = inode
        self._map_bytes = map_bytes
        self._is_open = True
        inode.grow(map_bytes)

    def size(self) -> int:
        self._require_open()
        return self._inode.size

    def write(self, position: int, data: Bytes) -> None:
        self._require_open()
        if self._map_bytes and position + len(data) > self._inode.size:
            raise ValueError(
                f"{self._path}: {len(data)} bytes at {position} exceed the {self._inode.size} bytes that it has"
            )
        self._files.history.record_bytes(self._files.process.name, "writes", data, self._path, position)
        self._files.disk.write(self._path, self._inode, position, data)

    def read(self, position: int, size: int) -> bytes:
        self._require_open()
        if self._map_bytes and self._files.disk.is_bad(self._path, position, size):
            raise ProcessKilled  # SIGBUS
        return self._read(position, size, is_map=self._map_bytes > 0)

    def read_unmapped(self, position: int, size: int) -> bytes:
        return self._read(position, size, is_map=False)

    def view(self, position: int, size: int) -> memoryview:
        return memoryview(self.read_unmapped(position, size))

    def _read(self, position: int, size: int, is_map: bool) -> bytes:
        self._require_open()
        disk = self._files.disk
        if disk.is_bad(self._path, position, size):
            raise disk_error(errno.EIO, self._path)
        if disk.on_read is not None:
            position = disk.on_read(self._path, position, size, is_map)
        return self._inode.read(position, size)

    def data_end(self) -> int:
        self._require_open()
        return len(self._inode.content)

    def sync(self) -> None:
        self._require_open()
        self._files.history.record(self._files.process.name, "syncs", self._path)
        self._files.disk.sync(self._path, self._inode)

    def truncate(self, size: int) -> None:
        self._require_open()
        self._files.history.record(self._files.process.name, "truncates", self._path, size)
        self._files.disk.truncate(self._path, self._inode, size, keep_size=bool(self._map_bytes))

    def close(self) -> None:
        self._is_open = False

    def _require_open(self) -> None:
        self._files.process.require_alive()
        if not self._is_open:
            raise disk_error(errno.EBADF, self._path)


class SimulatedFolderLock:
    """The exclusive use of a folder. It ends with the process."""

    def __init__(self, locks: dict[str, Process], path: str, process: Process) -> None:
        self._locks = locks
        self._path = path
        self._process = process
        self._is_held = True

    def release(self) -> None:
        if self._is_held and self._locks.get(self._path) is self._process:
            del self._locks[self._path]
        self._is_held = False


class SimulatedFiles:
    """The files on the disk of one process."""

    def __init__(self, process: Process, disk: Disk, history: History) -> None:
        self.process = process
        self.disk = disk
        self.history = history

    def make_folder(self, path: str) -> None:
        self.disk.make_folder(self._path(path))

    def list_folder(self, path: str) -> list[str]:
        folder = self.disk.folders.get(self._path(path))
        above = self._path(path)
        while folder is None and len(above) > 1:
            if above in self.disk.files:
                raise disk_error(errno.ENOTDIR, path)
            above = posixpath.dirname(above)
        return [] if folder is None else sorted(folder.names)

    def sync_folder(self, path: str) -> None:
        self.history.record(self.process.name, "syncs names", path)
        self.disk.sync_folder(self._path(path))

    @property
    def syncs_together(self) -> bool:
        """Always False: each file and folder is synced separately here, so that each sync can fail separately."""
        return False

    def sync_together(self, folder: str, write: Callable[[], None]) -> None:
        raise NotImplementedError(f"syncs_together is False: {folder}")

    def exists(self, path: str) -> bool:
        path = self._path(path)
        return path in self.disk.files or path in self.disk.folders

    def open(self, path: str, map_bytes: int = 0) -> SimulatedFile:
        return SimulatedFile(self, path, self.disk.open(self._path(path)), map_bytes)

    def read_bytes(self, path: str) -> bytes:
        inode = self.disk.files.get(self._path(path))
        if inode is None:
            raise disk_error(errno.EISDIR if self._path(path) in self.disk.folders else errno.ENOENT, path)
        return inode.read(0, inode.size)

    def read_part(self, path: str, position: int, size: int) -> bytes:
        inode = self.disk.files.get(self._path(path))
        if inode is None and self._path(path) in self.disk.folders:
            raise disk_error(errno.EISDIR, path)
        if self.disk.is_bad(path, position, size):
            raise disk_error(errno.EIO, path)
        return b"" if inode is None else inode.read(position, size)

    def replace(self, path: str, data: bytes, is_private: bool = False) -> None:
        self.history.record_bytes(self.process.name, "replaces", data, path)
        self.disk.replace(self._path(path), data)

    def copy(self, path: str, target: str) -> int:
        self.history.record(self.process.name, "copies", path, target)
        return self.disk.copy(self._path(path), self._path(target))

    def move(self, path: str, target: str) -> None:
        self.history.record(self.process.name, "moves", path, target)
        self.disk.move(self._path(path), self._path(target))

    def remove(self, path: str) -> None:
        self.history.record(self.process.name, "removes", path)
        self.disk.remove(self._path(path))

    def remove_folder(self, path: str) -> None:
        self.history.record(self.process.name, "removes", path)
        self.disk.remove_folder(self._path(path))

    def remove_empty_folder(self, path: str) -> bool:
        if self.list_folder(path):
            return False
        self.remove_folder(path)
        return True

    def boot_id(self) -> str:
        return f"{self.disk.name}-{self.disk.power_losses}"

    def disk_usage(self, path: str) -> DiskUse:
        if self._path(path) not in self.disk.folders:
            raise disk_error(errno.ENOENT, path)
        return DiskUse(self.disk.used_bytes, self.disk.total_bytes)

    @property
    def is_durable(self) -> bool:
        return True

    def database_path(self, path: str) -> str:
        return ":memory:"

    def lock_folder(self, path: str) -> SimulatedFolderLock:
        folder = self._path(path)
        if folder not in self.disk.folders:
            raise disk_error(errno.ENOENT, posixpath.join(path, LOCK_NAME))
        holder = self.disk.locks.get(folder)
        if holder is not None and not holder.is_dead:
            raise BlockingIOError(
                errno.EWOULDBLOCK, f"{path} is in use by process {holder.pid}; stop it or use another folder"
            )
        lock_file = self.disk.open(posixpath.join(folder, LOCK_NAME))
        lock_file.truncate(0)
        lock_file.write(0, str(self.process.pid).encode())
        self.disk.locks[folder] = self.process
        return SimulatedFolderLock(self.disk.locks, folder, self.process)

    def _path(self, path: str) -> str:
        self.process.require_alive()
        return posixpath.normpath(path)
