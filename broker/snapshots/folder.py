"""The files of snapshots, below the broker's own folder.

    <folder>/snapshots/<name>/files/...      copies of what the broker has: log, queues, small state, key index
    <folder>/snapshots/<name>/info           what it is; written last, so that a snapshot without one is none
    <folder>/restoring/files/...             copies that are about to take their places
    <folder>/restoring/plan                  their names, when all of them are there

A snapshot is put back in this order: it is copied beside what is there; the plan is written; each name is moved into
its place. Until the plan is there nothing has happened; from then on `finish` carries it out, which a start does, too.
So a kill leaves the broker as it was, or as the snapshot is. What isn't of a moment stays: the lock, message time, the
journal, what was set aside as damaged, and the snapshots themselves.
"""

import msgspec

from staticfire.broker.clock.message_clock import FILE as CLOCK_FILE
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, StorageError, os_words
from staticfire.protocol.requests.snapshots import SnapshotInfo, snapshot_name_fault
from staticfire.runtime.machine import Files
from staticfire.runtime.state_file import read_state_file

SNAPSHOTS, RESTORING = "snapshots", "restoring"
NOT_OF_A_MOMENT = frozenset({"lock", "abort", "journal", "damaged", SNAPSHOTS, RESTORING})
SNAPSHOTS_MAX = 1_000


def check_name(name: str) -> str:
    """Return the name of a snapshot, which is that of a folder. Raises: BrokerAnswer (no snapshot can have it)."""
    fault = snapshot_name_fault(name)
    if fault is not None:
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, fault)
    return name


