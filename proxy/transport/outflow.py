"""What a connection sends: frames in order, and responses no faster than the client takes them.

Flow control: the client grants each stream a window, and one to the whole connection (RFC 9113, section 5.2). A window
is the number of bytes of DATA that may still be sent. A part of a response leaves at once if it fits into both windows
and the transport takes more. Otherwise it is queued in its stream (`pending`).

Fairness: a stream is ready when it has queued data and a window. Ready streams take turns: the first in the queue sends
one piece of at most PIECE_BYTES_MAX and moves to the end, until OUT_BYTES_MAX are collected or the connection's window
is used up. Streams that aren't ready cost nothing until their window grows.

Control frames (SETTINGS, PING, RST_STREAM, ...) never wait for a window. `control_bytes` counts them while the
transport takes nothing, so that the connection can be closed when there are too many. `stalled` finds the streams whose
client doesn't take their data.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport import frames
from staticfire.proxy.transport.frames import H2Code, Http2Fault

# How much is given to the transport at once. After that it may pause us.
OUT_BYTES_MAX = 1024 * 1024
# The maximum part of a response in one frame, so that streams take turns.
PIECE_BYTES_MAX = 64 * 1024
# Smaller parts that wait are joined, so that they need no more memory than is counted.
JOINED_BYTES = 4 * 1024
# A smaller frame that isn't the end of a part was cut by a small window. It doesn't raise the client's allowances.
DRIBBLE_BYTES = 1024


class TakenSoFar(NamedTuple):
    """What a client had taken at a point in time: bytes of one stream, frames of the whole connection."""

    uptime_ms: UptimeMs
    stream_bytes: int
    frames: int


class H2Stream:
    """Both directions of one call."""

    __slots__ = (
        "closed_there",
        "first_fields",
        "id",
        "is_ready",
        "last_fields",
        "late_bytes",
        "pending",
        "pending_bytes",
        "progress",
        "receive_window",
        "send_window",
        "unreturned",
        "when_taken",
    )

    def __init__(self, stream_id: int, receive_window: int, send_window: int) -> None:
        self.id = stream_id
        self.receive_window = receive_window
        self.send_window = send_window
        self.unreturned = 0
        """Consumed bytes that weren't yet returned to the client's window."""
        self.closed_there = False
        self.pending: deque[bytes | bytearray | memoryview] = deque()
        self.pending_bytes = 0
        self.first_fields = b""
        """The header block that begins the response; empty as soon as it has been written."""
        self.last_fields = b""
        """The header block that ends the response; empty until the handler has finished."""
        self.is_ready = False
        """Data is queued, and the stream's window isn't empty."""
        self.late_bytes = 0
        """How many bytes have left after they had been queued."""
        self.progress: TakenSoFar | None = None
        """The last time at which queued data was seen to move."""
        self.when_taken: Callable[[], None] | None = None  # house: no call waits at first
        """Called once, when all queued data has left or was dropped."""


class Outflow:
    """The sending side of one connection."""

    def __init__(self, streams: dict[int, H2Stream]) -> None:
        """`streams`: the open streams; a stream is removed when its response has left completely."""
        self._streams = streams
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._window = frames.WINDOW_BYTES
        # In the order of their turns.
        self._ready: OrderedDict[H2Stream, None] = OrderedDict()
        self.initial_window = frames.WINDOW_BYTES
        self.frame_bytes_max = frames.FRAME_BYTES_MIN
        self.is_paused = False
        """The transport takes nothing for now."""
        self.control_bytes = 0
        """The size of the control frames that were added since the transport last took something."""
        self.unsent_bytes = 0
        """The size of the responses that are queued in streams."""
        self.sent_frames = 0
        """How many DATA frames have left, without those that a small window made smaller than DRIBBLE_BYTES."""
        self.finished = 0
        """How many streams ended with their response."""

    def control(self, frame: bytes) -> None:
        """Send a frame that needs no window."""
        self._out.append(frame)
        self._out_bytes += len(frame)
        self.control_bytes += len(frame)

    def answer(self, stream: H2Stream, message: bytes) -> None:
        """Send a part of a response as soon as the windows permit it, after the fields that begin the response."""
        if stream.first_fields:
            self._write(frames.frame(frames.HEADERS, frames.END_HEADERS, stream.id, stream.first_fields))
            stream.first_fields = b""
        size = len(message)
        fits = (
            size <= stream.send_window and size <= self._window and size <= min(self.frame_bytes_max, PIECE_BYTES_MAX)
        )
        if fits and not stream.pending and not self.is_paused and self._out_bytes < OUT_BYTES_MAX:
            stream.send_window -= size
            self._window -= size
            self.sent_frames += 1
            self._write(frames.frame(frames.DATA, 0, stream.id, message))
            return
        if not size:
            return
        last = stream.pending[-1] if stream.pending else None
        if isinstance(last, bytearray) and len(last) < JOINED_BYTES:
            last += message
        else:
            stream.pending.append(bytearray(message) if size < JOINED_BYTES else message)
        stream.pending_bytes += size
        self.unsent_bytes += size
        self._note_ready(stream)
        self._advance(stream)

    def end(self, stream: H2Stream, last_fields: bytes) -> bool:
        """Send the fields that end a response, after all of its data. Return whether they have left.

        A response without data has one header block: what begins it and what ends it.
        """
        stream.last_fields = stream.first_fields + last_fields
        if stream.pending:
            return False
        self._finish(stream)
        return True

    def drop(self, stream: H2Stream) -> None:
        """Discard the queued data of a stream."""
        self.unsent_bytes -= stream.pending_bytes
        stream.pending.clear()
        stream.pending_bytes = 0
        self._taken(stream)

    def flush(self) -> bytes:
        """Return the bytes for the transport; empty if there are none. Call it again until it is empty."""
        if self._ready and not self.is_paused and self._window > 0 and self._out_bytes < OUT_BYTES_MAX:
            self._turns()
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        if not self.is_paused:
            self.control_bytes = 0
        return data

    def window_update(self, stream: H2Stream | None, size: int) -> bool:
        """Enlarge a window (`stream` is None: the connection's). Return False if it exceeds the maximum."""
        if stream is None:
            self._window += size
            return self._window <= frames.WINDOW_MAX
        stream.send_window += size
        self._note_ready(stream)
        return stream.send_window <= frames.WINDOW_MAX

    def set_initial_window(self, initial_window: int) -> None:
        """Apply the client's initial window to all streams, open ones too. Raises: Http2Fault."""
        change = initial_window - self.initial_window
        self.initial_window = initial_window
        for stream in self._streams.values():
            # The result may be negative (RFC 9113, 6.9.2).
            stream.send_window += change
            if stream.send_window > frames.WINDOW_MAX:
                raise Http2Fault(
                    H2Code.FLOW_CONTROL_ERROR, f"SETTINGS makes the window of stream {stream.id} too large"
                )
            self._note_ready(stream)

    def stalled(self, uptime_ms: UptimeMs, stuck_ms_max: int, progress_bytes_min: int) -> list[H2Stream]:
        """Return the streams whose data has waited too long for a window; call it periodically.

        While the transport is paused, no stream can move, so none is returned.
        """
        found = []
        for stream in self._streams.values():
            if not stream.pending:
                continue
            seen = stream.progress
            if self.is_paused or seen is None or stream.late_bytes - seen.stream_bytes >= progress_bytes_min:
                stream.progress = TakenSoFar(uptime_ms, stream.late_bytes, self.sent_frames)
            elif uptime_ms - seen.uptime_ms >= stuck_ms_max:
                found.append(stream)
        return found

    def _write(self, frame: bytes) -> None:
        self._out.append(frame)
        self._out_bytes += len(frame)

    def _note_ready(self, stream: H2Stream) -> None:
        is_ready = stream.send_window > 0 and bool(stream.pending)
        if is_ready != stream.is_ready:
            stream.is_ready = is_ready
            if is_ready:
                self._ready[stream] = None
            else:
                del self._ready[stream]

    def _turns(self) -> None:
        """Let the ready streams send one piece each, in turn, until the output is full or nothing is ready."""
        while self._ready and self._window > 0 and self._out_bytes < OUT_BYTES_MAX:
            self._advance(next(iter(self._ready)))

    def _advance(self, stream: H2Stream) -> None:
        """Send one piece of a stream's queued data, if windows and transport permit it."""
        if self.is_paused or self._out_bytes >= OUT_BYTES_MAX or not stream.pending:
            return
        first = stream.pending[0]
        size = min(len(first), stream.send_window, self._window, self.frame_bytes_max, PIECE_BYTES_MAX)
        if size <= 0:
            return
        if size == len(first):
            stream.pending.popleft()
        else:
            stream.pending[0] = memoryview(first)[size:]
        self.sent_frames += size == len(first) or size >= DRIBBLE_BYTES
        stream.pending_bytes -= size
        stream.late_bytes += size
        self.unsent_bytes -= size
        stream.send_window -= size
        self._window -= size
        self._write(frames.frame(frames.DATA, 0, stream.id, first[:size]))
        self._note_ready(stream)
        if stream.is_ready:
            self._ready.move_to_end(stream)  # The other streams come first.
        elif not stream.pending:
            self._taken(stream)
            if stream.last_fields:
                self._finish(stream)

    def _taken(self, stream: H2Stream) -> None:
        """Note that a stream has no queued data any more, and notify its waiter."""
        self._note_ready(stream)
        stream.progress = None
        tell, stream.when_taken = stream.when_taken, None
        if tell is not None:
            tell()

    def _finish(self, stream: H2Stream) -> None:
        self.finished += 1
        self._streams.pop(stream.id, None)
        flags = frames.END_HEADERS | frames.END_STREAM
        self._write(frames.frame(frames.HEADERS, flags, stream.id, stream.last_fields))
        if not stream.closed_there:
            # The client may still be sending: it is notified after the response that nothing more is read (RFC 9113,
            # 8.1).
            self._write(frames.rst_stream(stream.id, H2Code.NO_ERROR))
