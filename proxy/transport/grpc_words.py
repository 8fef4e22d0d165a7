"""The format of gRPC on HTTP/2: messages with their length in front, deadlines, and the status of a call.

    +------------+---------------------+
        | packed (8) | length (32)         |   packed: 0, or 1 if the message is compressed by `grpc-encoding`
    +------------+---------------------+
    | message (length bytes)           |   any number of them in any number of DATA frames
    +----------------------------------+

Source: PROTOCOL-HTTP2.md of gRPC.
"""

from collections.abc import Mapping

from staticfire.proxy.transport.calls import MESSAGE_HEAD, GrpcError, GrpcStatus
from staticfire.proxy.transport.header_block import STATUS_200, pack_field

MS_OF_UNIT = {"H": 3_600_000.0, "M": 60_000.0, "S": 1_000.0, "m": 1.0, "u": 0.001, "n": 0.000_001}
TIMEOUT_DIGITS_MAX = 8
# The maximum length of an error message: clients take 8 KiB of fields, and a character may need nine bytes there.
MESSAGE_CHARS_MAX = 2_000
# Smaller parts of a message are joined as they arrive.
JOINED_BYTES = 4 * 1024
CONTENT_TYPE = "application/grpc"

ANSWER_FIELDS = STATUS_200 + pack_field("content-type", CONTENT_TYPE.encode())
WELL_ENDED = pack_field("grpc-status", b"0")


def end_fields(status: GrpcStatus, message: str) -> bytes:
    """Return the fields that end a call with this status."""
    if status is GrpcStatus.OK:
        return WELL_ENDED
    return pack_field("grpc-status", str(int(status)).encode()) + pack_field("grpc-message", percent_encoded(message))


def percent_encoded(text: str) -> bytes:
    """Return a text as the field `grpc-message` encodes it."""
    text = text[:MESSAGE_CHARS_MAX]
    if text.isascii() and text.isprintable() and "%" not in text:
        return text.encode()
    return b"".join(
        bytes((byte,)) if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        for byte in text.encode("utf-8", "replace")
    )


def timeout_ms(fields: Mapping[str, str]) -> int | None:
    """Return how long a client waits for its call, None if it set no deadline. Raises: GrpcError."""
    text = fields.get("grpc-timeout")
    if text is None:
        return None
    digits, unit = text[:-1], MS_OF_UNIT.get(text[-1:])
    if unit is None or not digits.isdecimal() or not digits.isascii() or len(digits) > TIMEOUT_DIGITS_MAX:
        raise GrpcError(GrpcStatus.INTERNAL, f"grpc-timeout {text[:20]!r} is invalid: write digits and one of HMSmun")
    return int(int(digits) * unit)


class RequestReader:
    """Assembles the requests of one call from DATA."""

    __slots__ = ("_bytes_max", "_needed", "_parts", "held_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._parts: list[bytes | bytearray] = []
        # How many bytes must be there before the next message, or its length, can be read.
        self._needed = MESSAGE_HEAD.size
        self.held_bytes = 0
        """The size of the incomplete message."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that are complete now. Raises: GrpcError."""
        self.held_bytes += len(data)
        if self.held_bytes < self._needed:
            self._keep(data)
            return []
        if self._parts:
            self._parts.append(data)
            data = b"".join(self._parts)
            self._parts.clear()
        return self._split(data)

    def _keep(self, data: bytes) -> None:
        """Keep a part of a message. Small parts are joined, so that they need no more memory than is counted."""
        last = self._parts[-1] if self._parts else None
        if isinstance(last, bytearray) and len(last) < JOINED_BYTES:
            last += data
        else:
            self._parts.append(bytearray(data) if len(data) < JOINED_BYTES else data)

    def _split(self, data: bytes) -> list[bytes]:
        messages = []
        position, end = 0, len(data)
        self._needed = MESSAGE_HEAD.size
        while end - position >= MESSAGE_HEAD.size:
            packed, size = MESSAGE_HEAD.unpack_from(data, position)
            if packed:
                words = "a compressed message: compression isn't supported here, send with grpc-encoding identity"
                raise GrpcError(GrpcStatus.UNIMPLEMENTED, words)
            if size > self._bytes_max:
                words = f"a message of {size} bytes: the limit is {self._bytes_max} (grpcMaxInboundMessageSize)"
                raise GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, words)
            start = position + MESSAGE_HEAD.size
            if end - start < size:
                self._needed = MESSAGE_HEAD.size + size
                break
            messages.append(data[start : start + size])
            position = start + size
        if position < end:
            self._parts.append(data[position:])
        self.held_bytes = end - position
        return messages
