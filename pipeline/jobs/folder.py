"""A folder on any file system that Hadoop supports (local disk, hdfs://, s3a://), with an ingest's card and data files.

All access goes through the JVM, so a path means the same here as in Spark.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from staticfire.pipeline.jobs.card import CARD_NAME, Card, FolderState
from staticfire.protocol.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# What Spark's file sink calls its files: the number of the task, a random UUID, the number of the file.
_DATA_NAME = re.compile(r"part-\d{5,}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}[.-]c\d{3,}(\.\w+)?\.parquet")
SINK_LOG = "_spark_metadata"
# The folder in a checkpoint that Spark writes after the sink's log.
COMMITS = "commits"
_FORBIDDEN = ("java.nio.file.AccessDeniedException", "org.apache.hadoop.security.AccessControlException")


def data_path(uri: str) -> str:
    """Return the unescaped path in a file's URI: the same for `file:/a`, `file:///a` and `/a`."""
    return unquote(urlsplit(uri).path) if "://" in uri or uri.startswith("file:") else uri


class HadoopFolder:
    """One folder. It doesn't have to exist."""

    def __init__(self, spark: "SparkSession", place: str) -> None:
        """Find the folder's file system. Raises: UsageError (a Spark Connect client has no JVM)."""
        self.place = place
        jvm: Any = getattr(spark, "_jvm", None)  # PySpark has no public API for Hadoop's file systems.
        if jvm is None:
            raise UsageError(
                f"{place}: locks and folders go through the driver's JVM, which a client of Spark Connect doesn't "
                "have; run ingest and consumption with spark-submit, or on a Spark of this machine"
            )
        self._jvm = jvm
        self._gateway: Any = spark.sparkContext._gateway
        hadoop_path = jvm.org.apache.hadoop.fs.Path(place)
        self._files = hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration())
        self._path = self._files.makeQualified(hadoop_path)

    @property
    def uri(self) -> str:
        return str(self._path.toUri().toString())

    @property
    def local_path(self) -> str | None:
        """The path on this machine, or None if the folder is on another file system."""
        return str(self._path.toUri().getPath()) if self._path.toUri().getScheme() == "file" else None

    def make(self) -> None:
        self._files.mkdirs(self._path)

    def has(self, name: str) -> bool:
        return self._exists(self._path, name)

    def names(self) -> list[str]:
        """Return the names of its entries, sorted; an empty list if it doesn't exist."""
        if not self._files.exists(self._path):
            return []
        return sorted(str(entry.getPath().getName()) for entry in self._files.listStatus(self._path))

    def find(self, own: frozenset[str], is_output: bool = False) -> FolderState:
        """Return the state of the folder. `own`: names of entries that belong to the ingest itself.

        `is_output`: look for the table of another ingest above it, too.
        """
        names = [name for name in self.names() if name not in own and not name.endswith(".crc")]
        card = Card.decode(self._read(CARD_NAME), self.place) if self.has(CARD_NAME) else None
        begun = self._count(SINK_LOG) + self._count(COMMITS) > 0
        # A table that exists already continues, wherever it is.
        inside = self._ingest_around() if is_output and card is None else ""
        return FolderState(self.place, card, names, begun, inside)

    def put_card(self, card: Card) -> None:
        """Write the card atomically: a reader gets either the old one or the new one."""
        partly = self._child(f".{CARD_NAME}.part")
        stream = self._files.create(partly, True)
        stream.write(bytearray(card.encode().encode()))
        stream.close()
        hadoop = self._jvm.org.apache.hadoop.fs
        rename = getattr(hadoop, "Options$Rename")
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        context = hadoop.FileContext.getFileContext(self._path.toUri(), self._files.getConf())
        context.rename(partly, self._child(CARD_NAME), options)

    def data_files(self, partition_by: Sequence[str]) -> list[str]:
        """Return the paths of the files that the sink has written: exactly below its partition folders, by its names.

        Anything else belongs to another program. So does a subfolder that has a card or a log of its own.
        """
        folders = [self._path]
        for column in partition_by:
            folders = [each for folder in folders for each in self._partitions(folder, column)]
        entries = (entry for folder in folders for entry in self._files.listStatus(folder))
        return [
            str(entry.getPath().toUri().getPath())
            for entry in entries
            if entry.isFile() and _DATA_NAME.fullmatch(str(entry.getPath().getName()))
        ]

    def _partitions(self, folder: Any, column: str) -> "Iterator[Any]":
        """Yield the subfolders for the values of a partition column."""
        for entry in self._files.listStatus(folder):
            path = entry.getPath()
            is_value = entry.isDirectory() and str(path.getName()).startswith(f"{column}=")
            if is_value and not any(self._exists(path, name) for name in (CARD_NAME, SINK_LOG)):
                yield path

    def _ingest_around(self) -> str:
        """Return the nearest parent folder that is the table of an ingest; empty if there is none.

        An object store may allow access to this folder alone, and its folders can have millions of objects. So parents
        are never listed. A forbidden one counts as no table: this user couldn't read it, either.
        """
        parent = self._path.getParent()
        while parent is not None:
            if self._has_card(parent):
                return str(parent.toUri().getPath())
            parent = parent.getParent()
        return ""

    def _has_card(self, parent: Any) -> bool:
        from py4j.protocol import Py4JJavaError

        try:
            # Unlike exists(), which lists the path as a folder if it finds no file, this is one request for one object.
            return bool(self._files.isFile(self._jvm.org.apache.hadoop.fs.Path(parent, CARD_NAME)))
        except Py4JJavaError as error:
            if str(error.java_exception.getClass().getName()) not in _FORBIDDEN:
                raise
            return False

    def last_logged_batch(self) -> int:
        """Return the number of the newest batch in the sink's log, or -1 if there is none."""
        if not self.has(SINK_LOG):
            return -1
        names = [str(entry.getPath().getName()) for entry in self._files.listStatus(self._child(SINK_LOG))]
        return max((int(name.split(".")[0]) for name in names if name[0].isdigit()), default=-1)

    def delete_file(self, path: str) -> None:
        self._files.delete(self._jvm.org.apache.hadoop.fs.Path(path), False)

    def _child(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._path, name)

    def _exists(self, folder: Any, name: str) -> bool:
        return bool(self._files.exists(self._jvm.org.apache.hadoop.fs.Path(folder, name)))

    def _count(self, name: str) -> int:
        child = self._child(name)
        return len(self._files.listStatus(child)) if self._files.exists(child) else 0

    def _read(self, name: str) -> str:
        stream = self._files.open(self._child(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
