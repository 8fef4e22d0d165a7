"""The two ids of a message. RocketMQ: MessageDecoder.createMessageId, MessageClientIDSetter.

An *offset message id* contains a record's place: the store host (8 or 20 bytes), then the log position (i64). A *unique
id* identifies a message and its producer: IP (4 or 16 bytes), process id (u16), a hash of the class loader (u32; here,
any number that differs between the producers of a process), milliseconds since the month began (u32), a counter (u16).
Both are written in upper-case hex, as 32 characters, or 56 with IPv6.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from struct import Struct

from staticfire.protocol.errors import ProtocolError

_pack_position = Struct(">q").pack
_V4_CHARS = 32
_V6_CHARS = 56
# If the clock is set back by less than this, the time in the id doesn't become negative (RocketMQ: createUniqIDBuffer).
_DIFFERENCE_KEPT_MS = 1_000_000

# Two look-ups in this table take a third of the time of formatting four digits.
_HEX = tuple(f"{number:02X}" for number in range(256))


def offset_id_prefix(store_host: bytes) -> str:
    """Return the common prefix of a broker's offset message ids. `offset_id` is faster with it than with the host."""
    return store_host.hex().upper()


def offset_id(prefix: str, log_position: int) -> str:
    """Return the offset message id of a record; the prefix is the broker's `offset_id_prefix`."""
    # Every other way to format it is slower.
    return prefix + _pack_position(log_position).hex().upper()


def offset_ids(prefix: str, log_positions: Sequence[int]) -> str:
    """Return the offset message ids of several records, joined by commas, as in the response to a batch."""
    texts = Struct(f">{len(log_positions)}q").pack(*log_positions).hex().upper()
    return ",".join([prefix + texts[at : at + 16] for at in range(0, len(texts), 16)])


def parse_offset_id(message_id: str) -> tuple[bytes, int]:
    """Return store host and log position. Raises: ProtocolError (not an offset message id)."""
    if len(message_id) not in (_V4_CHARS, _V6_CHARS):
        raise ProtocolError(
            f"{message_id!r} is not an offset message id: it has {len(message_id)} characters, not 32 or 56"
        )
    try:
        data = bytes.fromhex(message_id)
    except ValueError as error:
        raise ProtocolError(f"{message_id!r} is not an offset message id: {error}") from error
    # fromhex accepts blanks.
    if len(data) * 2 != len(message_id):
        raise ProtocolError(f"{message_id!r} is not an offset message id: it contains blanks")
    return data[:-8], int.from_bytes(data[-8:], "big", signed=True)


class UniqueIds:
    """Makes the unique ids of one producer or broker. They are unique up to 65,536 ids per millisecond."""

    def __init__(self, ip: bytes, pid: int, class_loader_hash: int, utc_offset_ms: int = 0) -> None:
        """`ip`: 4 or 16 bytes. `class_loader_hash`: a random number, so that two generators of a process differ.

        `utc_offset_ms`: the time zone in which months begin. RocketMQ's reader of an id's time assumes its own time
        zone.
        """
        self._prefix = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{class_loader_hash & 0xFFFF_FFFF:08X}"
        self._zone_ms = utc_offset_ms
        self._next_month_ms = 0
        self._month_ms = 0
        self._wall_ms = -1
        self._stem = ""
        self._counter = 0

    def next_id(self, wall_ms: int) -> str:
        """Return the next id; `wall_ms` is the current time."""
        if wall_ms != self._wall_ms:
            self._wall_ms = wall_ms
            self._stem = self._prefix + self._since_month(wall_ms)
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return self._stem + _HEX[counter >> 8] + _HEX[counter & 0xFF]

    def _since_month(self, wall_ms: int) -> str:
        if wall_ms >= self._next_month_ms:
            self._month_ms, self._next_month_ms = month_around(wall_ms, self._zone_ms)
        difference_ms = wall_ms - self._month_ms
        if -_DIFFERENCE_KEPT_MS < difference_ms < 0:
            difference_ms = 0
        return f"{difference_ms & 0xFFFF_FFFF:08X}"


def month_around(wall_ms: int, utc_offset_ms: int) -> tuple[int, int]:
    """Return the begin of the month that contains a moment, and of the next month, in a time zone."""
    local = datetime.fromtimestamp((wall_ms + utc_offset_ms) // 1000, UTC)
    first = local.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = (first + timedelta(days=31)).replace(day=1)
    return int(first.timestamp()) * 1000 - utc_offset_ms, int(following.timestamp()) * 1000 - utc_offset_ms
