"""The lock on an output folder: only one ingest at a time writes and deletes files there.

The JVM holds the lock, not Python, since the JVM is what writes. After `kill -9` of a Python driver its JVM lives on
for a moment and may still commit a batch. A file lock of the operating system ends with its process, however that
ends. Only local folders are locked; elsewhere there is only Spark's own check of the checkpoint.

POSIX releases all locks of a process on a file when any of its descriptors for that file is closed. So a second ingest
of the same JVM must not open the file at all: the folders that this process has locked are in a set.
"""

import os
import threading
from typing import TYPE_CHECKING, Any, Self

from staticfire.protocol.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_NAME = "_staticfire_ingest.lock"

_locked: set[str] = set()
"""The real paths of the folders that this process has locked, or tries to lock."""
_guard = threading.Lock()


class OutputLock:
    """A lock from the start of `with` to its end, or to the end of the JVM."""

    def __init__(self, spark: "SparkSession", folder: str, wait_ms: int) -> None:
        self._folder = folder
        self._real_path = os.path.realpath(folder)
        self._wait_ms = wait_ms
        self._jvm: Any = spark._jvm
        self._channel: Any = None
        self._lock: Any = None  # This reference keeps the lock alive in the JVM.
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        """Take the lock. Raises: ClientError (another ingest has it, and doesn't release it in time)."""
        with _guard:
            if self._real_path in _locked:
                raise ClientError(
                    f"another ingest is writing to {self._folder}, in this session: wait until it ends, or stop it"
                )
            _locked.add(self._real_path)
        try:
            self._lock_file()
        except BaseException:
            self._forget()
            raise
        return self

    def _lock_file(self) -> None:
        self._channel = self._jvm.java.io.RandomAccessFile(f"{self._folder}/{LOCK_NAME}", "rw").getChannel()
        waiting = threading.Thread(target=self._take, daemon=True)
        waiting.start()
        waiting.join(self._wait_ms / 1_000)
        if self._lock is None:
            self._channel.close()  # This also ends the waiting thread.
            waiting.join()
            raise ClientError(
                f"another ingest is writing to {self._folder}: wait until it ends, or stop it (it held its lock for "
                f"more than {self._wait_ms / 1_000:g} s)"
            )

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._lock = None
        self._forget()

    def _forget(self) -> None:
        with _guard:
            _locked.discard(self._real_path)

    def _take(self) -> None:
        from py4j.protocol import Py4JJavaError

        try:
            self._lock = self._channel.lock()
        except Py4JJavaError:
            self._lock = None  # The channel was closed meanwhile.
