"""The lock on an output folder: one ingest at a time writes there and sweeps there.

The JVM holds it, not Python: it is the JVM that writes, and after `kill -9` of a Python driver its JVM lives on for a
moment, in which it may still commit a batch. A file lock of the operating system ends with its process, however that
ends. Only folders of this machine are locked; elsewhere Spark's own check of the checkpoint is what there is.
"""

import threading
from typing import TYPE_CHECKING, Any, Self

from staticfire.protocol.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_NAME = "_staticfire_ingest.lock"


class OutputLock:
    """Held from `with` to its end, or to the end of the JVM."""

    def __init__(self, spark: "SparkSession", folder: str, wait_ms: int) -> None:
        self._folder = folder
        self._wait_ms = wait_ms
        self._jvm: Any = spark._jvm
        self._channel: Any = None
        self._lock: Any = None  # While Python refers to it, the JVM keeps it.
        self._failure: Exception | None = None

    def __enter__(self) -> Self:
        """Raises: ClientError (somebody else has it, and keeps it)."""
        self._channel = self._jvm.java.io.RandomAccessFile(f"{self._folder}/{LOCK_NAME}", "rw").getChannel()
        waiting = threading.Thread(target=self._take, daemon=True)
        waiting.start()
        waiting.join(self._wait_ms / 1_000)
        if self._lock is None:
            self._channel.close()  # This ends the waiting, too.
            waiting.join()
            raise ClientError(
                f"another ingest is writing to {self._folder}: wait for its end, or stop it "
                f"(its lock wasn't free within {self._wait_ms / 1_000:g} s)"
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._lock = None

    def _take(self) -> None:
        from py4j.protocol import Py4JJavaError

        try:
            self._lock = self._channel.lock()
        except Py4JJavaError:
            self._lock = None  # Closed while waiting, or held by another ingest of this session.
