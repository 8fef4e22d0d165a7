"""One HTTP/2 connection, server side, without input and output (RFC 9113; priorities are ignored).

    events = http2.receive(data)      # raises Http2Fault: pass it to `leave`, then close the connection
    http2.outflow.answer(...)         # queues a part of a response
    transport.write(http2.outflow.flush())

`receive` cuts the bytes into frames and calls the method for each frame's type (`_READERS`). The bytes of an incomplete
frame wait in `_rest`. A frame changes the state of the connection, adds an event to the result, or breaks a rule: a
broken rule of one stream resets it (`_break`), one of the connection raises Http2Fault. `FrameAllowance` limits the
frames that carry nothing. Two windows limit what a client sends. The connection's window is refilled as DATA arrives, a
stream's when its call reports the bytes as consumed (`took`), so a slow call slows down only itself.
A stream is in `streams` from its HEADERS until its response has left completely or one side has reset it. A frame for a
closed stream may have been in flight: it is decoded and counted, because the header table and the windows belong to the
connection, and then ignored. If the client had ended its side before, the frame is an error.
"""

from collections import deque

from staticfire.protocol.times import UptimeMs
from staticfire.proxy.transport import frames
from staticfire.proxy.transport.call_events import CallData, CallOpened, CallReset, Event
from staticfire.proxy.transport.floods import FrameAllowance
from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.header_block import HeaderBlock, HeaderDecoder, fault_of_fields
from staticfire.proxy.transport.limits import TransportLimits
from staticfire.proxy.transport.outflow import H2Stream, Outflow

BEGINNING = UptimeMs(0)
# For each DATA frame that we send, a client may update two windows (stream and connection), each of them twice.
UPDATES_PER_FRAME = 4
# How many closed streams, and how many ranges of unused stream ids, a connection remembers.
REMEMBERED_MAX = 64


