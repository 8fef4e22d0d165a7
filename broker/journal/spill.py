"""Spill files: chunks that a ring has no room for are written to bounded files in `<store>/journal`. The oldest files
are removed first.

    u32 length | msgpack [first_number, face, entries]        one chunk, repeated

The entries are written in msgpack, as they were noted; an index of the chunks, with their checksums, is in memory. A
journal begins with the start of its broker, so older files are removed then. Writing and reading block, so they are
done in workers. If the disk fails, the chunk is lost, and that is logged once. A damaged chunk is logged when it is
read, and left out.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from staticfire.broker.journal.events import Noted
from staticfire.broker.journal.reading import ChunkContents, contents_of
from staticfire.broker.journal.ring import NotedChunk
from staticfire.protocol.checksums import crc32
from staticfire.protocol.clock_face import ClockFace
from staticfire.runtime.log import logger
from staticfire.runtime.machine import File, Files

log = logger("broker")

NAME = "events"
# This many files share the allowed bytes, so that the oldest quarter is removed at once.
FILES = 4
# How many entries may wait to be written. If there are more, the disk is too slow, and the oldest ones are dropped.
PENDING_MAX = 32_768

_HEAD_BYTES = 4
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, ClockFace, list[Noted]]).decode


class SpilledChunk(msgspec.Struct, gc=False, frozen=True):
    """The place of a chunk in a file."""

    first_number: int
    next_number: int
    path: str
    position: int
    size: int
    crc: int
    contents: ChunkContents


class JournalSpill:
    """The spill files of the events."""

    def __init__(self, files: Files, folder: str, bytes_max: int) -> None:
        """`bytes_max`: the limit for all files together; 0: nothing is kept."""
        self._files = files
        self._folder = folder
        self._bytes_max = bytes_max
        self._pending: deque[NotedChunk] = deque()
        # The number of entries in `_pending`.
        self._pending_count = 0
        self._writing: NotedChunk | None = None
        self._index: deque[SpilledChunk] = deque()
        self._file: File | None = None
        self._path = ""
        self._size = 0
        self._file_number = 0
        self._trouble = ""

    def open(self) -> None:
        """Remove the files of an earlier process. Blocks. Raises: OSError."""
        for name in self._files.list_folder(self._folder):
            if name.startswith(NAME):
                self._files.remove(f"{self._folder}/{name}")

    # -- in the event loop ---------------------------------------------------------------------------------------

    def put(self, chunk: NotedChunk) -> None:
        """Accept a chunk; it is written later."""
        if self._bytes_max <= 0:
            return
        self._pending.append(chunk)
        self._pending_count += len(chunk.entries)
        while self._pending_count > PENDING_MAX:
            self._pending_count -= len(self._pending.popleft().entries)

    def take(self) -> NotedChunk | None:
        """Return the next chunk to `write`, None if there is none."""
        self._writing = self._pending.popleft() if self._pending else None
        if self._writing is not None:
            self._pending_count -= len(self._writing.entries)
        return self._writing

    @property
    def first_number(self) -> int | None:
        """The number of the oldest entry that is kept here; None if there is none."""
        there: list[SpilledChunk | NotedChunk] = [*list(self._index)[:1], *self._in_memory()]
        return there[0].first_number if there else None

    def _in_memory(self) -> list[NotedChunk]:
        """Return the chunks that are not written yet, or are being written."""
        writing = self._writing
        return [*([] if writing is None else [writing]), *self._pending]

    # -- in workers ----------------------------------------------------------------------------------------------

    def write(self, chunk: NotedChunk) -> None:
        """Write a chunk. Blocks. Only one call at a time is allowed."""
        try:
            self._write(chunk)
            self._trouble = ""
        except (OSError, ValueError) as error:  # ValueError: the file was closed meanwhile.
            if self._trouble != str(error):
                self._trouble = str(error)
                log.warning("journal_not_spilled", folder=self._folder, error=self._trouble)

    def _write(self, chunk: NotedChunk) -> None:
        data = _encode((chunk.first_number, chunk.face, chunk.entries))
        framed = len(data).to_bytes(_HEAD_BYTES, "big") + data
        if self._file is None or self._size + len(framed) > self._bytes_max // FILES:
            self._next_file()
        assert self._file is not None
        self._file.write(self._size, framed)
        at = self._size + _HEAD_BYTES
        place = self._path, at, len(data), crc32(data)
        self._index.append(SpilledChunk(chunk.first_number, chunk.next_number, *place, contents_of(chunk)))
        self._size += len(framed)

    def _next_file(self) -> None:
        self.close()
        paths = list(dict.fromkeys(chunk.path for chunk in self._index))
        for path in paths[: max(0, len(paths) - FILES + 1)]:
            while self._index and self._index[0].path == path:
                self._index.popleft()
            self._files.remove(path)
        self._files.make_folder(self._folder)
        self._file_number += 1
        self._path, self._size = f"{self._folder}/{NAME}-{self._file_number:06}", 0
        self._file = self._files.open(self._path)

    def read(self, first_number: int) -> NotedChunk | None:
        """Return the chunk that contains a number, or the next one after it; None if there is none. Blocks."""
        for spilled in list(self._index):
            if spilled.next_number > first_number and (chunk := self.read_spilled(spilled)) is not None:
                return chunk
        return next((chunk for chunk in self._in_memory() if chunk.next_number > first_number), None)

    def read_below(self, number: int, is_wanted: Callable[[ChunkContents], bool]) -> NotedChunk | None:
        """Return the last wanted chunk that begins before a number; None if there is none. Blocks."""
        for chunk in reversed(self._in_memory()):
            if chunk.first_number < number and is_wanted(contents_of(chunk)):
                return chunk
        for spilled in reversed(list(self._index)):
            if spilled.first_number < number and is_wanted(spilled.contents):
                chunk_read = self.read_spilled(spilled)
                if chunk_read is not None:
                    return chunk_read
        return None

    def read_spilled(self, spilled: SpilledChunk) -> NotedChunk | None:
        """Read a chunk from its file; return None, and log why, if it is damaged or missing. Blocks."""
        try:
            file = self._files.open(spilled.path)
            try:
                data = file.read(spilled.position, spilled.size)
            finally:
                file.close()
            if crc32(data) != spilled.crc:
                raise ValueError("its checksum does not match: it was changed or cut")
            first_number, face, entries = _decode(data)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("journal_not_read", path=spilled.path, error=str(error))
            return None
        return NotedChunk(first_number, face, list(entries))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
