"""Keeps the received data, read by read, without decoding it. Requests are decoded only when a client asks for them.

So noting takes time per read of a socket, not per request: the broker decodes each request anyway, and often nothing
needs a second decoding. The data contains all requests, also refused ones and those that can't be decoded.
"""

import msgspec

from staticfire.protocol.frame_reader import Peer

# The memory that a note takes besides the data.
READ_BYTES = 300


class ReceivedRead(msgspec.Struct, gc=False):
    """The data of one read of a connection. See `runtime.dispatcher.Tap`."""

    uptime_ns: int
    client_id: str | None
    """None if the client had not sent its id by then."""
    peer: Peer
    unread_bytes: int
    """The bytes of earlier reads that are not handled yet: the beginning of the first frame, or frames that wait."""
    data: bytes


def size_of(read: ReceivedRead) -> int:
    """Return how many bytes of memory a note takes."""
    return READ_BYTES + len(read.data)
