"""The parts of a sparse file that aren't holes: a log segment is 1 GiB, of which a test writes 1 KB."""

import errno
import os


def data_parts(descriptor: int, size: int) -> list[tuple[int, int]]:
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
