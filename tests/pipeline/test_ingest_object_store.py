"""A folder in an object store whose user may access that folder alone: what is looked for above it, and how."""

from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from staticfire.pipeline.jobs.card import CARD_NAME
from staticfire.pipeline.jobs.folder import HadoopFolder

pytestmark = [pytest.mark.spark, pytest.mark.row("E4")]

BUCKET = "s3a://bucket"
OWN: frozenset[str] = frozenset()


class ObjectPath:
    """A path as Hadoop has them."""

    def __init__(self, parent: "str | ObjectPath", name: str = "") -> None:
        self._path = PurePosixPath(parent.getPath() if isinstance(parent, ObjectPath) else parent.removeprefix(BUCKET))
        self._path /= name

    def getParent(self) -> "ObjectPath | None":  # noqa: N802 (Hadoop's name)
        return None if self._path == self._path.parent else ObjectPath(str(self._path.parent))

    def getPath(self) -> str:  # noqa: N802 (Hadoop's name)
        return str(self._path)

    def getFileSystem(self, store: "ObjectStore") -> "ObjectStore":  # noqa: N802 (Hadoop's name)
        return store

    def toUri(self) -> "ObjectPath":  # noqa: N802 (Hadoop's name)
        return self


class JavaError:
    """An exception of Java."""

    def __init__(self, name: str) -> None:
        self._target_id = name

    def getClass(self) -> "JavaError":  # noqa: N802 (Java's name)
        return self

    def getName(self) -> str:  # noqa: N802 (Java's name)
        return self._target_id


class ObjectStore:
    """Has some objects, and answers an existence test as S3A does: it lists a path that is no object."""

    def __init__(self, objects: set[str], allowed: str, error: str = "java.nio.file.AccessDeniedException") -> None:
        """`allowed`: the folder that may be listed. `error`: what a request for an object outside of it fails with."""
        self._objects = objects
        self._allowed = allowed
        self._error = error
        self.listed: list[str] = []

    def folder(self, path: str) -> HadoopFolder:
        hadoop = SimpleNamespace(fs=SimpleNamespace(Path=ObjectPath))
        jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop)))
        context = SimpleNamespace(_gateway=None)
        spark: Any = SimpleNamespace(
            _jvm=jvm, sparkContext=context, _jsc=SimpleNamespace(hadoopConfiguration=lambda: self)
        )
        return HadoopFolder(spark, f"{BUCKET}{path}")

    def makeQualified(self, path: ObjectPath) -> ObjectPath:  # noqa: N802 (Hadoop's name)
        return path

    def isFile(self, path: ObjectPath) -> bool:  # noqa: N802 (Hadoop's name)
        self._check(path)
        return path.getPath() in self._objects

    def exists(self, path: ObjectPath) -> bool:
        return self.isFile(path) or self.listStatus(path) != []

    def listStatus(self, path: ObjectPath) -> list[str]:  # noqa: N802 (Hadoop's name)
        self.listed.append(path.getPath())
        self._check(path)
        return [name for name in self._objects if name.startswith(f"{path.getPath()}/")]

    def _check(self, path: ObjectPath) -> None:
        if self._error and not path.getPath().startswith(self._allowed):
            raise Py4JJavaError("no", JavaError(self._error))


def test_no_folder_above_a_new_table_is_listed_nor_has_to_be_accessible() -> None:
    store = ObjectStore(set(), "/teams/ours/table")
    state = store.folder("/teams/ours/table").find(OWN, is_output=True)
    assert (state.card, state.names, state.inside) == (None, [], "")
    assert [path for path in store.listed if not path.startswith("/teams/ours/table")] == []


def test_a_table_above_that_can_be_read_is_found() -> None:
    store = ObjectStore({f"/teams/{CARD_NAME}"}, "/teams/ours/table", error="")
    assert store.folder("/teams/ours/table").find(OWN, is_output=True).inside == "/teams"
    assert [path for path in store.listed if not path.startswith("/teams/ours/table")] == []
    assert store.folder("/teams/ours/table/_checkpoint").find(OWN).inside == ""  # It is no table.


def test_an_object_store_that_does_not_respond_is_an_error() -> None:
    store = ObjectStore(set(), "/teams/ours/table", error="java.net.SocketTimeoutException")
    with pytest.raises(Py4JJavaError):
        store.folder("/teams/ours/table").find(OWN, is_output=True)
