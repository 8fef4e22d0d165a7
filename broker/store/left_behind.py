"""What the last process left, as far as it can be seen without reading the log: state files and file names.

Log files below the checkpoint that are missing, cut or zeroed are reported. Nothing is changed: readers skip the
missing part, and if the file is put back before the next start, all its messages are available again. Everything after
the checkpoint is checked byte by byte (recovery.py).
"""

import errno
from typing import NamedTuple

from staticfire.broker.store.commit_log import CommitLog
from staticfire.broker.store.queue_table import QueueTable
from staticfire.broker.store.segments import Segment, Segments
from staticfire.broker.store.state_files import Checkpoint, InUse, StateFiles
from staticfire.protocol.record import BLANK_BYTES_MIN
from staticfire.runtime.machine import Files

WAY_OUT = "to get them back, stop the broker and put the file back"
_POSITION_AT = 19


class LeftBehind(NamedTuple):
    """The knowledge about a store before its log is read."""

    in_use: InUse | None
    now_in_use: InUse
    checkpoint: Checkpoint | None
    """The checkpoint, if there are queues that it can refer to."""
    claimed: Checkpoint
    """The content of the checkpoint; without one, what else is known about the log."""

    has_checkpoint: bool
    """There is always a checkpoint, unless it was lost. In that case `claimed` may claim too little."""

    deleted_topics: dict[str, int]
    log_start: int | None
    """Where the log was to begin; -1: nothing was removed yet; None: unknown."""
    lost_files: list[str]
    """The log files that are missing or damaged, as readable text."""

    def explains_holes_at(self, position: int) -> bool:
        """Tell whether holes from there on are no damage, because the disk had not confirmed those bytes as safe.

        Such bytes are lost at a power loss, or after a failed fsync, when the memory is needed for something else.
        """
        is_known = self.in_use is not None and (self.has_checkpoint or self.has_lost_power)
        return is_known and 0 <= self.claimed.synced_position <= position

    @property
    def has_lost_power(self) -> bool:
        """Whether the machine went down after the last process had begun."""
        in_use = self.in_use
        return in_use is not None and (not in_use.boot_id or in_use.boot_id != self.now_in_use.boot_id)


def look(files: Files, log: CommitLog, queues: QueueTable, state: StateFiles) -> LeftBehind:
    """Determine what the last process left. Raises: OSError, StorageError."""
    segments = log.segments
    in_use = state.read_in_use()
    segments.load()
    segments.pinned_position = 1 << 63  # Nothing is being synced: any segment may be closed.
    deleted_topics = state.read_deleted_topics()
    has_queues = queues.open(deleted_topics)
    checkpoint = state.read_checkpoint()
    if checkpoint is not None:
        synced = checkpoint.synced_position
    elif in_use is not None:
        synced = in_use.synced_position
    else:
        synced = -1 if segments.all else 0
    known = LeftBehind(
        in_use,
        InUse(files.boot_id(), synced),
        checkpoint if has_queues else None,
        checkpoint or Checkpoint(synced_position=synced),
        checkpoint is not None,
        deleted_topics,
        state.read_log_start(),
        [],
    )
    return known._replace(lost_files=_look_at_files(files, segments, known))


def _look_at_files(files: Files, segments: Segments, known: LeftBehind) -> list[str]:
    """Determine where the log begins, and which files are missing below the checkpoint. Raises: OSError."""
    lost, checkpoint, log_start = [], known.claimed, known.log_start
    if log_start is None:
        lost.append("logStart can't be read: it is unknown whether the first files of the log are missing")
    elif known.has_lost_power and log_start > segments.min_position:
        segments.remove_before(log_start)  # These files were removed, and their names came back with the power loss.
    if known.has_checkpoint and checkpoint.log_start >= 0:
        below = checkpoint.dispatched_position
        if log_start is not None and checkpoint.knows_log_start:
            lost += _missing_start(segments, max(log_start, checkpoint.log_start), below)
        lost += _damaged_files(files, segments, min(below, checkpoint.synced_position))
        # Retention removes nothing that the checkpoint doesn't cover. If the log begins after the checkpoint, a power
        # loss took its first segments before anything in them was safe. The remaining records follow a gap.
        segments.begin_at(below)
    return lost


def _missing_start(segments: Segments, log_start: int, below: int) -> list[str]:
    """Report a log that begins later than it should; below `below` everything was safe."""
    if not segments.all or not 0 <= log_start < segments.all[0].start <= below:
        return []
    start = segments.all[0].start
    return [
        f"{segments.path(log_start)} is missing: the log began at {log_start} and begins at {start} now, the messages "
        f"in between are missing; {WAY_OUT}"
    ]


def _damaged_files(files: Files, segments: Segments, below: int) -> list[str]:
    """Report incomplete segments that end at or below a position. Raises: OSError."""
    return [
        f"{segment.path} {fault}, some of its messages are missing; {WAY_OUT}"
        for segment in segments.all[:-1]
        if segment.end <= below and (fault := _fault(files, segment))
    ]


def _fault(files: Files, segment: Segment) -> str:
    """Return the problem of a segment file that another one follows; "" if there is none."""
    try:
        last = files.read_part(segment.path, segment.end - segment.start - 1, 1)
        head = files.read_part(segment.path, 0, BLANK_BYTES_MIN)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return "can't be read"
    if not last:
        return "is cut short, or the files after it are missing"
    if not any(head):
        return "begins with nothing but zeros"
    position = int.from_bytes(head[_POSITION_AT:], "big", signed=True)
    return "" if position == segment.start else f"doesn't begin with the record at {segment.start}"
