"""The broker's small state: topics, groups, offsets, progress. JSON files with RocketMQ's names, in `config/`.

A file is replaced as a whole: temporary file, fsync, rename. Changes made at the same moment share one write. A failed
write is retried with growing pauses. A file that refers to a log position is saved only after the log is safe up to
there; otherwise, after a power loss, it would refer to records that no longer exist. Each file has a checksum
(runtime/state_file.py). Nothing is saved before all files were read, so a refused start leaves them unchanged. If the
core of a broker ends and can't write a file, because its disk is full, for example, the next core gets the content.
RocketMQ: ConfigManager, BrokerPathConfigHelper.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from staticfire.protocol.errors import StorageError
from staticfire.runtime.folders import sync_folders_above
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine
from staticfire.runtime.state_file import read_state_file, replace_state_file

log = logger("broker")

TOPICS_FILE, GROUPS_FILE, OFFSETS_FILE = "topics.json", "subscriptionGroup.json", "consumerOffset.json"
MODES_FILE = "messageRequestMode.json"

# The first and the longest pause before a failed write is retried; it doubles each time.
RETRY_MS = 1_000
RETRY_MS_MAX = 30_000


class ConfigFiles:
    """Files that mirror tables in memory."""

    def __init__(
        self,
        machine: Machine,
        folder: str,
        sync_log: Callable[[], Awaitable[None]],
        unsaved: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """`sync_log` returns when everything stored before the call is safe. It raises StorageError.

        `unsaved`: what the last core of this broker could not write, by file. It is newer than the file.
        """
        self._machine = machine
        self._folder = folder
        self._sync_log = sync_log
        self._snapshots: dict[str, Callable[[], bytes]] = {}
        self._after_log: set[str] = set()
        self._private: set[str] = set()
        self._dirty: set[str] = set()
        self._failures: dict[str, StorageError] = {}
        self._known = unsaved
        self.unsaved: dict[str, bytes] = {}
        """What could not be written, by file."""
        self._saving: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._retry_ms = RETRY_MS
        # Whether the name of the folder itself is on the disk.
        self._is_named = False
        self._is_restored = False
        self._closed = False

    def restore(
        self,
        name: str,
        snapshot: Callable[[], bytes],
        restore: Callable[[bytes], None],
        after_log: bool = False,
        from_log: str = "",
        is_private: bool = False,
    ) -> bool:
        """Mirror a table in the file `name`, a JSON object; return whether the file existed.

        `after_log`: write a snapshot only after the log is safe up to its end at the time of the snapshot. `from_log`:
        the broker can work without the file, and this text describes what it reads from the log instead. If such a file
        is broken, that is logged, and it is written again. `is_private`: the file contains secrets: only its owner may
        read it.

        Raises: StorageError (the file is broken, and the broker needs it).
        """

        def read(data: bytes) -> bool:
            restore(data)
            return True

        try:
            if name in self._known:
                is_there = read(self._known[name])
            else:
                is_there = read_state_file(self._machine.files, f"{self._folder}/{name}", read) is not None
        except StorageError as error:
            if not from_log:
                raise
            log.error("state_file_made_anew", file=name, error=str(error), reason=from_log)
            self._dirty.add(name)
            is_there = False
        # Registered only now, so that a file that can't be read isn't overwritten at stop.
        self._snapshots[name] = snapshot
        if after_log:
            self._after_log.add(name)
        if is_private:
            self._private.add(name)
        return is_there

    def restored(self) -> None:
        """Start saving: all files that a start needs were read."""
        self._is_restored = True
        if self._dirty:
            self._start_saving()
        if self._known:  # Later: a core must begin also if its disk is still full.
            self._again = asyncio.get_running_loop().call_later(RETRY_MS / 1000, self._save_known)

    def _save_known(self) -> None:
        self._dirty |= self._known.keys() & self._snapshots.keys()
        self._start_saving()

    def changed(self, name: str) -> None:
        """Save the table soon: in this tick's write, off the event loop."""
        self._dirty.add(name)
        self._start_saving()

    def _start_saving(self) -> None:
        if self._saving is None and self._is_restored and not self._closed:
            self._dirty |= self._failures.keys()
            self._saving = asyncio.get_running_loop().create_task(self._save(), name="config_files")

    async def saved(self, *names: str) -> None:
        """Wait until these files, or all, contain everything changed so far. Raises: StorageError (impossible now)."""
        while self._saving is not None:
            await asyncio.shield(self._saving)
        for name, failure in self._failures.items():
            if name in names or not names:
                raise failure

    async def _save(self) -> None:
        try:
            while self._dirty:
                names = self._in_order(self._dirty)
                self._dirty.clear()
                for name in names:
                    await self._save_one(name)
        finally:
            self._saving = None
        if self._retry is not None:
            self._retry.cancel()
        if not self._failures:
            self._retry_ms = RETRY_MS
        elif not self._closed:
            self._retry = asyncio.get_running_loop().call_later(self._retry_ms / 1000, self._start_saving)
            self._retry_ms = min(2 * self._retry_ms, RETRY_MS_MAX)

    def _in_order(self, names: set[str]) -> list[str]:
        """Sort names: files that don't depend on the log come first, so that they needn't wait for its sync."""
        return sorted(names, key=lambda name: (name in self._after_log, name))

    async def _save_one(self, name: str) -> None:
        try:
            self.unsaved[name] = data = self._snapshots[name]()
            if name in self._after_log:
                await self._sync_log()
            await self._machine.workers.run(self._write, name, data)
            self._failures.pop(name, None)
            del self.unsaved[name]
        except StorageError as error:
            if str(error) != str(self._failures.get(name)):
                log.error("state_not_saved", file=name, error=str(error))
            self._failures[name] = error

    def _write(self, name: str, data: bytes) -> None:
        path = f"{self._folder}/{name}"
        try:
            replace_state_file(self._machine.files, path, data, is_private=name in self._private)
            if not self._is_named:
                sync_folders_above(self._machine.files, self._folder)
                self._is_named = True
        except OSError as error:
            raise StorageError(f"{path} can't be written: {error}") from None

    async def close(self) -> None:
        """Wait for a running write and save all files, unless a file couldn't be read.

        Raises: StorageError, after all were tried.
        """
        self._closed = True
        if not self._is_restored:
            return
        for timer in (self._retry, self._again):
            if timer is not None:
                timer.cancel()
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)
        for name in self._in_order(set(self._snapshots)):
            await self._save_one(name)
        for failure in self._failures.values():
            raise failure
