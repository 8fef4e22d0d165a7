"""The small files next to the log: how far the queues are complete, which topics were deleted, whether it is in use.

    <folder>/checkpoint       how far log and queues are safe: where recovery begins
    <folder>/deletedTopics    topic -> where the log ended when its queues were removed: older records are ignored
    <folder>/logStart         where the log begins; exists once segments were removed
    <folder>/hole             where a recovery has blanked out a lost part of the log; exists until the broker knows it
    <folder>/abort            exists while the store is open (RocketMQ: abort); contains the machine's boot id
    <folder>/queueEnds        end offsets of queues: queue_ends.py

Invariants: each file but the last is replaced atomically; the checkpoint never claims more than was synced; logStart is
written before a segment is removed. All files carry a checksum (sealed.py). Older versions wrote bare JSON, which is
accepted.
"""

import errno
from typing import NamedTuple

import msgspec

from staticfire.broker.store.formats import FORMAT
from staticfire.broker.store.outcomes import NotForGood
from staticfire.broker.store.queue_ends import QueueEndsFile
from staticfire.broker.store.sealed import seal, unseal
from staticfire.protocol.errors import StorageError
from staticfire.protocol.numbers import INT64_MAX, LogPosition
from staticfire.runtime.machine import Files


class Checkpoint(NamedTuple):
    """Up to where log and queues are safe. RocketMQ: StoreCheckpoint."""

    dispatched_position: int = 0
    """The queues' files safely contain the entries of all records below this position."""
    synced_position: int = 0
    """The log itself is safe up to here; -1: unknown."""
    last_stored_ms: int = 0
    last_position: int = -1
    """The position of the record that ends at `dispatched_position`: it proves that this is a record boundary."""
    queue_file_entries: int = 0
    log_start: int = -1
    """Where the log began; -1: unknown, written by an older version."""
    ends_position: int = -2
    """The log position of the last line of queueEnds, so that a lost line is noticed.

    -1: there is none; -2: written by an older version, which had neither queueEnds nor logStart.
    """
    format: int = 0
    """The format of all files in the folder: formats.py. 0: written by an older version."""

    @property
    def knows_log_start(self) -> bool:
        """Whether this and logStart cover all removals of segments."""
        return self.ends_position > -2 and self.log_start >= 0


class InUse(NamedTuple):
    """A note of the process that has or had the store open."""

    boot_id: str
    """The boot id of the machine; empty: unknown. Within the same boot everything written is still there."""
    synced_position: int
    """How far the log was safe when it was opened; -1: unknown."""


_in_use_decoder = msgspec.json.Decoder(InUse)
_checkpoint_decoder = msgspec.json.Decoder(Checkpoint)
_deleted_decoder = msgspec.json.Decoder(dict[str, LogPosition])
_position_decoder = msgspec.json.Decoder(LogPosition)
_UNREADABLE = (msgspec.DecodeError, ValueError, RecursionError)


