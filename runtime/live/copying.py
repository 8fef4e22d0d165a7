"""Copy files and folders and keep the holes of sparse files."""

import os

from staticfire.runtime.live.file import sync_folder
from staticfire.runtime.live.holes import data_parts

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
        found = os.fstat(source)
        # A copy of a file with secrets is as private as that file.
        copied = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 | found.st_mode & 0o044)
        try:
            size = found.st_size
            count = sum(_copy_part(source, copied, start, end) for start, end in data_parts(source, size))
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


def _copy_part(source: int, target: int, start: int, end: int) -> int:
    at = start
    while at < end:
        data = os.pread(source, min(PIECE_BYTES, end - at), at)
        if not data:
            break
        at += os.pwrite(target, data, at)
    return at - start
