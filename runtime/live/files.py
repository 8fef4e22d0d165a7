"""Folders and whole files of the operating system."""

import errno
import fcntl
import itertools
import os
from collections.abc import Callable

from staticfire.runtime.live.file import MappedFile, PlainFile, sync_folder
from staticfire.runtime.machine import DiskUse

LOCK_NAME = "lock"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
TEMPORARY_SUFFIX = ".tmp"
# The permissions of a file with secrets, and of all others; the umask can remove some of them.
PRIVATE, PUBLIC = 0o600, 0o666
_temporary_serial = itertools.count()


class LiveFolderLock:
    """An flock on the folder's lock file, which is never removed: else two processes could lock two different files."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class LiveFiles:
    """The operating system's file system."""

    __slots__ = ("is_durable",)

    def __init__(self, is_durable: bool = True) -> None:
        """`is_durable`: whether synced data survives a crash of the machine. If not, nothing waits for the disk."""
        self.is_durable = is_durable

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def list_folder(self, path: str) -> list[str]:
        try:
            return sorted(name for name in os.listdir(path) if not name.endswith(TEMPORARY_SUFFIX))
        except FileNotFoundError:
            return []

    def sync_folder(self, path: str) -> None:
        if self.is_durable:
            sync_folder(path)

    @property
    def syncs_together(self) -> bool:
        return not self.is_durable or _file_system_sync() is not None

    def sync_together(self, folder: str, write: Callable[[], None]) -> None:
        if not self.is_durable:
            write()
            return
        sync = _file_system_sync()
        assert sync is not None
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        try:
            write()
            # syncfs reports the errors that happened since this descriptor was opened.
            sync(descriptor)
        except OSError as error:
            error.filename = error.filename or folder
            raise
        finally:
            os.close(descriptor)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def open(self, path: str, map_bytes: int = 0) -> PlainFile:
        return MappedFile(path, map_bytes, self.is_durable) if map_bytes else PlainFile(path, self.is_durable)

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.read()

    def read_part(self, path: str, position: int, size: int) -> bytes:
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            return b""
        try:
            return os.pread(descriptor, size, position)
        except OSError as error:
            error.filename = path
            raise
        finally:
            os.close(descriptor)

    def replace(self, path: str, data: bytes, is_private: bool = False) -> None:
        # Each temporary name is used once. Otherwise two threads that replace the same file would write into one
        # another's.
        temporary = f"{path}.{os.getpid()}-{next(_temporary_serial)}{TEMPORARY_SUFFIX}"
        try:
            mode = PRIVATE if is_private else PUBLIC
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(data)
                file.flush()
                if self.is_durable:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            self.remove(temporary)
            error.filename = path
            # If it stayed None, the error's text would end in `-> None`.
            del error.filename2
            raise
        self.sync_folder(os.path.dirname(path) or ".")

    def copy(self, path: str, target: str) -> int:
        # Imported here because few processes make copies.
        from staticfire.runtime.live.copying import copy

        return copy(path, target, self.is_durable)

    def move(self, path: str, target: str) -> None:
        os.rename(path, target)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def remove_folder(self, path: str) -> None:
        # shutil.rmtree isn't used: its module would import three compression libraries into a starting process.
        for folder, folders, names in os.walk(path, topdown=False):
            for name in names:
                self.remove(os.path.join(folder, name))
            for name in folders:
                inner = os.path.join(folder, name)
                if os.path.islink(inner):
                    os.unlink(inner)
                else:
                    os.rmdir(inner)
        if os.path.isdir(path):
            os.rmdir(path)

    def remove_empty_folder(self, path: str) -> bool:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # POSIX allows both.
                raise
            return False
        return True

    def boot_id(self) -> str:
        try:
            return self.read_bytes(BOOT_ID).decode().strip()
        except (OSError, UnicodeDecodeError):
            # The system isn't Linux.
            return ""

    def disk_usage(self, path: str) -> DiskUse:
        disk = os.statvfs(path)
        used_blocks = disk.f_blocks - disk.f_bfree
        return DiskUse(used_blocks * disk.f_frsize, (used_blocks + disk.f_bavail) * disk.f_frsize)

    def database_path(self, path: str) -> str:
        return path

    def lock_folder(self, path: str) -> LiveFolderLock:
        descriptor = os.open(os.path.join(path, LOCK_NAME), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            os.close(descriptor)
            raise folder_in_use(path, holder) from None
        except OSError:
            os.close(descriptor)
            raise
        return LiveFolderLock(descriptor)


def folder_in_use(path: str, holder: str) -> BlockingIOError:
    """Return the error for a folder that another process uses."""
    who = f"process {holder}" if holder else "another process"
    return BlockingIOError(errno.EWOULDBLOCK, f"{path} is in use by {who}; stop it or use another folder")


def _file_system_sync() -> Callable[[int], None] | None:
    # Imported here because few processes have so many files.
    from staticfire.runtime.live.file_system_sync import file_system_sync

    return file_system_sync()
