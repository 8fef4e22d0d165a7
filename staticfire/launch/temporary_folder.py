"""Temporary folders of clusters, also of those whose process ended before it could remove them.

The process that has one holds a lock on it. Who makes the next one removes those that nobody holds a lock on any more:
that says it also of processes in other containers, whose ids mean nothing here.
"""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress

PREFIX = "staticfire-cluster-"
ABANDONED_S = 60.0
# A younger one may have been made a moment ago, and isn't locked yet.


class TemporaryFolder:
    """A folder that is there until `remove`, or until another one is made after this process has ended."""

    def __init__(self) -> None:
        remove_abandoned()
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # Not every file system has locks; nobody takes it for abandoned there, either.
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove it, and what is in it. Once more: without effect."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def remove_abandoned() -> None:
    """Remove the folders of processes that have ended without doing so."""
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
        return False  # It is somebody else's.
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(lock)
