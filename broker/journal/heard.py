"""What comes in, read by read, as it came: requests are made of it when somebody asks for them.

A request costs nothing here, only a read of a socket does, whatever it brings: decoding is what the broker does anyway
and what nobody may need twice. So everything is there that was asked, what was refused and what can't be read included.
"""

import msgspec

from staticfire.protocol.frame_reader import Peer

READ_BYTES = 300
# Of a note, besides what was read.


class HeardRead(msgspec.Struct, gc=False):
    """What one read of a connection has brought. See `runtime.dispatcher.Tap`."""

    uptime_ns: int
    client_id: str | None
    """As far as the client had told it by then."""
    peer: Peer
    unread_bytes: int
    """Of reads before this one: they are the beginning of the first frame, or wait to be handled."""
    data: bytes


def size_of(read: HeardRead) -> int:
    """Return how many bytes a note keeps."""
    return READ_BYTES + len(read.data)
