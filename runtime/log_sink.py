"""Write log lines to stderr without ever waiting for it, and without ever failing because of it.

The reader of stderr may have stopped reading (a full pipe), may have ended (a closed pipe or terminal), or may be a
file on a full disk. None of these may stop or freeze a broker. So a line is written only if it can be written at once.
Otherwise it is kept in a buffer of BUFFER_BYTES_MAX. Lines that don't fit there are counted, and their number is logged
when lines can be written again.

The descriptor's flags aren't changed: O_NONBLOCK would apply to the open file, which we share with other programs, such
as a shell.
"""

import os
import select
import sys
import threading

BUFFER_BYTES_MAX = 256 * 1024
# A writable pipe accepts this much without blocking.
PIECE_BYTES_MAX = select.PIPE_BUF


class LogSink:
    """A file object for structlog's PrintLogger."""

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self.dropped_lines = 0
        """The number of dropped lines since a line was last written."""

    def write(self, text: str) -> None:
        """Buffer a line, or a part of one."""
        self._buffer += text.encode(errors="backslashreplace")

    def write_bytes(self, data: bytes) -> None:
        """Buffer data that is already encoded."""
        self._buffer += data

    def flush(self) -> None:
        """Write as much as possible without waiting; keep the rest, or drop and count it."""
        if self.dropped_lines and len(self._buffer) < BUFFER_BYTES_MAX:
            self._buffer += b"level=warning component=log event=lines_dropped lines=%d\n" % self.dropped_lines
            self.dropped_lines = 0
        try:
            while self._buffer and is_taken(self._descriptor):
                del self._buffer[: os.write(self._descriptor, self._buffer[:PIECE_BYTES_MAX])]
        except OSError:
            # The reader has ended, or the disk is full. The line is lost, and the program continues.
            self._drop(0)
        if len(self._buffer) > BUFFER_BYTES_MAX:
            self._drop(self._buffer.rfind(b"\n", 0, BUFFER_BYTES_MAX) + 1)

    def _drop(self, at: int) -> None:
        self.dropped_lines += self._buffer.count(b"\n", at)
        del self._buffer[at:]


def say(line: str) -> None:
    """Print a line to stdout without waiting for the reader, which may be slow or missing.

    If the line can't be written at once, a daemon thread writes it. A closed stdout is fine.
    """
    if sys.stdout is None or sys.stdout.closed:
        return
    try:
        sys.stdout.flush()
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        # stdout isn't a file: the program has replaced it.
        print(line)
        return
    data = f"{line}\n".encode(errors="backslashreplace")
    if len(data) <= PIECE_BYTES_MAX and is_taken(descriptor):
        _write(descriptor, data)
    else:
        threading.Thread(target=_write, args=(descriptor, data), name="stdout", daemon=True).start()


def is_taken(descriptor: int) -> bool:
    """Return whether a piece can be written without blocking."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        # There is no reader any more.
        pass
