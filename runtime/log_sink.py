"""Where log lines go: stderr, without ever waiting for it and without ever failing because of it.

Who should read our stderr may have stopped (a pipe that is full), be gone (a closed pipe, a closed terminal), or be a
file on a full disk. None of that is a reason to stop or to freeze a broker. So a line is written only if it can be
taken at once; else it waits in a buffer of BUFFER_BYTES_MAX, and what doesn't fit there is counted, and told when lines
leave again.

The descriptor stays as it is: O_NONBLOCK belongs to the open file, which we share with others, a shell for example.
"""

import os
import select
import sys
import threading

BUFFER_BYTES_MAX = 256 * 1024
PIECE_BYTES_MAX = select.PIPE_BUF
# What a pipe that is writable takes without waiting.


class LogSink:
    """A file for structlog's PrintLogger."""

    def __init__(self, descriptor: int = 2) -> None:
        self._descriptor = descriptor
        self._buffer = bytearray()
        self.dropped_lines = 0
        """Since a line left the last time."""

    def write(self, text: str) -> None:
        """Take a line, or a part of it."""
        self._buffer += text.encode(errors="backslashreplace")

    def write_bytes(self, data: bytes) -> None:
        """Take what somebody else has encoded."""
        self._buffer += data

    def flush(self) -> None:
        """Write what can be taken; keep the rest, or count it."""
        if self.dropped_lines and len(self._buffer) < BUFFER_BYTES_MAX:
            self._buffer += b"level=warning component=log event=lines_dropped lines=%d\n" % self.dropped_lines
            self.dropped_lines = 0
        try:
            while self._buffer and is_taken(self._descriptor):
                del self._buffer[: os.write(self._descriptor, self._buffer[:PIECE_BYTES_MAX])]
        except OSError:
            self._drop(0)  # Nobody is there, or there is no room: the line is lost, and we go on.
        if len(self._buffer) > BUFFER_BYTES_MAX:
            self._drop(self._buffer.rfind(b"\n", 0, BUFFER_BYTES_MAX) + 1)

    def _drop(self, at: int) -> None:
        self.dropped_lines += self._buffer.count(b"\n", at)
        del self._buffer[at:]


def say(line: str) -> None:
    """Print a line to stdout for who waits for it, and wait for nobody: not for a reader who is slow, or never comes.

    What can't be taken at once is written by a thread that nobody waits for. A closed stdout is fine.
    """
    if sys.stdout is None or sys.stdout.closed:
        return
    try:
        sys.stdout.flush()
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        print(line)  # Not a file: somebody has put something else in its place.
        return
    data = f"{line}\n".encode(errors="backslashreplace")
    if len(data) <= PIECE_BYTES_MAX and is_taken(descriptor):
        _write(descriptor, data)
    else:
        threading.Thread(target=_write, args=(descriptor, data), name="stdout", daemon=True).start()


def is_taken(descriptor: int) -> bool:
    """Tell whether a piece can be written without waiting."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))


def _write(descriptor: int, data: bytes) -> None:
    try:
        while data:
            data = data[os.write(descriptor, data) :]
    except OSError:
        pass  # Nobody reads it.
