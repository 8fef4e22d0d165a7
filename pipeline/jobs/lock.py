"""The lock on an output folder: only one job of a kind at a time writes and deletes files there.

The JVM holds the lock, not Python, since the JVM is what writes. After `kill -9` of a Python driver its JVM lives on
for a moment and may still commit a batch. A file lock of the operating system ends with its process, however that
ends. Only local folders are locked; elsewhere there is only Spark's own check of the checkpoint. Some network file
systems can't lock files: an ingest refuses them, and the other jobs continue with a warning.

POSIX releases all locks of a process on a file when any of its descriptors for that file is closed. So a second job
of the same JVM must not open the file at all: the files that this process has locked are in a set.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from staticfire.pipeline.jobs.folder import HadoopFolder
from staticfire.pipeline.jobs.settings import LOCK_WAIT_MS
from staticfire.protocol.errors import ClientError
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_NAME = "_staticfire_ingest.lock"
CONSUMPTION_LOCK_NAME = "_staticfire_consumption.lock"
SWEEP_LOCK_NAME = "_staticfire_sweep.lock"
HELD_IN_JVM = "OverlappingFileLockException"
"""Another driver of the same JVM has the lock."""
_JOBS = {LOCK_NAME: "ingest", CONSUMPTION_LOCK_NAME: "consumption job", SWEEP_LOCK_NAME: "sweep"}

log = logger("pipeline")

_locked: set[str] = set()
"""The real paths of the files that this process has locked, or tries to lock."""
_guard = threading.Lock()


class NoFileLocks(ClientError):
    """The file system can't lock files."""


class OutputLock:
    """A lock from the start of `with` to its end, or to the end of the JVM."""

    def __init__(self, spark: "SparkSession", folder: str, wait_ms: int, name: str = LOCK_NAME) -> None:
        self._folder = folder
        self._job = _JOBS[name]
        self._real_path = os.path.realpath(f"{folder}/{name}")
        self._wait_ms = wait_ms
        self._jvm: Any = spark._jvm
        self._channel: Any = None
        self._lock: Any = None  # This reference keeps the lock alive in the JVM.
        self._failure = ""

    def __enter__(self) -> Self:
        """Take the lock. Raises: NoFileLocks, ClientError (another job has it, and doesn't release it in time)."""
        with _guard:
            if self._real_path in _locked:
                raise ClientError(
                    f"another {self._job} is writing to {self._folder}, in this session: wait until it ends, or stop it"
                )
            _locked.add(self._real_path)
        try:
            self._lock_file()
        except BaseException:
            self._forget()
            raise
        return self

    def _lock_file(self) -> None:
        self._channel = open_channel(self._jvm, self._real_path)
        waiting = threading.Thread(target=self._take, daemon=True)
        waiting.start()
        waiting.join(self._wait_ms / 1_000)
        if self._lock is None:
            failure = self._failure
            self._channel.close()  # This also ends the waiting thread.
            waiting.join()
            if failure:
                raise NoFileLocks(
                    f"{self._folder} can't be locked ({failure}): its file system needs file locks to keep a second "
                    f"{self._job} from writing there"
                )
            raise ClientError(
                f"another {self._job} is writing to {self._folder}: wait until it ends, or stop it (it held its lock "
                f"for more than {self._wait_ms / 1_000:g} s)"
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
        except Py4JJavaError as error:
            # The file system has no locks, or the channel was closed meanwhile.
            reason = str(error.java_exception.toString())
            self._failure = "" if HELD_IN_JVM in reason else reason


def open_channel(jvm: Any, path: str) -> Any:
    """Open a file of the driver's JVM to lock it. Raises: Py4JJavaError."""
    return jvm.java.io.RandomAccessFile(path, "rw").getChannel()


@contextmanager
def folder_lock(spark: "SparkSession", name: str, *folders: str) -> Iterator[None]:
    """Let only this job of its kind write to these folders. They are created if they don't exist.

    A client of Spark Connect has no JVM, and locks nothing. In a file system without file locks it continues with a
    warning. Raises: ClientError (another job has a lock, and doesn't release it in time).
    """
    has_jvm = getattr(spark, "_jvm", None) is not None
    with ExitStack() as locks:
        for folder in sorted({HadoopFolder(spark, each).uri for each in folders}) if has_jvm else ():
            output = HadoopFolder(spark, folder)
            output.make()
            if output.local_path is not None:
                try:
                    locks.enter_context(OutputLock(spark, output.local_path, LOCK_WAIT_MS, name))
                except NoFileLocks as error:
                    log.warning("folder_not_locked", folder=output.local_path, reason=str(error))
        yield
