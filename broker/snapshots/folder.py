"""The files of snapshots, in the broker's own folder.

    <folder>/snapshots/<name>/files/...      copies of the broker's data: log, queues, small state, key index
    <folder>/snapshots/<name>/files-2/...    the same, if the snapshot has replaced one in `files`
    <folder>/snapshots/<name>/info           its description, and which of the two folders is valid; required
    <folder>/snapshots/.<name>/...           a pending one, until the other brokers have saved their parts, too

To save a snapshot under an existing name, new copies are made next to the old ones and synced, then `info` is replaced
atomically, then the old copies are removed. So after an error or a kill there is a whole snapshot, the old or the new
one. The next save removes all other leftovers.

Only `OWN_NAMES` (plan.py) belong to a snapshot. All other files are kept as they are. Some are the broker's: the lock,
message time, the journal, the file of replication, damaged parts that were moved aside, and the snapshots themselves.
Others aren't: the folder may also contain a user's files, another broker's folder, or `lost+found`.
"""

from typing import NamedTuple

import msgspec

from staticfire.broker.clock.message_clock import FILE as CLOCK_FILE
from staticfire.broker.snapshots.plan import RESTORING, RestorePlan, copy_own, drop
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, StorageError, os_words
from staticfire.protocol.requests.snapshots import SnapshotInfo, snapshot_name_fault
from staticfire.runtime.machine import Files
from staticfire.runtime.state_file import read_state_file, replace_state_file

SNAPSHOTS = "snapshots"
SNAPSHOTS_MAX = 1_000
# Before the name of a pending snapshot; no name begins with it.
PENDING = "."
# The brokers of a cluster save their parts in less time; a pending snapshot that is older is removed by the next save.
PENDING_MS_MAX = 3_600_000
# The folders for the copies. A snapshot that replaces another one uses the folder that the other one doesn't use.
FILES = ("files", "files-2")


class KeptInfo(NamedTuple):
    """The content of the file `info`."""

    info: SnapshotInfo
    files: str
    """The folder with the copies."""


def check_name(name: str) -> str:
    """Return the name of a snapshot if it is valid as the name of a folder. Raises: BrokerAnswer (it is invalid)."""
    fault = snapshot_name_fault(name)
    if fault is not None:
        raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, fault)
    return name


