"""Temporary folders of clusters, including those whose process ended before it could remove them.

The owning process holds a lock on its folder. A process that creates a new folder first removes those that no process
has locked. Locks also work for processes in other containers, whose process ids mean nothing here.
"""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress

PREFIX = "staticfire-cluster-"
# A younger folder may have just been created and not be locked yet.
ABANDONED_S = 60.0


class TemporaryFolder:
    """A folder that exists until `remove`, or until another is created after this process has ended."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # Some file systems have no locks. There, no folder is taken for abandoned either.
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder with its contents. No effect the second time."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def remove_abandoned() -> None:
    """Remove the folders of processes that ended without doing so."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and _is_abandoned(entry):
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(entry: "os.DirEntry[str]") -> bool:
    try:
        now_s = time.time()  # noqa: TID251 (the file system's own time)
        if now_s - entry.stat(follow_symlinks=False).st_ctime < ABANDONED_S:
            return False
        lock = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return False  # It belongs to another user.
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)