class Http2:  # house: the rules of a connection in one place: a few lines for each type of frame
    """The state of one connection: parses what the client sends and queues the frames for it."""

    def __init__(self, limits: TransportLimits, uptime_ms: UptimeMs = BEGINNING) -> None:
        self._limits = limits
        self._uptime_ms = uptime_ms
        self._decoder = HeaderDecoder(limits.header_bytes_max, limits.block_unpacked_bytes_max)
        self._resets = FrameAllowance("resets", limits.resets, uptime_ms)
        self._pings = FrameAllowance("pings", limits.pings, uptime_ms)
        self._settings_frames = FrameAllowance("settings_frames", limits.settings_frames, uptime_ms)
        self._window_updates = FrameAllowance("window_updates", limits.window_updates, uptime_ms)
        self._empty_frames = FrameAllowance("empty_frames", limits.empty_frames, uptime_ms)
        self._ignored_frames = FrameAllowance("ignored_frames", limits.ignored_frames, uptime_ms)
        self._rest = bytearray()
        # How many bytes `_rest` needs before its first frame can be read.
        self._needed = 0
        self._has_preface = False
        self._has_settings = False
        self._block: HeaderBlock | None = None
        self.is_in_block = False
        """A header block has begun, and its last frame hasn't arrived."""
        self._window = limits.connection_window_bytes
        self._unreturned = 0
        self._events: list[Event] = []
        self._is_leaving = False
        self.last_stream_id = 0
        # The last streams whose client side has ended.
        self._finished: deque[int] = deque(maxlen=REMEMBERED_MAX)
        self._skipped: deque[range] = deque(maxlen=REMEMBERED_MAX)
        self.streams: dict[int, H2Stream] = {}
        self.outflow = Outflow(self.streams)

    @property
    def unread_bytes(self) -> int:
        """The size of the incomplete frame at the end of what arrived."""
        return len(self._rest)

    def begin(self) -> None:
        """Send our SETTINGS and enlarge the connection's window."""
        more = self._limits.connection_window_bytes - frames.WINDOW_BYTES
        self.outflow.control(frames.our_settings(self._limits) + frames.window_update(0, more))

    def ping(self) -> None:
        """Send a PING, which every client answers."""
        self.outflow.control(frames.frame(frames.PING, 0, 0, bytes(8)))

    def leave(self, code: H2Code = H2Code.NO_ERROR, words: str = "") -> None:
        """Send GOAWAY: new calls are ignored, open calls may end."""
        self._is_leaving = True
        self.outflow.control(frames.goaway(self.last_stream_id, code, words))

    def reset(self, stream: H2Stream, code: H2Code) -> None:
        """Reset a stream now, if it is open."""
        if self.streams.pop(stream.id, None) is not None:
            self.outflow.control(frames.rst_stream(stream.id, code))
        self.outflow.drop(stream)

    def took(self, stream: H2Stream, size: int) -> bool:
        """Report that `size` bytes of a stream's DATA are consumed. Return whether there is a frame for the client now.

        Such a frame lets the client send more.
        """
        stream.unreturned += size
        is_enough = stream.unreturned * 2 >= self._limits.stream_window_bytes and not stream.closed_there
        if is_enough:
            if stream.id in self.streams:
                self.outflow.control(frames.window_update(stream.id, stream.unreturned))
            stream.receive_window += stream.unreturned
            stream.unreturned = 0
        return is_enough

    def receive(self, data: bytes, uptime_ms: UptimeMs = BEGINNING) -> list[Event]:
        """Return the events that these bytes cause. Raises: Http2Fault; don't call it again after that."""
        self._uptime_ms = uptime_ms
        if self._rest:
            if len(self._rest) + len(data) < self._needed:
                self._rest += data  # No copy for each piece, even if a frame arrives byte by byte.
                return []
            data = b"".join((self._rest, data))
            self._rest.clear()
        self._events = []
        position = self._needed = 0
        if not self._has_preface:
            if not self._begins_well(data):
                self._rest += data
                return []
            position = len(frames.PREFACE)
        end = len(data)
        while end - position >= frames.HEAD_BYTES:
            size = int.from_bytes(data[position : position + 3], "big")
            if size > self._limits.frame_bytes_max:
                words = f"a frame of {size} bytes, more than the {self._limits.frame_bytes_max} of our SETTINGS"
                raise Http2Fault(H2Code.FRAME_SIZE_ERROR, words)
            start = position + frames.HEAD_BYTES
            if end - start < size:
                self._needed = frames.HEAD_BYTES + size
                break
            stream_id = int.from_bytes(data[position + 5 : start], "big") & frames.ID_MASK
            self._frame(data[position + 3], data[position + 4], stream_id, data[start : start + size])
            position = start + size
        if position < end:
            self._rest += data[position:]
        return self._events

    def _begins_well(self, data: bytes) -> bool:
        """Return whether the preface is complete. Raises: Http2Fault if the bytes aren't the preface."""
        if not frames.PREFACE.startswith(data[: len(frames.PREFACE)]):
            raise Http2Fault(H2Code.PROTOCOL_ERROR, "the connection doesn't begin with the HTTP/2 preface")
        self._has_preface = len(data) >= len(frames.PREFACE)
        return self._has_preface

    def _frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and (kind != frames.CONTINUATION or stream_id != self._block.stream_id):
            raise Http2Fault(H2Code.PROTOCOL_ERROR, f"a frame of type {kind} between the parts of a header block")
        if not self._has_settings and kind != frames.SETTINGS:
            raise Http2Fault(H2Code.PROTOCOL_ERROR, f"the first frame is of type {kind} instead of SETTINGS")
        if kind < len(_READERS):
            _READERS[kind](self, flags, stream_id, payload)
        else:  # Unknown types must be ignored (RFC 9113, 4.1).
            self._ignored_frames.take(self._uptime_ms)

    def refuse(self, stream: H2Stream) -> None:
        """Reset a stream that exceeds a limit; the client may retry. Raises: Http2Fault."""
        self.reset(stream, H2Code.REFUSED_STREAM)
        self._count_reset()

    def _count_reset(self) -> None:
        self._resets.take(self._uptime_ms, self.outflow.finished)

    def _on_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        size = len(payload)
        self._window -= size
        if self._window < 0:
            raise Http2Fault(H2Code.FLOW_CONTROL_ERROR, "more DATA than the connection's window allows")
        self._unreturned += size
        if self._unreturned * 2 >= self._limits.connection_window_bytes:
            # The window is refilled at once: streams' windows and the limits over all connections limit the data.
            self.outflow.control(frames.window_update(0, self._unreturned))
            self._window += self._unreturned
            self._unreturned = 0
        data = frames.without_padding(payload) if flags & frames.PADDED else payload
        if not data and not flags & frames.END_STREAM:
            self._empty_frames.take(self._uptime_ms)
        stream = self._known(stream_id, "DATA")
        if stream is None:
            self._check_late(stream_id, "DATA")
            return
        stream.receive_window -= size
        if stream.receive_window < 0:
            return self._break(stream, H2Code.FLOW_CONTROL_ERROR)
        if stream.closed_there:
            return self._break(stream, H2Code.STREAM_CLOSED)
        if size > len(data):
            self.took(stream, size - len(data))
        if flags & frames.END_STREAM:
            self._client_side_ended(stream)
        self._events.append(CallData(stream, data, stream.closed_there))

    def _on_headers(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id % 2 == 0:
            raise Http2Fault(H2Code.PROTOCOL_ERROR, f"HEADERS on stream {stream_id}: clients must use odd numbers")
        block = frames.without_padding(payload) if flags & frames.PADDED else payload
        if flags & frames.HAS_PRIORITY:
            if len(block) < 5:
                raise Http2Fault(H2Code.FRAME_SIZE_ERROR, "HEADERS is too short for its priority")
            frames.check_dependency(stream_id, block)
            block = block[5:]
        if flags & frames.END_HEADERS and len(block) <= self._limits.block_bytes_max:
            self._on_block(stream_id, flags, block)
        else:
            self._block = HeaderBlock(stream_id, flags, self._limits)
            self._block.add(block)
            self.is_in_block = True

    def _on_continuation(self, flags: int, _stream_id: int, payload: bytes) -> None:
        block = self._block
        if block is None:
            raise Http2Fault(H2Code.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        block.add(payload)
        if not payload and not flags & frames.END_HEADERS:
            raise Http2Fault(H2Code.ENHANCE_YOUR_CALM, "empty CONTINUATION")
        if flags & frames.END_HEADERS:
            self._block = None
            self.is_in_block = False
            self._on_block(block.stream_id, block.flags, bytes(block.data))

    def _on_block(self, stream_id: int, flags: int, block: bytes) -> None:
        fields, fits, names = self._decoder.decode(block)
        ended = bool(flags & frames.END_STREAM)
        if stream_id in self.streams:
            self._on_trailers(self.streams[stream_id], names, ended)
            return
        is_malformed = fits and stream_id > self.last_stream_id and fault_of_fields(names, fields) != ""
        self._on_fields(stream_id, {} if is_malformed else fields, fits, ended)
        if is_malformed and (stream := self.streams.get(stream_id)) is not None:
            self._events.pop()  # A malformed request is a stream error and reaches no handler (RFC 9113, 8.1.1).
            self.reset(stream, H2Code.PROTOCOL_ERROR)
            self._count_reset()

    def _on_trailers(self, stream: H2Stream, names: tuple[str, ...], ended: bool) -> None:
        """End a request. Trailers are ignored: gRPC clients send none."""
        if stream.closed_there:
            self._break(stream, H2Code.STREAM_CLOSED)
        elif not ended or any(name.startswith(":") for name in names):
            self._break(stream, H2Code.PROTOCOL_ERROR)
        else:
            self._client_side_ended(stream)
            self._events.append(CallData(stream, b"", True))

    def _on_fields(self, stream_id: int, fields: dict[str, str], fits: bool, ended: bool) -> None:
        if stream_id <= self.last_stream_id:
            self._check_late(stream_id, "HEADERS")
            self._ignored_frames.take(self._uptime_ms)
            return
        if self._is_leaving:
            self._ignored_frames.take(self._uptime_ms)
            return  # Our GOAWAY has announced that such streams are ignored.
        if stream_id > self.last_stream_id + 2:
            self._skipped.append(range(self.last_stream_id + 1, stream_id))
        self.last_stream_id = stream_id
        if len(self.streams) >= self._limits.streams_max:
            self.outflow.control(frames.rst_stream(stream_id, H2Code.REFUSED_STREAM))
            self._count_reset()
            return
        stream = H2Stream(stream_id, self._limits.stream_window_bytes, self.outflow.initial_window)
        if ended:
            self._client_side_ended(stream)
        self.streams[stream_id] = stream
        self._events.append(CallOpened(stream, fields, fits, ended, self._decoder.list_bytes))

    def _on_rst_stream(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Fault(H2Code.FRAME_SIZE_ERROR, f"RST_STREAM of {len(payload)} bytes instead of 4")
        stream = self._known(stream_id, "RST_STREAM")
        self._count_reset()
        if stream is not None:
            self._client_side_ended(stream)
            del self.streams[stream_id]
            self.outflow.drop(stream)
            self._events.append(CallReset(stream))
        elif stream_id not in self._finished:
            self._finished.append(stream_id)

    def _client_side_ended(self, stream: H2Stream) -> None:
        """Note that the client has ended its side: from now on no frame for this stream can be in flight."""
        stream.closed_there = True
        self._finished.append(stream.id)

    def _check_late(self, stream_id: int, what: str) -> None:
        """Check a frame for a closed stream. Raises: Http2Fault if it can't have been in flight."""
        if stream_id in self._finished:
            raise Http2Fault(H2Code.STREAM_CLOSED, f"{what} on stream {stream_id} after its end")
        if any(stream_id in skipped for skipped in self._skipped):
            raise Http2Fault(H2Code.PROTOCOL_ERROR, f"{what} on stream {stream_id}, which was skipped")

    def _break(self, stream: H2Stream, code: H2Code) -> None:
        """Reset a stream on which the client has broken a rule."""
        self.reset(stream, code)
        self._events.append(CallReset(stream))
        self._count_reset()

    def _known(self, stream_id: int, what: str) -> H2Stream | None:
        """Return a stream, or None if it is closed. Raises: Http2Fault if it was never open."""
        if stream_id == 0:
            raise Http2Fault(H2Code.PROTOCOL_ERROR, f"{what} on stream 0, which is reserved for the connection")
        if stream_id > self.last_stream_id and not self._is_leaving:
            raise Http2Fault(H2Code.PROTOCOL_ERROR, f"{what} on stream {stream_id}, which isn't open yet")
        return self.streams.get(stream_id)

    def _on_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id:
            raise Http2Fault(H2Code.PROTOCOL_ERROR, f"SETTINGS on stream {stream_id}: they belong on stream 0")
        self._settings_frames.take(self._uptime_ms)
        if flags & frames.ACK:
            if payload:
                raise Http2Fault(H2Code.FRAME_SIZE_ERROR, "an acknowledgement of SETTINGS that isn't empty")
            return
        self._has_settings = True
        window = None
        for number, value in frames.read_settings(payload, self._limits.settings_entries_max):
            if number == frames.INITIAL_WINDOW_SIZE:
                if value > frames.WINDOW_MAX:
                    raise Http2Fault(H2Code.FLOW_CONTROL_ERROR, f"SETTINGS requests an invalid window of {value} bytes")
                window = value
            elif number == frames.MAX_FRAME_SIZE:
                if not frames.FRAME_BYTES_MIN <= value <= frames.FRAME_BYTES_MOST:
                    raise Http2Fault(H2Code.PROTOCOL_ERROR, f"SETTINGS requests invalid frames of {value} bytes")
                self.outflow.frame_bytes_max = value
            elif number == frames.ENABLE_PUSH and value > 1:
                raise Http2Fault(H2Code.PROTOCOL_ERROR, f"SETTINGS has ENABLE_PUSH {value}: it must be 0 or 1")
        if window is not None:
            self.outflow.set_initial_window(window)  # Only once, because it visits every stream.
        self.outflow.control(frames.SETTINGS_ACK)

    def _on_ping(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or len(payload) != 8:
            words = f"PING of {len(payload)} bytes on stream {stream_id}: it must have 8, on stream 0"
            raise Http2Fault(H2Code.PROTOCOL_ERROR if stream_id else H2Code.FRAME_SIZE_ERROR, words)
        self._pings.take(self._uptime_ms, self.outflow.sent_frames)
        if not flags & frames.ACK:
            self.outflow.control(frames.frame(frames.PING, frames.ACK, 0, payload))

    def _on_goaway(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or len(payload) < 8:
            words = f"GOAWAY of {len(payload)} bytes on stream {stream_id}: it must have at least 8, on stream 0"
            raise Http2Fault(H2Code.PROTOCOL_ERROR if stream_id else H2Code.FRAME_SIZE_ERROR, words)
        self._ignored_frames.take(self._uptime_ms)

    def _on_window_update(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Fault(H2Code.FRAME_SIZE_ERROR, f"WINDOW_UPDATE of {len(payload)} bytes instead of 4")
        size = int.from_bytes(payload, "big") & frames.ID_MASK
        stream = self._known(stream_id, "WINDOW_UPDATE") if stream_id else None
        self._window_updates.take(self._uptime_ms, self.outflow.sent_frames * UPDATES_PER_FRAME)
        if stream_id == 0:
            if size == 0 or not self.outflow.window_update(None, size):
                words = f"WINDOW_UPDATE by {size} bytes is invalid for the connection's window"
                raise Http2Fault(H2Code.FLOW_CONTROL_ERROR if size else H2Code.PROTOCOL_ERROR, words)
        elif stream is not None and (size == 0 or not self.outflow.window_update(stream, size)):
            self._break(stream, H2Code.FLOW_CONTROL_ERROR if size else H2Code.PROTOCOL_ERROR)

    def _on_priority(self, _flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id == 0:
            raise Http2Fault(H2Code.PROTOCOL_ERROR, "PRIORITY on stream 0")
        self._ignored_frames.take(self._uptime_ms)
        if len(payload) == 5:
            frames.check_dependency(stream_id, payload)
        elif (stream := self.streams.get(stream_id)) is not None:
            self._break(stream, H2Code.FRAME_SIZE_ERROR)
        else:  # No stream is left to reset.
            raise Http2Fault(H2Code.FRAME_SIZE_ERROR, f"PRIORITY of {len(payload)} bytes instead of 5")

    def _on_push_promise(self, _flags: int, _stream_id: int, _payload: bytes) -> None:
        raise Http2Fault(H2Code.PROTOCOL_ERROR, "PUSH_PROMISE from a client")


# One method per frame type; the index is the type.
_READERS = (
    Http2._on_data,
    Http2._on_headers,
    Http2._on_priority,
    Http2._on_rst_stream,
    Http2._on_settings,
    Http2._on_push_promise,
    Http2._on_ping,
    Http2._on_goaway,
    Http2._on_window_update,
    Http2._on_continuation,
)
