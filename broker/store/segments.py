"""The files of the commit log: segments, named by the log position of their first byte in 20 digits.

    <folder>/00000000000000000000    records ... blank
    <folder>/00000000000067108864    records ... unused

Invariants: there are no gaps between segments, each one ends where the next begins; each begins with a record; only the
last one is written to. At most `segments_open_max` segments are open at once. Unsynced ones are always kept open.
"""

from bisect import bisect_right

from staticfire.protocol.errors import StorageError
from staticfire.runtime.folders import sync_folders_above
from staticfire.runtime.machine import File, Files

SEGMENT_NAME_DIGITS = 20
# The largest start of a segment. Its end still fits into 64 bits.
POSITION_MAX = (1 << 62) - 1


class Segment:
    """One file of the log, from `start` up to `end` (not included)."""

    __slots__ = ("end", "file", "path", "start")

    def __init__(self, path: str, start: int, end: int) -> None:
        self.path = path
        self.start = start
        self.end = end
        self.file: File | None = None


class Segments:
    """All segments of a log, in order."""

    def __init__(self, files: Files, folder: str, segment_bytes_max: int, open_max: int) -> None:
        self._files = files
        self._folder = folder
        self._segment_bytes_max = segment_bytes_max
        self._open_max = open_max
        self._open: dict[Segment, None] = {}
        self._starts: list[int] = []
        self.all: list[Segment] = []
        self.min_position = 0
        """The position of the oldest record that still exists."""
        self.pinned_position = 0
        """Segments that end above this position are kept open, because a worker may be syncing them."""
        self.names = 1
        """The number of changes to file names in the folder. The first counts what an earlier process left unsynced."""
        self.synced_names = 0
        """How many of these changes are synced."""

    def load(self) -> None:
        """Find the existing segments. Raises: OSError."""
        self._files.make_folder(self._folder)
        names = self._files.list_folder(self._folder)
        starts = [int(name) for name in names if len(name) == SEGMENT_NAME_DIGITS and name.isdecimal()]
        if starts and starts[-1] > POSITION_MAX:
            raise StorageError(
                f"{self.path(starts[-1])} is not a segment of a log, its number is too large: move it away"
            )
        self.all = [Segment(self.path(start), start, end) for start, end in zip(starts, [*starts[1:], 0], strict=False)]
        if self.all:
            last = self.all[-1]
            last.end = last.start + max(self._segment_bytes_max, self._written_bytes(last))
        self._note_starts()

    def _written_bytes(self, segment: Segment) -> int:
        # The store may have been written with larger segments.
        file = self._files.open(segment.path)
        try:
            return file.size()
        finally:
            file.close()

    def path(self, start: int) -> str:
        """Return the path of the segment that begins at a position."""
        return f"{self._folder}/{start:0{SEGMENT_NAME_DIGITS}d}"

    def _note_starts(self) -> None:
        self._starts = [segment.start for segment in self.all]
        if self._starts:
            self.min_position = self._starts[0]

    @property
    def last(self) -> Segment:
        """The segment that is written to."""
        return self.all[-1]

    def at(self, position: int) -> Segment | None:
        """Return the segment that contains a position."""
        index = bisect_right(self._starts, position) - 1
        if index < 0 or position >= self.all[index].end:
            return None
        return self.all[index]

    def sync_names(self) -> None:
        """Sync the names of all segments, and the removal of old ones, to the disk. Raises: OSError."""
        if self.synced_names < self.names:
            names = self.names
            self._files.sync_folder(self._folder)
            if not self.synced_names:
                sync_folders_above(self._files, self._folder)
            self.synced_names = max(names, self.synced_names)

    def create(self, start: int, end: int = 0) -> Segment:
        """Create and open a new last segment. It has the usual size unless `end` is given. Raises: OSError."""
        segment = Segment(self.path(start), start, end or start + self._segment_bytes_max)
        self.names += 1
        self.file_of(segment)
        self.all.append(segment)
        self._note_starts()
        return segment

    def end_at(self, position: int, end: int) -> None:
        """Let the last segment end at `end`, if `position` is in it.

        An existing one has another end if it was cut and loaded since it was created. It must not be synced meanwhile.
        """
        segment = self.at(position)
        if segment is not None and segment.end != end and segment is self.last:
            self._close(segment)
            segment.end = end

    def begin_at(self, position: int) -> None:
        """Put an empty segment before the first one, if that begins after `position`. Raises: OSError."""
        if self.all and self.all[0].start > position:
            self.names += 1
            self.all.insert(0, Segment(self.path(position), position, self.all[0].start))
            self._note_starts()

    def file_of(self, segment: Segment) -> File:
        """Return the open file of a segment. If too many are open, close the one opened first. Raises: OSError."""
        if segment.file is not None:
            return segment.file
        segment.file = self._files.open(segment.path, map_bytes=segment.end - segment.start)
        self._open[segment] = None
        if len(self._open) > self._open_max:
            idle = next((one for one in self._open if one.end <= self.pinned_position and one is not segment), None)
            if idle is not None:
                self._close(idle)
        return segment.file

    def _close(self, segment: Segment) -> None:
        if segment.file is not None:
            segment.file.close()
            segment.file = None
            self._open.pop(segment, None)

    def cut(self, position: int) -> None:
        """Remove everything from `position` on. Raises: OSError.

        Afterwards no stale byte can be taken for a record, not even after a power loss.
        """
        if not self.all:
            return
        while len(self.all) > 1 and self.last.start >= position:
            self._remove(self.all.pop())
        self._note_starts()
        last = self.last
        self.file_of(last).truncate(max(0, position - last.start))
        self.file_of(last).sync()
        self.sync_names()

    def start_without(self, position: int) -> int:
        """Return where the log would begin after `remove_before`."""
        return next((segment.start for segment in self.all if segment.end > position), self.last.start)

    def remove_before(self, position: int) -> int:
        """Remove the segments that end at or below `position`, never the last; return their number. Raises: OSError."""
        removed = 0
        while len(self.all) > 1 and self.all[0].end <= position:
            # Sync each removal first: if a power loss brought back only the older one of two segments, the log would
            # have a gap.
            self.sync_names()
            self._remove(self.all[0])
            del self.all[0]
            removed += 1
            self._note_starts()
        return removed

    def _remove(self, segment: Segment) -> None:
        self._close(segment)
        self._files.remove(segment.path)
        self.names += 1

    def close(self) -> None:
        """Close all files."""
        for segment in list(self._open):
            self._close(segment)
