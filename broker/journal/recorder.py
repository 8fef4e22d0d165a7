"""What clients send to a broker, read by read, as it came: requests are made of it when somebody asks for them.

A request costs nothing here, only a read of a socket does, whatever it brings: decoding is what the broker does anyway
and what nobody may need twice. So everything is there that was asked, what was refused and what can't be read included.
"""

import msgspec

from staticfire.broker.journal.events import BurstTime
from staticfire.broker.journal.ring import RecordRing
from staticfire.protocol.frame_reader import Peer
from staticfire.runtime.connection import Connection
from staticfire.runtime.machine import Clock

READ_BYTES = 300
# Of a note, besides what was read.


class HeardRead(msgspec.Struct, gc=False):
    """What one read of a connection has brought."""

    uptime_ms: int
    client_id: str | None
    """As far as the client has told it by then."""
    peer: Peer
    unread_bytes: int
    """Of reads before this one: they are the beginning of the first frame, or wait to be handled."""
    data: bytes


class RequestRecorder:
    """Hears of each read, and notes it or only its time. See `runtime.dispatcher.Tap`."""

    def __init__(self, ring: RecordRing, clock: Clock, burst: BurstTime) -> None:
        """`burst` is told when each read came."""
        self._note = ring.append_bytes
        self._uptime_ms = clock.uptime_ms
        self._burst = burst

    def heard(self, connection: Connection, data: bytes, unread_bytes: int) -> None:
        """Note a read. Hot."""
        uptime_ms = self._burst.uptime_ms = self._uptime_ms()
        read = HeardRead(uptime_ms, connection.client_id, connection.peer, unread_bytes, data)
        self._note(read, READ_BYTES + len(data))

    def only_timed(self, connection: Connection, data: bytes, unread_bytes: int) -> None:
        """Note when a read came. Hot."""
        self._burst.uptime_ms = self._uptime_ms()
