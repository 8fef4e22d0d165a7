"""Header fields of HTTP/2: what requests bring, unpacked; what answers need, packed (RFC 7541, HPACK).

The tables and the Huffman code are hpack's. The loop over a block is ours: a client repeats a dozen fields with each
call, one byte each, and here they cost a look-up, as text that was decoded when the field came first. A call of
RocketMQ's Java client takes 14 us so, instead of 72 (docs/decisions/0025-grpc-stack.md).
"""

from functools import lru_cache

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.limits import TransportLimits

TABLE_BYTES_MAX = 4_096
# HPACK's default; we never tell a client another one.
ENTRY_BYTES = 32
# What an entry of the table counts for, besides its texts (RFC 7541, section 4.1).
INTEGER_MAX = 2**31 - 1
UNPACKED_BYTES_MAX = 256 * 1024
_NEEDED = frozenset((":method", ":scheme", ":path"))
_PSEUDO = _NEEDED | {":authority"}
_OF_CONNECTIONS = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))

_Field = tuple[str, str, int]
# Name, value, and what both count for.


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


_STATIC: list[_Field] = [
    (_text(name), _text(value), len(name) + len(value) + ENTRY_BYTES) for name, value in HeaderTable.STATIC_TABLE
]


class HeaderBlock:
    """The packed fields of a request of which not all frames have come."""

    __slots__ = ("_frames_left", "_limits", "data", "flags", "stream_id")

    def __init__(self, stream_id: int, flags: int, limits: TransportLimits) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self.data = bytearray()
        self._limits = limits
        self._frames_left = limits.block_frames_max

    def add(self, payload: bytes) -> None:
        """Add what a frame brings. Raises: Http2Fault when it is too much."""
        self.data += payload
        self._frames_left -= 1
        bytes_max, frames_max = self._limits.block_bytes_max, self._limits.block_frames_max
        if self._frames_left < 0 or len(self.data) > bytes_max:
            words = f"a header block of more than {bytes_max} bytes, or {frames_max} frames"
            raise Http2Fault(H2Code.ENHANCE_YOUR_CALM, words)


class HeaderDecoder:
    """Unpacks the header blocks of one connection, in the order in which they come."""

    def __init__(self, list_bytes_max: int, unpacked_bytes_max: int = UNPACKED_BYTES_MAX) -> None:
        """`list_bytes_max`: of the fields of one request; what is above counts as read, and is left out, up to
        `unpacked_bytes_max`."""
        self._list_bytes_max = list_bytes_max
        self._excess_max = unpacked_bytes_max - list_bytes_max
        self.list_bytes = 0
        """What the fields of the last block count for."""
        self._dynamic: list[_Field] = []  # The newest first.
        self._table_bytes = 0
        self._table_bytes_max = TABLE_BYTES_MAX

    def decode(self, block: bytes) -> tuple[dict[str, str], bool, tuple[str, ...]]:
        """Return the fields by name, whether all fit, and all names in their order; of a name that comes twice, the
        last value.

        Raises: Http2Fault. The connection can't go on, since the table of fields isn't the client's any more.
        """
        try:
            return self._decode(block)
        except (IndexError, HPACKDecodingError) as error:
            words = f"a header block of {len(block)} bytes can't be unpacked: {error}"
            raise Http2Fault(H2Code.COMPRESSION_ERROR, words) from None

    def _decode(self, block: bytes) -> tuple[dict[str, str], bool, tuple[str, ...]]:
        fields: dict[str, str] = {}
        names: list[str] = []
        position, size, left = 0, len(block), self._list_bytes_max
        dynamic = self._dynamic
        while position < size:
            first = block[position]
            if first & 0x80:  # A field of the table.
                index = first & 0x7F
                position += 1
                if index == 0x7F:
                    index, position = _integer(block, position, 0x7F)
                if 0 < index <= 61:
                    field = _STATIC[index - 1]
                else:
                    field = dynamic[_dynamic_index(index)]
            elif first & 0x40:  # A field that is added to the table.
                field, position = self._literal(block, position, 0x3F)
                self._add(field)
            elif first & 0x20:  # The table is to be smaller or larger.
                if fields:
                    raise HPACKDecodingError("the size of the table changes behind a field")
                limit, position = _prefixed(block, position, 0x1F)
                self._resize(limit)
                continue
            else:  # A field that is not added.
                field, position = self._literal(block, position, 0x0F)
            left -= field[2]
            if left >= 0:
                fields[field[0]] = field[1]
                names.append(field[0])
            elif left < -self._excess_max:
                words = f"a header block that unpacks to more than {self._list_bytes_max + self._excess_max} bytes"
                raise Http2Fault(H2Code.ENHANCE_YOUR_CALM, words)
        self.list_bytes = self._list_bytes_max - left
        return fields, left >= 0, tuple(names)

    def _literal(self, block: bytes, position: int, mask: int) -> tuple[_Field, int]:
        index, position = _prefixed(block, position, mask)
        if index == 0:
            name, position = _string(block, position)
            name_text = _text(name)
            name_bytes = len(name)
        else:
            known = _STATIC[index - 1] if index <= 61 else self._dynamic[_dynamic_index(index)]
            name_text = known[0]
            name_bytes = len(name_text)
        value, position = _string(block, position)
        return (name_text, _text(value), name_bytes + len(value) + ENTRY_BYTES), position

    def _add(self, field: _Field) -> None:
        self._dynamic.insert(0, field)
        self._table_bytes += field[2]
        if self._table_bytes > self._table_bytes_max:
            self._shrink()

    def _resize(self, limit: int) -> None:
        if limit > TABLE_BYTES_MAX:
            raise HPACKDecodingError(f"a table of {limit} bytes, more than the {TABLE_BYTES_MAX} that were agreed on")
        self._table_bytes_max = limit
        self._shrink()

    def _shrink(self) -> None:
        while self._table_bytes > self._table_bytes_max:
            self._table_bytes -= self._dynamic.pop()[2]


