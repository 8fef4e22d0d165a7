"""Restores a snapshot: which copies replace the broker's current data, also after a kill halfway.

    <folder>/restoring/files/...             copies that are about to be moved into place
    <folder>/restoring/plan                  their names; written when all of them exist
    <folder>/restoring/before/...            what they replace, until all of them are in place

A snapshot is copied next to the current data, then the plan is written, then the current data is moved aside, then each
name is moved into place. Until the plan exists, nothing has changed. From then on `finish` carries it out, at the next
start if necessary. So after a kill the broker is as before, or as in the snapshot. If the current data can't be moved
aside, it is moved back. No core of the broker uses the folder while a plan exists: what it stored would be lost when
the plan is carried out.
"""

from contextlib import suppress

import msgspec

from staticfire.broker.clock.message_clock import FILE as CLOCK_FILE
from staticfire.broker.store.cutting import STORE_NAMES
from staticfire.protocol.errors import StorageError, os_words
from staticfire.runtime.machine import Files
from staticfire.runtime.state_file import read_state_file, replace_state_file

RESTORING = "restoring"
# The files and folders that belong to a snapshot.
OWN_NAMES = (*sorted(STORE_NAMES), "config")


class RestorePlan:
    """Restores one snapshot of a broker. Everything blocks. `put_back` and `finish` need the broker's files closed."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._restoring = f"{folder}/{RESTORING}"
        self._staged = f"{self._restoring}/files"
        self._before = f"{self._restoring}/before"
        self._plan = f"{self._restoring}/plan"

    def stage(self, source: str, name: str) -> None:
        """Copy a snapshot, whose copies are in a folder, next to the current data. Raises: StorageError."""
        self.require_none()
        for each in self._files.list_folder(f"{source}/config"):
            read_state_file(
                self._files, f"{source}/config/{each}", bytes, "nothing was changed; this snapshot can't be restored"
            )
        try:
            self._files.remove_folder(self._restoring)
            self._files.make_folder(self._staged)
            copy_own(self._files, source, self._staged)  # Older versions also saved files that aren't the broker's.
        except OSError as error:
            drop(self._files, self._restoring)
            raise StorageError(f"the snapshot {name} can't be restored: {os_words(error)}") from error

    def put_back(self) -> None:
        """Replace the current data by the staged copies. Raises: StorageError.

        After an error nothing has changed, unless `is_partly_restored`.
        """
        files, staged = self._files, self._staged
        try:
            clock, names = f"{self._folder}/config/{CLOCK_FILE}", own_in(self._files, staged)
            if files.exists(clock):
                files.copy(clock, f"{staged}/config/{CLOCK_FILE}")
            files.make_folder(self._before)
            for folder in (f"{staged}/config", staged, self._restoring, self._folder):
                files.sync_folder(folder)
            replace_state_file(files, self._plan, msgspec.json.encode({"names": names}))
            self._set_aside(names)
        except OSError as error:
            self._take_back()
            raise StorageError(f"the snapshot can't be restored: {os_words(error)}; nothing was changed") from error
        self.finish()

    def is_partly_restored(self) -> bool:
        """Whether a snapshot is being restored, and its files may be in place only partly."""
        return self._files.exists(self._plan)

    def require_none(self) -> None:
        """Raise StorageError if a snapshot is partly restored: its copies and the data before it must be kept."""
        if self.is_partly_restored():
            words = f"a snapshot is only partly restored in {self._folder}"
            raise StorageError(f"{words}: restart the broker to complete it")

    def finish(self) -> bool:
        """Carry out the plan, if there is one; return whether there was. Raises: StorageError."""
        files = self._files
        names = read_state_file(files, self._plan, _read_plan, f"restore {self._folder} from a copy")
        if names is None:
            return False
        if not files.exists(self._staged):
            drop(self._files, self._restoring)  # The plan was carried out, but has reappeared after a power loss.
            return False
        try:
            self._set_aside(names)
            for name in names:
                # A plan of an older version may have names that aren't the broker's. They don't replace anything.
                if files.exists(f"{self._staged}/{name}") and not files.exists(f"{self._folder}/{name}"):
                    files.move(f"{self._staged}/{name}", f"{self._folder}/{name}")
            files.sync_folder(self._folder)
            self._remove_plan()
        except OSError as error:
            raise self._partly(error) from error
        drop(self._files, self._restoring)
        return True

    def _set_aside(self, names: list[str]) -> None:
        """Move the data that the plan replaces or removes to the folder `before`. Raises: OSError."""
        self._files.make_folder(self._before)
        for name in own_in(self._files, self._folder):
            if name not in names or self._files.exists(f"{self._staged}/{name}"):
                self._remove(f"{self._before}/{name}")
                self._files.move(f"{self._folder}/{name}", f"{self._before}/{name}")

    def _take_back(self) -> None:
        """Move the data back that was moved aside, and forget the plan. Raises: StorageError (it remains partly)."""
        if self.is_partly_restored():
            try:
                for name in own_in(self._files, self._before):
                    self._files.move(f"{self._before}/{name}", f"{self._folder}/{name}")
                self._files.sync_folder(self._folder)
                self._remove_plan()
            except OSError as error:
                raise self._partly(error) from error
        drop(self._files, self._restoring)

    def _remove_plan(self) -> None:
        """Remove the plan, before anything that belongs to it. Raises: OSError."""
        self._files.remove(self._plan)
        with suppress(OSError):  # If it reappears after a power loss, `finish` recognizes it.
            self._files.sync_folder(self._restoring)

    def _partly(self, error: OSError) -> StorageError:
        words = f"a snapshot is only partly restored in {self._folder}: {os_words(error)}"
        return StorageError(f"{words}; restart the broker to complete it")

    def _remove(self, path: str) -> None:
        self._files.remove_folder(path)
        if self._files.exists(path):
            self._files.remove(path)


def copy_own(files: Files, source: str, target: str) -> int:
    """Copy what belongs to a snapshot from a folder to another; return the number of bytes. Raises: OSError."""
    return sum(files.copy(f"{source}/{name}", f"{target}/{name}") for name in own_in(files, source))


def own_in(files: Files, folder: str) -> list[str]:
    """Return the names of the files and folders in a folder that belong to a snapshot."""
    return [name for name in OWN_NAMES if files.exists(f"{folder}/{name}")]


def drop(files: Files, folder: str) -> None:
    """Remove a folder that nothing needs; after an error, the next save or restore removes it."""
    with suppress(OSError):
        files.remove_folder(folder)


def _read_plan(data: bytes) -> list[str]:
    if data[:1] == b"{":
        return msgspec.json.decode(data, type=_PutBackPlan).names
    return msgspec.json.decode(data, type=list[str])


class _PutBackPlan(msgspec.Struct):
    """The content of the plan. Older versions wrote only the list of names."""

    names: list[str]
