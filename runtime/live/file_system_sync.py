"""Sync a whole file system with one call: Linux's syncfs, which Python's os module doesn't have.

Before Linux 5.8 it reported no errors, so it isn't used there. Other systems have no such call.
"""

import os
import re
from collections.abc import Callable
from functools import cache

TELLS_OF_ERRORS_SINCE = (5, 8)


@cache
def file_system_sync() -> Callable[[int], None] | None:
    """Return a function that syncs the file system of a descriptor and raises OSError; None if there is none."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if os.uname().sysname != "Linux" or release is None or tuple(map(int, release.groups())) < TELLS_OF_ERRORS_SINCE:
        return None
    try:
        # Imported here because only clusters with many files need it.
        import ctypes

        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, OSError, AttributeError):
        return None

    def sync(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync
