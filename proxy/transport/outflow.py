"""What leaves a connection: frames in order, answers no faster than the client takes them.

Each stream has a window, and the connection has one (RFC 9113, section 5.2): so many bytes of DATA the client takes.
What doesn't fit waits in its stream. Streams that wait and have a window are ready and have turns; the others cost
nothing until their window grows. Frames that control something never wait for a window; if the client takes nothing at
all, `control_bytes` grows.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport import frames
from staticfire.proxy.transport.frames import H2Code, Http2Fault

OUT_BYTES_MAX = 1024 * 1024
# What goes to the transport at once; then it has a say whether it takes more.
PIECE_BYTES_MAX = 64 * 1024
# Of an answer in one frame, so that streams have turns.
JOINED_BYTES = 4 * 1024
# Smaller answers that wait are joined, so that they take no more memory than they count.
DRIBBLE_BYTES = 1024
# A frame that carries less, and not the rest of an answer, was cut by a small window: it earns its client nothing.


class TakenSoFar(NamedTuple):
    """What a client had taken at some time: of a stream, in bytes, and of the connection, in frames."""

    uptime_ms: UptimeMs
    stream_bytes: int
    frames: int


class H2Stream:
    """One call's two directions."""

    __slots__ = (
        "closed_here",
        "closed_there",
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
        """Of received bytes: taken, and the client doesn't know it."""
        self.closed_there = False
        self.closed_here = False
        """Nothing more leaves."""
        self.pending: deque[bytes | bytearray | memoryview] = deque()
        self.pending_bytes = 0
        self.last_fields = b""
        """The block of fields that ends it, once all answers are there."""
        self.is_ready = False
        """Something waits, and the client's window for this stream takes more."""
        self.late_bytes = 0
        """Of answers that had to wait: how much has left."""
        self.progress: TakenSoFar | None = None
        """When something that waits was last seen to move."""
        self.when_taken: Callable[[], None] | None = None  # house: nobody waits at first
        """Called once, when all that waited has left or never will."""


class Outflow:
    """What one connection is to be sent."""

    def __init__(self, streams: dict[int, H2Stream]) -> None:
        """`streams`: those that are open; one whose answer has left is taken out."""
        self._streams = streams
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._window = frames.WINDOW_BYTES
        self._ready: OrderedDict[H2Stream, None] = OrderedDict()  # In the order of their turns.
        self.initial_window = frames.WINDOW_BYTES
        self.frame_bytes_max = frames.FRAME_BYTES_MIN
        self.is_paused = False
        """The transport takes nothing."""
        self.control_bytes = 0
        """Of control frames since the transport last took something."""
        self.unsent_bytes = 0
        """Of answers that wait in streams."""
        self.sent_frames = 0
        """DATA frames that have left; dribbles left out."""
        self.finished = 0
        """Streams that ended with their answer."""

    def control(self, frame: bytes) -> None:
        """Send a frame that waits for nothing."""
        self._out.append(frame)
        self._out_bytes += len(frame)
        self.control_bytes += len(frame)

    def begin(self, stream: H2Stream, fields: bytes) -> None:
        """Send the fields of an answer."""
        self._write(frames.frame(frames.HEADERS, frames.END_HEADERS, stream.id, fields))

    def answer(self, stream: H2Stream, message: bytes) -> None:
        """Send a part of an answer, as soon as its windows let it."""
        size = len(message)
        fits = (
            size <= stream.send_window and size <= self._window and size <= min(self.frame_bytes_max, PIECE_BYTES_MAX)
        )
        if fits and not stream.pending and not self.is_paused and self._out_bytes < OUT_BYTES_MAX:
            stream.send_window -= size
            self._window -= size
            self.sent_frames += 1
            self._write(frames.data_head(size, 0, stream.id) + message)
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
        """Send the fields that end an answer behind all of it; return whether it has left whole."""
        stream.last_fields = last_fields
        if stream.pending:
            return False
        self._finish(stream)
        return True

    def drop(self, stream: H2Stream) -> None:
        """Forget what waits of a stream."""
        stream.closed_here = True
        self.unsent_bytes -= stream.pending_bytes
        stream.pending.clear()
        stream.pending_bytes = 0
        self._taken(stream)

    def flush(self) -> bytes:
        """Return what is to be given to the transport now; nothing if that is all."""
        if self._ready and not self.is_paused and self._window > 0 and self._out_bytes < OUT_BYTES_MAX:
            self._turns()
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        if not self.is_paused:
            self.control_bytes = 0
        return data

    def window_update(self, stream: H2Stream | None, size: int) -> bool:
        """Take note that the client takes more; return whether the window is a possible one."""
        if stream is None:
            self._window += size
            return self._window <= frames.WINDOW_MAX
        stream.send_window += size
        self._note_ready(stream)
        return stream.send_window <= frames.WINDOW_MAX

    def set_initial_window(self, initial_window: int) -> None:
        """Take over the client's window for each stream, also those that are open. Raises: Http2Fault."""
        change = initial_window - self.initial_window
        self.initial_window = initial_window
        for stream in self._streams.values():
            stream.send_window += change  # It may go below zero.
            if stream.send_window > frames.WINDOW_MAX:
                raise Http2Fault(
                    H2Code.FLOW_CONTROL_ERROR, f"SETTINGS makes the window of stream {stream.id} too large"
                )
            self._note_ready(stream)

    def stalled(self, uptime_ms: UptimeMs, stuck_ms_max: int, progress_bytes_min: int) -> list[H2Stream]:
        """Return the streams whose answers have waited too long for a window; call it now and then.

        While the transport is paused, no stream can move, and none is blamed.
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
        """Let each stream that is ready send a piece, again and again, until enough is there."""
        while self._ready and self._window > 0 and self._out_bytes < OUT_BYTES_MAX:
            self._advance(next(iter(self._ready)))

    def _advance(self, stream: H2Stream) -> None:
        """Send a piece of what waits, if anything may leave."""
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
        self._write(frames.data_head(size, 0, stream.id) + first[:size])
        self._note_ready(stream)
        if stream.is_ready:
            self._ready.move_to_end(stream)  # The others first.
        elif not stream.pending:
            self._taken(stream)
            if stream.last_fields:
                self._finish(stream)

    def _taken(self, stream: H2Stream) -> None:
        """Take note that nothing waits any more."""
        self._note_ready(stream)
        stream.progress = None
        tell, stream.when_taken = stream.when_taken, None
        if tell is not None:
            tell()

    def _finish(self, stream: H2Stream) -> None:
        stream.closed_here = True
        self.finished += 1
        self._streams.pop(stream.id, None)
        flags = frames.END_HEADERS | frames.END_STREAM
        self._write(frames.frame(frames.HEADERS, flags, stream.id, stream.last_fields))
        if not stream.closed_there:
            # What the client still sends is for nobody; it is told so after the answer, as RFC 9113, 8.1 wants it.
            self._write(frames.rst_stream(stream.id, H2Code.NO_ERROR))