@lru_cache(maxsize=256)
def fault_of_names(names: tuple[str, ...]) -> str:
    """Return what is wrong with the names of a request's fields, nothing for well-formed ones (RFC 9113, 8.2, 8.3)."""
    pseudo = [name for name in names if name.startswith(":")]
    if not _NEEDED <= set(pseudo) <= _PSEUDO or len(set(pseudo)) < len(pseudo):
        return "its pseudo-header fields are not :method, :scheme, :path and perhaps :authority, once each"
    if any(name.startswith(":") for name in names[len(pseudo) :]):
        return "a pseudo-header field stands behind others"
    if any(name != name.lower() for name in names):
        return "the name of a field isn't in lower case"
    if "" in names:
        return "a field without a name"
    of_connections = _OF_CONNECTIONS.intersection(names)
    return f"a field of HTTP/1 connections: {min(of_connections)}" if of_connections else ""


def fault_of_fields(names: tuple[str, ...], fields: dict[str, str]) -> str:
    """Return what is wrong with the fields of a request, nothing for well-formed ones."""
    fault = fault_of_names(names)
    if fault:
        return fault
    if not fields[":path"]:
        return "an empty :path"
    return "" if fields.get("te", "trailers") == "trailers" else "te is another one than trailers"


def _dynamic_index(index: int) -> int:
    if index < 62:
        raise HPACKDecodingError("field 0 of the table")  # An index below zero would count from the end.
    return index - 62


def _prefixed(block: bytes, position: int, mask: int) -> tuple[int, int]:
    """Return a number whose first bits stand in a byte with others, and the position behind it."""
    value = block[position] & mask
    position += 1
    return (value, position) if value < mask else _integer(block, position, mask)


def _integer(block: bytes, position: int, value: int) -> tuple[int, int]:
    """Return a number that goes on at a position, and the position behind it (RFC 7541, section 5.1)."""
    shift = 0
    while True:
        byte = block[position]
        position += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if value > INTEGER_MAX or shift > 35:
            raise HPACKDecodingError("a number of more than 31 bits")
        if not byte & 0x80:
            return value, position


def _string(block: bytes, position: int) -> tuple[bytes, int]:
    is_packed = block[position] & 0x80
    size, position = _prefixed(block, position, 0x7F)
    end = position + size
    if end > len(block):
        raise HPACKDecodingError("a text ends behind its block")
    data = block[position:end]
    return (decode_huffman(data) if is_packed and data else data), end


def pack_field(name: str, value: bytes) -> bytes:
    """Return a field that is in no table and isn't added to any: what this side writes is the same for every client."""
    encoded = name.encode()
    return b"\x00" + _pack_size(len(encoded)) + encoded + _pack_size(len(value)) + value


def _pack_size(size: int) -> bytes:
    if size < 0x7F:
        return bytes((size,))
    packed, size = bytearray((0x7F,)), size - 0x7F
    while size >= 0x80:
        packed.append(size & 0x7F | 0x80)
        size >>= 7
    packed.append(size)
    return bytes(packed)


STATUS_200 = b"\x88"  # `:status: 200` of the static table.
