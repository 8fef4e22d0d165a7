"""One open file. It is read and written at positions; a mapped file is read through a memory map instead.

A mapped file is written with pwrite and never through the map: a full disk then raises OSError and doesn't kill the
process (SIGBUS). Reading through the map has the same danger if the page isn't in memory: at a hole of a file on a full
tmpfs, or at a bad sector. Code that may read such a place uses pread (`read_unmapped`). Both ways use the same pages of
the kernel, so written data can be read at once.
"""

import errno
import mmap
import os
import sys
from os import pwrite

from staticfire.runtime.machine import Bytes

_fdatasync = getattr(os, "fdatasync", os.fsync)


# No process has so many files, so using a closed file raises EBADF. The old number may belong to another file by now.
_CLOSED = 0x7FFFFFFF


class PlainFile:
    """A file that grows as it is written."""

    __slots__ = ("_descriptor", "_is_durable", "_path")

    def __init__(self, path: str, is_durable: bool = True) -> None:
        """`is_durable`: whether `sync` waits for the disk."""
        self._path = path
        self._is_durable = is_durable
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write(self, position: int, data: Bytes) -> None:
        try:
            written = pwrite(self._descriptor, data, position)
        except OSError as error:
            error.filename = self._path
            raise
        if written != len(data):
            self._write_rest(position, data, written)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def read_unmapped(self, position: int, size: int) -> bytes:
        try:
            return os.pread(self._descriptor, size, position)
        except OSError as error:
            error.filename = self._path
            raise

    def view(self, position: int, size: int) -> memoryview:
        return memoryview(self.read_unmapped(position, size))

    def data_end(self) -> int:
        if sys.platform == "darwin":
            return self.size()  # APFS may report a hole where data wasn't flushed yet (GNU coreutils, bug 51857).
        from staticfire.runtime.live.holes import data_parts  # Only a start after a kill needs it.

        parts = data_parts(self._descriptor, self.size())
        return parts[-1][1] if parts else 0

    def sync(self) -> None:
        if not self._is_durable:
            return
        try:
            _fdatasync(self._descriptor)
        except OSError as error:
            error.filename = self._path
            raise

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def _write_rest(self, position: int, data: Bytes, written: int) -> None:
        """Continue after a partial write; if the disk is full, undo the part that was written."""
        rest = memoryview(data)[written:]
        try:
            while rest:
                taken = pwrite(self._descriptor, rest, position + written)
                if taken == 0:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                written += taken
                rest = rest[taken:]
        except OSError as error:
            self._take_back(position, written)
            error.filename = self._path
            raise

    def _take_back(self, position: int, written: int) -> None:
        if self.size() == position + written:
            os.ftruncate(self._descriptor, position)


class MappedFile(PlainFile):
    """A sparse file of a fixed size, read through a map. Disk blocks are allocated only where data was written."""

    __slots__ = ("_map", "_size")

    def __init__(self, path: str, map_bytes: int, is_durable: bool = True) -> None:
        super().__init__(path, is_durable)
        try:
            self._size = os.fstat(self._descriptor).st_size
            if self._size < map_bytes:
                os.ftruncate(self._descriptor, map_bytes)
                self._size = map_bytes
            self._map = mmap.mmap(self._descriptor, self._size, access=mmap.ACCESS_READ)
        except BaseException:
            super().close()
            raise

    def size(self) -> int:
        return self._size

    def write(self, position: int, data: Bytes) -> None:
        if position + len(data) > self._size:
            raise ValueError(
                f"{self._path}: {len(data)} bytes at {position} exceed the {self._size} bytes that it was opened with"
            )
        try:
            written = pwrite(self._descriptor, data, position)
        except OSError as error:
            error.filename = self._path
            raise
        if written != len(data):
            self._write_rest(position, data, written)

    def read(self, position: int, size: int) -> bytes:
        return self._map[position : position + size]

    def view(self, position: int, size: int) -> memoryview:
        with memoryview(self._map) as whole:
            return whole[position : position + size]

    def truncate(self, size: int) -> None:
        # Between these two calls, a read through the map after `size` would kill the process.
        os.ftruncate(self._descriptor, size)
        os.ftruncate(self._descriptor, self._size)

    def close(self) -> None:
        self._map.close()
        super().close()

    def _take_back(self, position: int, written: int) -> None:
        pwrite(self._descriptor, bytes(written), position)


def sync_folder(path: str) -> None:
    """Sync the names in the folder to the disk. Raises: OSError with the path in `filename`."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    try:
        os.fsync(descriptor)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(descriptor)
