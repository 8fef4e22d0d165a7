"""Where queues ended when they were last written, so that a file of theirs that is lost, cut or zeroed is missed.

    <folder>/queueEnds    <checksum> [log position, {topic: {queue id: end offset}}]\\n    a line per flush round

A line has the queues that its round has written, and where the log ended when the round began. It is appended and
synced when their entries are safe, before the checkpoint. Later lines count more than earlier ones; of a topic that was
deleted only lines count that lie behind its deletion. When the file has grown to several times its size it is replaced
by one line with all that counts: so it is bounded by the number of queues, and a round costs what it has changed.

Invariants: entries of all offsets below an end are safe in the queue's files; a line that was synced is never lost by
what comes after it.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import msgspec

from staticfire.broker.store.sealed import seal, unseal
from staticfire.runtime.machine import Files

BYTES_MIN = 64 * 1024
# A smaller file isn't replaced.
GROWTH_MAX = 4
# So many times the size it had when it was replaced it may have.

Ends: TypeAlias = dict[str, dict[int, int]]
"""Topic -> queue id -> the offset behind its last entry."""


class RecordedEnds(NamedTuple):
    """What the file says."""

    ends: Ends
    log_position: int
    """Of its last line; -1: there is none."""
    is_damaged: bool
    """A line isn't as it was written, and it isn't the last."""
    is_stale: bool
    """There are lines that don't count any more, or a torn one at the end."""


_decoder = msgspec.json.Decoder(tuple[int, Ends])


class QueueEndsFile:
    """The file. One caller at a time; everything blocks."""

    def __init__(self, files: Files, path: str, deletions: Callable[[], dict[str, int]]) -> None:
        """`deletions`: topic -> where the log ended when it was deleted; asked in whatever thread calls."""
        self._files = files
        self._path = path
        self._deletions = deletions
        self._bytes = -1
        # So much of the file is known to be whole lines on the disk; -1: the next line replaces it.
        self._replaced_bytes = 0
        self.log_position = -1
        """Of the last line; -1: there is none."""

    def read(self, deletions: dict[str, int]) -> RecordedEnds:
        """Return what there is. Raises: OSError."""
        try:
            data = self._files.read_bytes(self._path)
        except FileNotFoundError:
            data = b""
        recorded = _fold(data, deletions)
        self.log_position = recorded.log_position
        self._bytes = len(data) if data and not (recorded.is_damaged or recorded.is_stale) else -1
        self._replaced_bytes = len(data) // GROWTH_MAX  # Perhaps less, so a large file is replaced soon after a start.
        return recorded

    def append(self, log_position: int, ends: Ends) -> None:
        """Add a line, and return when it is on the disk. Raises: OSError (the next one replaces the file then)."""
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
        """Let the file say this and nothing else. Raises: OSError."""
        line = _line(log_position, ends)
        self._files.replace(self._path, line)
        self._bytes = self._replaced_bytes = len(line)
        self.log_position = log_position


def _line(log_position: int, ends: Ends) -> bytes:
    return seal(msgspec.json.encode((log_position, ends))) + b"\n"


def _fold(data: bytes, deletions: dict[str, int]) -> RecordedEnds:
    """Put all lines together."""
    ends: Ends = {}
    last_position, is_torn, is_damaged, is_stale = -1, False, False, False
    *lines, rest = data.split(b"\n")
    for line in lines:
        try:
            log_position, changed = _decoder.decode(unseal(line))
        except (msgspec.DecodeError, ValueError):
            is_torn = True
            continue
        is_damaged |= is_torn  # What was torn is the last that was written.
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