class SnapshotFolder:
    """The snapshots of one broker. Everything blocks; `save` and `finish` with the broker's files closed."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._snapshots = f"{folder}/{SNAPSHOTS}"
        self._restoring = f"{folder}/{RESTORING}"
        self._plan = f"{self._restoring}/plan"

    # -- what there is -------------------------------------------------------------------------------------------

    def all(self) -> list[SnapshotInfo]:
        """Return all snapshots, by name. Raises: StorageError, OSError."""
        read = [self._read(name) for name in self._files.list_folder(self._snapshots)]
        return [info for info in read if info is not None]  # What isn't whole, or goes at this moment, is none.

    def _is_whole(self, name: str) -> bool:
        return self._files.exists(f"{self._snapshots}/{name}/info")

    def _read(self, name: str) -> SnapshotInfo | None:
        path = f"{self._snapshots}/{name}/info"
        try:
            return read_state_file(self._files, path, _read_info, "remove that snapshot")
        except StorageError:
            if self._is_whole(name):
                raise
            return None  # It was removed meanwhile.

    def info(self, name: str) -> SnapshotInfo:
        """Return what a snapshot is. Raises: BrokerAnswer (there is none), StorageError (it can't be read)."""
        found = self._read(check_name(name))
        if found is None:
            names = [each for each in self._files.list_folder(self._snapshots) if self._is_whole(each)]
            there = f"there are {', '.join(names)}" if names else "there are none"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, f"there is no snapshot {name}: {there}")
        return found

    def remove(self, name: str) -> None:
        """Remove a snapshot. Raises: BrokerAnswer (there is none), OSError."""
        self.info(name)
        self._files.remove(f"{self._snapshots}/{name}/info")
        self._files.remove_folder(f"{self._snapshots}/{name}")

    # -- saving --------------------------------------------------------------------------------------------------

    def save(self, info: SnapshotInfo) -> SnapshotInfo:
        """Copy everything; a snapshot of that name goes when the new one is there. Raises: StorageError.

        The old one is left alone if that fails.
        """
        begun, place = f"{self._restoring}/saving", f"{self._snapshots}/{check_name(info.name)}"
        try:
            if not self._files.exists(place) and len(self._files.list_folder(self._snapshots)) >= SNAPSHOTS_MAX:
                raise StorageError(f"there are {SNAPSHOTS_MAX} snapshots: remove one first")
            self._files.remove_folder(begun)
            self._files.make_folder(f"{begun}/files")
            size_bytes = sum(
                self._files.copy(f"{self._folder}/{name}", f"{begun}/files/{name}") for name in self._of_a_moment()
            )
            self._files.remove(f"{begun}/files/config/{CLOCK_FILE}")
            info = msgspec.structs.replace(info, size_bytes=size_bytes)
            for folder in (f"{begun}/files/config", f"{begun}/files", begun):
                self._files.sync_folder(folder)
            self._files.make_folder(self._snapshots)
            self._files.sync_folder(self._folder)
            if self._files.exists(place):
                self._files.remove(f"{place}/info")
                self._files.remove_folder(place)
            self._files.move(begun, place)
            self._files.sync_folder(self._snapshots)
            self._files.replace(f"{place}/info", msgspec.json.encode(info))
        except OSError as error:
            self._drop(begun)
            raise StorageError(f"the snapshot {info.name} can't be saved: {os_words(error)}") from error
        self._drop(self._restoring)
        return info

    def _of_a_moment(self) -> list[str]:
        """Return the names of what a snapshot has."""
        return [name for name in self._files.list_folder(self._folder) if name not in NOT_OF_A_MOMENT]

    def _drop(self, folder: str) -> None:
        try:
            self._files.remove_folder(folder)
        except OSError:
            pass  # It is in nobody's way: the next one removes it first.

    # -- putting back --------------------------------------------------------------------------------------------

    def stage(self, name: str) -> None:
        """Copy a snapshot beside what is there; nothing else has happened. Raises: BrokerAnswer, StorageError."""
        self.info(name)
        source, staged = f"{self._snapshots}/{name}/files", f"{self._restoring}/files"
        try:
            self._files.remove_folder(self._restoring)
            self._files.make_folder(self._restoring)
            self._files.copy(source, staged)
        except OSError as error:
            self._drop(self._restoring)
            raise StorageError(f"the snapshot {name} can't be put back: {os_words(error)}") from error

    def put_back(self) -> None:
        """Let what was staged take the place of what is there. Raises: StorageError."""
        try:
            clock, staged = f"{self._folder}/config/{CLOCK_FILE}", f"{self._restoring}/files"
            if self._files.exists(clock):
                self._files.copy(clock, f"{staged}/config/{CLOCK_FILE}")
            for folder in (f"{staged}/config", staged, self._restoring, self._folder):
                self._files.sync_folder(folder)
            names = self._files.list_folder(staged)
            self._files.replace(self._plan, msgspec.json.encode(names))
        except OSError as error:
            self._drop(self._restoring)
            raise StorageError(f"the snapshot can't be put back: {os_words(error)}; all is as it was") from error
        self.finish()

    def finish(self) -> bool:
        """Carry out what a plan says, if there is one; return whether there was. Raises: StorageError."""
        names = read_state_file(self._files, self._plan, _read_plan, f"restore {self._folder} from a copy")
        if names is None:
            return False
        try:
            for name in self._of_a_moment():
                if name not in names or self._files.exists(f"{self._restoring}/files/{name}"):
                    self._remove(f"{self._folder}/{name}")
            for name in names:
                if self._files.exists(f"{self._restoring}/files/{name}"):
                    self._files.move(f"{self._restoring}/files/{name}", f"{self._folder}/{name}")
            self._files.sync_folder(self._folder)
            self._files.remove(self._plan)
            self._files.remove_folder(self._restoring)
        except OSError as error:
            raise StorageError(
                f"a snapshot is half put back in {self._folder}: {os_words(error)}; start the broker again, it goes on"
            ) from error
        return True

    def _remove(self, path: str) -> None:
        self._files.remove_folder(path)
        if self._files.exists(path):
            self._files.remove(path)


def _read_info(data: bytes) -> SnapshotInfo:
    return msgspec.json.decode(data, type=SnapshotInfo)


def _read_plan(data: bytes) -> list[str]:
    return msgspec.json.decode(data, type=list[str])
