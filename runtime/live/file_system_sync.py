"""One sync for a whole file system: Linux's syncfs, which Python's os doesn't have.

Before Linux 5.8 it told of no errors, so it isn't used there; other systems have none.
"""

import os
import re
from collections.abc import Callable
from functools import cache

TELLS_OF_ERRORS_SINCE = (5, 8)


@cache
def file_system_sync() -> Callable[[int], None] | None:
    """Return what syncs the file system of a descriptor, and raises OSError; None where there is no such."""
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    if os.uname().sysname != "Linux" or release is None or tuple(map(int, release.groups())) < TELLS_OF_ERRORS_SINCE:
        return None
    try:
        import ctypes  # Only who has many files needs it.

        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (ImportError, OSError, AttributeError):
        return None

    def sync(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync
