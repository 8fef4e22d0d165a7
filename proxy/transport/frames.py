"""HTTP/2 frames: their numbers, and functions that build those that we send (RFC 9113, sections 4, 6 and 7).

+-----------------------------------------------+
|                 length (24)                   |
+---------------+---------------+---------------+
|   type (8)    |   flags (8)   |
+-+-------------+---------------+-------------------------------+
|R|                  stream (31): 0 is the connection           |
+=+=============================================================+
|                       payload (length)                        |
"""

import struct
from enum import IntEnum

from staticfire.protocol.errors import ProtocolError
from staticfire.proxy.transport.limits import TransportLimits

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
ID_MASK = 0x7FFF_FFFF

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20

HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = (
    range(1, 7)
)

WINDOW_MAX = 2**31 - 1
# The initial window of each stream and of the connection, until SETTINGS or WINDOW_UPDATE change it.
WINDOW_BYTES = 65_535
# The range in which a peer may set its MAX_FRAME_SIZE.
FRAME_BYTES_MIN, FRAME_BYTES_MOST = 16_384, 2**24 - 1


class H2Code(IntEnum):
    """Why a stream or a connection ends (RFC 9113, section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Http2Fault(ProtocolError):
    """An error that ends the connection. The peer receives a GOAWAY with the code and the message."""

    def __init__(self, code: H2Code, words: str) -> None:
        super().__init__(words)
        self.code = code


_HEAD = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")


def frame(kind: int, flags: int, stream_id: int, payload: bytes | bytearray | memoryview = b"") -> bytes:
    """Return a complete frame."""
    size = len(payload)
    return _HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def settings_frame(settings: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*each) for each in settings.items()))


def our_settings(limits: TransportLimits) -> bytes:
    """Return the SETTINGS frame with our limits."""
    return settings_frame(
        {
            MAX_CONCURRENT_STREAMS: limits.streams_max,
            INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
            MAX_FRAME_SIZE: limits.frame_bytes_max,
            MAX_HEADER_LIST_SIZE: limits.header_bytes_max,
        }
    )


SETTINGS_ACK = frame(SETTINGS, ACK, 0)


def window_update(stream_id: int, size: int) -> bytes:
    """Return a WINDOW_UPDATE frame: the peer may send `size` bytes more."""
    return frame(WINDOW_UPDATE, 0, stream_id, size.to_bytes(4, "big"))


def rst_stream(stream_id: int, code: H2Code) -> bytes:
    """Return a RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream_id, int(code).to_bytes(4, "big"))


def goaway(last_stream_id: int, code: H2Code, words: str = "") -> bytes:
    """Return a GOAWAY frame: streams above the last one were ignored, those up to it may still end."""
    return frame(GOAWAY, 0, 0, struct.pack(">II", last_stream_id, int(code)) + words.encode())


def without_padding(payload: bytes) -> bytes:
    """Return the payload of a DATA or HEADERS frame that is PADDED, without its padding. Raises: Http2Fault."""
    if not payload or payload[0] >= len(payload):
        raise Http2Fault(H2Code.PROTOCOL_ERROR, "the padding of a frame is longer than the frame")
    return payload[1 : len(payload) - payload[0]]


def check_dependency(stream_id: int, priority: bytes) -> None:
    """Check a priority that is otherwise ignored. Raises: Http2Fault (RFC 7540, 5.3.1)."""
    if int.from_bytes(priority[:4], "big") & ID_MASK == stream_id:
        raise Http2Fault(H2Code.PROTOCOL_ERROR, f"stream {stream_id} depends on itself")


def read_settings(payload: bytes, entries_max: int) -> list[tuple[int, int]]:
    """Return the settings of a payload in order. Raises: Http2Fault."""
    if len(payload) % _SETTING.size:
        raise Http2Fault(H2Code.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes: each setting has {_SETTING.size}")
    if len(payload) > entries_max * _SETTING.size:
        words = f"SETTINGS with {len(payload) // _SETTING.size} entries: the limit is {entries_max}"
        raise Http2Fault(H2Code.ENHANCE_YOUR_CALM, words)
    return [(number, value) for number, value in _SETTING.iter_unpack(payload)]