class SnapshotFolder:
    """The snapshots of one broker. Everything blocks. `save` needs the broker's files closed."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._snapshots = f"{folder}/{SNAPSHOTS}"
        self._restoring = f"{folder}/{RESTORING}"
        self.restoring = RestorePlan(files, folder)
        """Restores one of them."""

    # -- existing snapshots --------------------------------------------------------------------------------------

    def all(self) -> list[SnapshotInfo]:
        """Return all snapshots, by name. Raises: StorageError, OSError."""
        read = [self._read(name) for name in self._names()]
        return [kept.info for kept in read if kept is not None]  # Incomplete and removed snapshots don't count.

    def _names(self) -> list[str]:
        """Return the names of all snapshots, also of incomplete ones, but of no pending ones."""
        return [name for name in self._files.list_folder(self._snapshots) if not name.startswith(PENDING)]

    def _is_whole(self, name: str) -> bool:
        return self._files.exists(f"{self._snapshots}/{name}/info")

    def _read(self, name: str) -> KeptInfo | None:
        path = f"{self._snapshots}/{name}/info"
        try:
            return read_state_file(self._files, path, _read_info, "remove that snapshot")
        except StorageError:
            if self._is_whole(name):
                raise
            return None  # It was removed meanwhile.

    def info(self, name: str) -> SnapshotInfo:
        """Return the description of a snapshot.

        Raises: BrokerAnswer (there is none), StorageError (it can't be read).
        """
        return self._find(name).info

    def _find(self, name: str) -> KeptInfo:
        found = self._read(check_name(name))
        if found is None:
            names = [each for each in self._names() if self._is_whole(each)]
            there = f"the snapshots are {', '.join(names)}" if names else "there are no snapshots"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, f"there is no snapshot {name}: {there}")
        return found

    def remove(self, name: str, pending_ms: int = 0) -> None:
        """Remove a snapshot, or the pending one of that time. Raises: BrokerAnswer (there is none), OSError."""
        if pending_ms:
            self._find_pending(name, pending_ms)
            name = PENDING + name
        else:
            self.info(name)
        self._files.remove(f"{self._snapshots}/{name}/info")
        self._files.remove_folder(f"{self._snapshots}/{name}")

    def _find_pending(self, name: str, saved_ms: int) -> KeptInfo:
        found = self._read(PENDING + check_name(name))
        if found is None or found.info.saved_ms != saved_ms:
            words = f"there is no pending snapshot {name} of that time: it was saved once more, or removed"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
        return found

    def _drop_old_pending(self, now_ms: int) -> None:
        """Remove the pending snapshots of saves that have ended without it: their program was ended, say."""
        for name in self._files.list_folder(self._snapshots):
            if name.startswith(PENDING):
                try:
                    found = self._read(name)
                except StorageError:
                    found = None
                if found is None or found.info.saved_ms + PENDING_MS_MAX < now_ms:
                    drop(self._files, f"{self._snapshots}/{name}")

    def stage(self, name: str) -> None:
        """Copy a snapshot next to the current data, and change nothing else. Raises: BrokerAnswer, StorageError."""
        self.restoring.stage(f"{self._snapshots}/{name}/{self._find(name).files}", name)

    # -- saving --------------------------------------------------------------------------------------------------

    def save(self, info: SnapshotInfo, pending: bool = False) -> SnapshotInfo:
        """Copy everything, then replace a snapshot of the same name, or the pending one. Raises: StorageError.

        After an error, the old or the new snapshot exists.
        """
        begun, name = f"{self._restoring}/saving", (PENDING if pending else "") + check_name(info.name)
        self.restoring.require_none()
        try:
            self._drop_old_pending(info.saved_ms)
            others = self._names()
            if info.name not in others and len(others) >= SNAPSHOTS_MAX:
                raise StorageError(f"the limit of {SNAPSHOTS_MAX} snapshots is reached: remove one first")
            info = msgspec.structs.replace(info, size_bytes=self._copy_all(begun))
            self._put_in_place(f"{begun}/files", name, info)
        except OSError as error:
            drop(self._files, begun)
            raise StorageError(f"the snapshot {info.name} can't be saved: {os_words(error)}") from error
        drop(self._files, self._restoring)
        return info

    def keep(self, name: str, saved_ms: int, save_id: str) -> None:
        """Let the pending snapshot replace the one of its name. Raises: BrokerAnswer (there is none), StorageError.

        After an error, the old or the new snapshot exists.
        """
        found, place = self._find_pending(name, saved_ms), f"{self._snapshots}/{PENDING}{name}"
        try:
            info = msgspec.structs.replace(found.info, save_id=save_id)
            self._put_in_place(f"{place}/{found.files}", name, info)
        except OSError as error:
            raise StorageError(f"the snapshot {name} can't be saved: {os_words(error)}") from error
        drop(self._files, place)

    def _copy_all(self, begun: str) -> int:
        """Copy everything that belongs to a snapshot; return the number of bytes. Raises: OSError."""
        files = self._files
        files.remove_folder(begun)
        files.make_folder(f"{begun}/files")
        size_bytes = copy_own(self._files, self._folder, f"{begun}/files")
        files.remove(f"{begun}/files/config/{CLOCK_FILE}")
        for folder in (f"{begun}/files/config", f"{begun}/files", begun):
            files.sync_folder(folder)
        return size_bytes

    def _put_in_place(self, copies: str, name: str, info: SnapshotInfo) -> None:
        """Make the copies the snapshot, in place of its old ones. Raises: OSError."""
        files, old, place = self._files, self._files_of(name), f"{self._snapshots}/{name}"
        new = min((name for name in FILES if name != old), key=lambda name: files.exists(f"{place}/{name}"))
        files.make_folder(place)
        # After this, the current `info` is safely on the disk, so the folder that it doesn't name may be removed.
        files.sync_folder(place)
        for folder in (self._snapshots, self._folder):
            files.sync_folder(folder)
        try:
            files.remove_folder(f"{place}/{new}")
            files.move(copies, f"{place}/{new}")
            for folder in (place, copies.rpartition("/")[0]):
                files.sync_folder(folder)
            kept = {**msgspec.to_builtins(info), "files": new}
            replace_state_file(files, f"{place}/info", msgspec.json.encode(kept))
        except OSError:
            if not files.exists(f"{place}/info"):
                drop(self._files, place)
            elif self._files_of(name) == old:
                drop(self._files, f"{place}/{new}")
            raise
        for each in files.list_folder(place):
            if each not in ("info", new):
                drop(self._files, f"{place}/{each}")

    def _files_of(self, name: str) -> str:
        """Return the folder with the copies of a snapshot; empty if there is none or it can't be read."""
        try:
            kept = self._read(name)
        except StorageError:
            return ""
        return "" if kept is None else kept.files


def _read_info(data: bytes) -> KeptInfo:
    info = msgspec.json.decode(data, type=SnapshotInfo)
    files = msgspec.json.decode(data, type=_Files).files
    if files not in FILES:
        raise ValueError(f"it has its files in {files!r}")
    return KeptInfo(info, files)


class _Files(msgspec.Struct):
    files: str = FILES[0]
    """Older versions have no other folder."""
