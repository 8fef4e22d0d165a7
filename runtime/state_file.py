"""Small files of state: what is in one is taken over as a whole, or the start is refused and the file stays as it is.

Somebody may have edited it, or a disk lost half of it. Whatever is wrong with it becomes one line that names the file
and the way out: never a bare exception, and never a table that has silently become empty.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from staticfire.protocol.errors import StaticfireError, StorageError
from staticfire.runtime.machine import Files

T = TypeVar("T")

REASON_CHARS_MAX = 300


def read_state_file(
    files: Files, path: str, read: Callable[[bytes], T], way_out: str = "repair it, or move it away to start without it"
) -> T | None:
    """Return what `read` makes of a file; None when there is none.

    Raises: StorageError for a file that can't be read, that `read` raises for, or that isn't there any more.
    """
    if not files.exists(path):
        return None
    try:
        return read(files.read_bytes(path))
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, OSError, StaticfireError) as error:
        raise StorageError(f"{path} can't be read: {str(error)[:REASON_CHARS_MAX]}; {way_out}") from None