class StateFiles:
    """Reads and replaces the state files."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = folder
        self._checkpoint = f"{folder}/checkpoint"
        self._deleted = f"{folder}/deletedTopics"
        self._log_start = f"{folder}/logStart"
        self._hole = f"{folder}/hole"
        self._abort = f"{folder}/abort"
        self.deleted_topics: dict[str, int] = {}
        """The table that was last read, or last written."""
        self.ends = QueueEndsFile(files, f"{folder}/queueEnds", lambda: self.deleted_topics)

    def read_checkpoint(self) -> Checkpoint | None:
        """Return the checkpoint; None if it is missing or unreadable. Everything is rebuilt in that case."""
        try:
            checkpoint = _checkpoint_decoder.decode(self._read(self._checkpoint))
        except (FileNotFoundError, *_UNREADABLE):
            return None
        # -2 is a valid value of older versions.
        positions = checkpoint._replace(ends_position=max(checkpoint.ends_position, -1))
        is_possible = all(-1 <= number <= INT64_MAX for number in positions) and checkpoint.dispatched_position >= 0
        return checkpoint if is_possible else None

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint. Blocks. Raises: OSError."""
        self._files.replace(self._checkpoint, seal(msgspec.json.encode(checkpoint._replace(format=FORMAT))))

    def read_deleted_topics(self) -> dict[str, int]:
        """Return topic -> log position of its deletion. Raises: StorageError."""
        try:
            self.deleted_topics = _deleted_decoder.decode(self._read(self._deleted))
        except FileNotFoundError:
            self.deleted_topics = {}
        except _UNREADABLE as error:
            raise StorageError(
                f"{self._deleted} can't be read ({error}); without it the messages of deleted topics reappear: repair "
                "it, or remove it if that doesn't matter"
            ) from error
        return self.deleted_topics

    def write_deleted_topics(self, deleted: dict[str, int]) -> None:
        """Replace the table of deleted topics. Blocks.

        Raises: OSError (the table is unchanged), NotForGood (it was replaced, but perhaps not on the disk).
        """
        data = seal(msgspec.json.encode(deleted))
        try:
            self._files.replace(self._deleted, data)
        except OSError as error:
            if not self._has(self._deleted, data):
                raise
            self.deleted_topics = deleted
            raise NotForGood(f"{self._deleted} was written, but the disk didn't confirm it: {error}") from error
        self.deleted_topics = deleted

    def _has(self, path: str, data: bytes) -> bool:
        """Tell whether a file contains this data; True if it can't be read."""
        try:
            return self._files.read_bytes(path) == data
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def read_log_start(self) -> int | None:
        """Return where the log begins; -1 if no segment was removed yet, None if unknown. Raises: OSError."""
        try:
            return _position_decoder.decode(self._read(self._log_start))
        except FileNotFoundError:
            return -1
        except _UNREADABLE:
            return None

    def write_log_start(self, position: int) -> None:
        """Save where the log is about to begin. Blocks. Raises: OSError."""
        self._files.replace(self._log_start, seal(msgspec.json.encode(position)))

    def read_hole(self) -> int:
        """Return where the log lost a part that was blanked out, and the broker may not know it; -1: nowhere."""
        try:
            return _position_decoder.decode(self._read(self._hole))
        except FileNotFoundError:
            return -1
        except _UNREADABLE:
            return 0  # Anywhere.

    def write_hole(self, position: int) -> None:
        """Save where a part of the log is about to be blanked out. Blocks. Raises: OSError."""
        known = self.read_hole()
        self._files.replace(self._hole, seal(msgspec.json.encode(position if known < 0 else min(known, position))))

    def forget_hole(self) -> None:
        """Forget it: the broker knows it. Blocks. Raises: OSError."""
        self._files.remove(self._hole)

    def _read(self, path: str) -> bytes:
        """Return the content of a file. Raises: FileNotFoundError, OSError, ValueError (it was changed or cut)."""
        data = self._files.read_bytes(path)
        return data if data[:1] in (b"[", b"{") else unseal(data)

    def read_in_use(self) -> InUse | None:
        """Return the note of a process that never closed the store; None if the last process closed it."""
        if not self._files.exists(self._abort):
            return None
        try:
            in_use = _in_use_decoder.decode(self._read(self._abort))
        except (FileNotFoundError, *_UNREADABLE):
            return InUse("", -1)
        return in_use if -1 <= in_use.synced_position <= INT64_MAX else InUse("", -1)

    def mark_in_use(self, in_use: InUse) -> None:
        """Write the abort marker. Raises: OSError."""
        try:
            self._files.replace(self._abort, seal(msgspec.json.encode(in_use)))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._files.replace(self._abort, b"")  # Even a full disk has room for an empty file.

    def mark_closed(self) -> None:
        """Remove the abort marker. Raises: OSError."""
        self._files.remove(self._abort)
        self._files.sync_folder(self._folder)
