"""The end offsets of queues when they were last written, so that a lost, cut or zeroed file is noticed.

    <folder>/queueEnds    <checksum> [log position, {topic: {queue id: end offset}}]\\n    a line per flush round

A line contains the queues written by its round, and the position where the log ended when the round began. It is
appended and synced after the entries are safe, before the checkpoint. Later lines override earlier ones. For a deleted
topic, only lines after its deletion count. If the file has grown to several times its size, it is replaced by a single
line with all valid ends. So its size is bounded by the number of queues, and a round costs only what it has changed.

Invariants: entries of all offsets below an end are safe in the queue's files; a synced line is never lost by a later
write.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from staticfire.broker.store.sealed import seal, unseal
from staticfire.runtime.machine import Files

# A smaller file isn't replaced.
BYTES_MIN = 64 * 1024
# The file is replaced when it has this multiple of its size after the last replacement.
GROWTH_MAX = 4

Ends: TypeAlias = dict[str, dict[int, int]]
"""Topic -> queue id -> the offset after its last entry."""


class RecordedEnds(NamedTuple):
    """The content of the file."""

    ends: Ends
    log_position: int
    """The log position of the last line; -1: there is none."""
    is_damaged: bool
    """Whether a line other than the last one is damaged."""
    is_stale: bool
    """Whether some lines don't count any more, or the last one is torn."""


_decoder = msgspec.json.Decoder(tuple[int, Ends])


class QueueEndsFile:
    """The file. It has one caller at a time; everything blocks."""

    def __init__(self, files: Files, path: str, deletions: Callable[[], dict[str, int]]) -> None:
        """`deletions`: topic -> where the log ended when it was deleted. It is called in the caller's thread."""
        self._files = files
        self._path = path
        self._deletions = deletions
        # The size up to which the file is known to contain whole, synced lines; -1: the next line replaces the file.
        self._bytes = -1
        self._replaced_bytes = 0
        self.log_position = -1
        """The log position of the last line; -1: there is none."""

    def read(self, deletions: dict[str, int]) -> RecordedEnds:
        """Read the file. Raises: OSError."""
        try:
            data = self._files.read_bytes(self._path)
        except FileNotFoundError:
            data = b""
        recorded = _fold(data, deletions)
        self.log_position = recorded.log_position
        self._bytes = len(data) if data and not (recorded.is_damaged or recorded.is_stale) else -1
        # The real size may have been larger. A smaller value here only means that a large file is replaced sooner.
        self._replaced_bytes = len(data) // GROWTH_MAX
        return recorded

    def append(self, log_position: int, ends: Ends) -> None:
        """Add a line and sync it. Raises: OSError (the next call replaces the file then)."""
        line = _line(log_position, ends)
        whole_bytes = self._bytes
        if whole_bytes < 0 or whole_bytes + len(line) > max(BYTES_MIN, GROWTH_MAX * self._replaced_bytes):
            known = self.read(self._deletions()).ends
            _update(known, ends)
            self.replace(log_position, known)
            return
        self._bytes = -1
        file = self._files.open(self._path)
        try:
            file.write(whole_bytes, line)
            file.sync()
        finally:
            file.close()
        self._bytes = whole_bytes + len(line)
        self.log_position = log_position

    def replace(self, log_position: int, ends: Ends) -> None:
        """Replace the content of the file by this one line. Raises: OSError."""
        line = _line(log_position, ends)
        self._files.replace(self._path, line)
        self._bytes = self._replaced_bytes = len(line)
        self.log_position = log_position


def _line(log_position: int, ends: Ends) -> bytes:
    return seal(msgspec.json.encode((log_position, ends))) + b"\n"


def _fold(data: bytes, deletions: dict[str, int]) -> RecordedEnds:
    """Merge all lines."""
    ends: Ends = {}
    last_position, is_torn, is_damaged, is_stale = -1, False, False, False
    *lines, rest = data.split(b"\n")
    for line in lines:
        try:
            log_position, changed = _decoder.decode(unseal(line))
        except (msgspec.DecodeError, ValueError):
            is_torn = True
            continue
        is_damaged |= is_torn  # A torn write can only be the last line: this one follows, so it was damage.
        for topic in changed.keys() & deletions.keys() if deletions else ():
            if log_position <= deletions[topic]:
                is_stale = True
                del changed[topic]
        last_position = log_position
        if ends:
            _update(ends, changed)
        else:
            ends = changed
    return RecordedEnds(ends, last_position, is_damaged, is_stale or is_torn or bool(rest))


def _update(ends: Ends, later: Ends) -> None:
    for topic, queues in later.items():
        known = ends.get(topic)
        if known is None:
            ends[topic] = queues
        else:
            known.update(queues)
