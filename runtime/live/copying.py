"""Copy files and folders and keep the holes of sparse files: a log segment is 1 GiB, of which a test writes 1 KB."""

import errno
import os

from staticfire.runtime.live.file import sync_folder

PIECE_BYTES = 64 * 1024 * 1024


def copy(path: str, target: str, is_durable: bool) -> int:
    """Copy a file, or a folder with its content; return the number of bytes copied. Raises: OSError."""
    if not os.path.isdir(path):
        return _copy_file(path, target, is_durable)
    os.mkdir(target)
    copied = sum(
        copy(os.path.join(path, name), os.path.join(target, name), is_durable) for name in sorted(os.listdir(path))
    )
    if is_durable:
        sync_folder(target)
    return copied


def _copy_file(path: str, target: str, is_durable: bool) -> int:
    source = os.open(path, os.O_RDONLY)
    try:
        copied = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            size = os.fstat(source).st_size
            count = sum(_copy_part(source, copied, start, end) for start, end in _parts(source, size))
            os.ftruncate(copied, size)
            if is_durable:
                os.fsync(copied)
            return count
        finally:
            os.close(copied)
    except OSError as error:
        error.filename = error.filename or target
        raise
    finally:
        os.close(source)


def _parts(descriptor: int, size: int) -> list[tuple[int, int]]:
    """Return the parts of a file that aren't holes, as (start, end)."""
    parts, at = [], 0
    while at < size:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            # Only a hole is left.
            if error.errno == errno.ENXIO:
                break
            # This file system doesn't support holes.
            return [(0, size)]
        at = os.lseek(descriptor, start, os.SEEK_HOLE)
        parts.append((start, at))
    return parts


def _copy_part(source: int, target: int, start: int, end: int) -> int:
    at = start
    while at < end:
        data = os.pread(source, min(PIECE_BYTES, end - at), at)
        if not data:
            break
        at += os.pwrite(target, data, at)
    return at - start
