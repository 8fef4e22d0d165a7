"""The broker's small state: topics, groups, offsets, progress. JSON files under RocketMQ's names, in `config/`.

A file is replaced as a whole: temporary file, fsync, rename. Changes of one moment share one write. RocketMQ:
ConfigManager, BrokerPathConfigHelper.
"""

import asyncio
from collections.abc import Callable

import msgspec

from staticfire.protocol.errors import StorageError
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Machine

log = logger("broker")


class ConfigFiles:
    """Files that mirror tables in memory."""

    def __init__(self, machine: Machine, folder: str) -> None:
        self._machine = machine
        self._folder = folder
        self._snapshots: dict[str, Callable[[], bytes]] = {}
        self._dirty: set[str] = set()
        self._saving: asyncio.Task[None] | None = None
        self._failure: StorageError | None = None
        self._closed = False

    def restore(self, name: str, snapshot: Callable[[], bytes], restore: Callable[[bytes], None]) -> bool:
        """Mirror a table in `name`; return whether it was there before. Raises: StorageError for a broken file."""
        path = f"{self._folder}/{name}"
        if not self._machine.files.exists(path):
            self._snapshots[name] = snapshot
            return False
        try:
            restore(self._machine.files.read_bytes(path))
        except (msgspec.MsgspecError, UnicodeDecodeError, OSError) as error:
            raise StorageError(
                f"{path} can't be read: {error}; repair it, or move it away to start without it"
            ) from None
        self._snapshots[name] = snapshot  # from now on: a file that can't be read isn't written over at stop
        return True

    def changed(self, name: str) -> None:
        """Save the table soon: in this tick's write, off the event loop."""
        self._dirty.add(name)
        if self._saving is None and not self._closed:
            self._saving = asyncio.get_running_loop().create_task(self._save(), name="config_files")

    async def saved(self) -> None:
        """Return when everything changed so far is on the disk. Raises: StorageError when that isn't possible now."""
        while self._saving is not None:
            await asyncio.shield(self._saving)
        if self._failure is not None:
            raise self._failure

    async def _save(self) -> None:
        """Write what is dirty; what can't be written stays dirty and goes with the next change, or at the end."""
        try:
            while self._dirty:
                names = sorted(self._dirty)
                self._dirty.clear()
                self._failure = None
                for name in names:
                    await self._machine.workers.run(self._write, name, self._snapshots[name]())
        except StorageError as error:
            self._failure = error
            log.error("state_not_saved", error=str(error))
        finally:
            self._saving = None

    def _write(self, name: str, data: bytes) -> None:
        path = f"{self._folder}/{name}"
        try:
            self._machine.files.replace(path, data)
        except OSError as error:
            self._dirty.add(name)
            raise StorageError(f"{path} can't be written: {error}") from None

    async def close(self) -> None:
        """Wait for what is under way and write what is left."""
        self._closed = True
        if self._saving is not None:
            await asyncio.gather(self._saving, return_exceptions=True)
        for name, snapshot in self._snapshots.items():
            await self._machine.workers.run(self._write, name, snapshot())
