"""Header fields of HTTP/2 (RFC 7541, HPACK): decodes those of requests, encodes those of responses.

A header block is a sequence of entries, distinguished by the first bits of their first byte:

    1....... a field of the table, by index
    01...... a literal field, which is added to the table
    001..... a new size limit for the table
    000..... a literal field, which isn't added

Indexes 1 to 61 are the static table; from 62 on they are the dynamic table, the newest entry first. The dynamic table
belongs to the connection, so every block must be decoded, in order, even if its request is refused. When the dynamic
table exceeds its size limit, its oldest entries are removed.

The static table and the Huffman decoder come from the package hpack. The loop over a block is our own: a client repeats
a dozen fields with each call, in one byte each, and here each of them costs one look-up of an already decoded text. A
call of RocketMQ's Java client takes 14 us this way, instead of 72 (docs/decisions/0025-grpc-stack.md).
"""

from functools import lru_cache

from hpack.exceptions import HPACKDecodingError
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from staticfire.proxy.transport.frames import H2Code, Http2Fault
from staticfire.proxy.transport.limits import TransportLimits

# HPACK's default. We never send a client another limit.
TABLE_BYTES_MAX = 4_096
# The overhead of each table entry, in addition to name and value (RFC 7541, section 4.1).
ENTRY_BYTES = 32
INTEGER_MAX = 2**31 - 1
UNPACKED_BYTES_MAX = 256 * 1024
_NEEDED = frozenset((":method", ":scheme", ":path"))
_PSEUDO = _NEEDED | {":authority"}
_OF_CONNECTIONS = frozenset(("connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"))

# Name, value, and the size that HPACK counts for both.
_Field = tuple[str, str, int]


_STATIC: list[_Field] = [
    (name.decode(), value.decode(), len(name) + len(value) + ENTRY_BYTES) for name, value in HeaderTable.STATIC_TABLE
]


class HeaderBlock:
    """The encoded fields of a request whose frames haven't all arrived."""

    __slots__ = ("_frames_left", "_limits", "data", "flags", "stream_id")

    def __init__(self, stream_id: int, flags: int, limits: TransportLimits) -> None:
        self.stream_id = stream_id
        self.flags = flags
        self.data = bytearray()
        self._limits = limits
        self._frames_left = limits.block_frames_max

    def add(self, payload: bytes) -> None:
        """Add the payload of a frame. Raises: Http2Fault when the block is too large."""
        self.data += payload
        self._frames_left -= 1
        bytes_max, frames_max = self._limits.block_bytes_max, self._limits.block_frames_max
        if self._frames_left < 0 or len(self.data) > bytes_max:
            words = f"a header block of more than {bytes_max} bytes, or {frames_max} frames"
            raise Http2Fault(H2Code.ENHANCE_YOUR_CALM, words)


class HeaderDecoder:
    """Decodes the header blocks of one connection, in the order in which they arrive."""

    def __init__(self, list_bytes_max: int, unpacked_bytes_max: int = UNPACKED_BYTES_MAX) -> None:
        """`list_bytes_max`: the limit for the fields of one request. Fields above it are decoded and dropped, up to
        `unpacked_bytes_max`."""
        self._list_bytes_max = list_bytes_max
        self._excess_max = unpacked_bytes_max - list_bytes_max
        self.list_bytes = 0
        """The size of the fields of the last block."""
        self._dynamic: list[_Field] = []  # The newest entry first.
        self._table_bytes = 0
        self._table_bytes_max = TABLE_BYTES_MAX

    def decode(self, block: bytes) -> tuple[dict[str, str], bool, tuple[str, ...]]:
        """Return the fields by name (of a repeated name, the last value), whether all fit, and all names in order.

        Raises: Http2Fault. The connection can't continue then, because our table no longer matches the client's.
        """
        try:
            return self._decode(block)
        except (IndexError, HPACKDecodingError) as error:
            words = f"a header block of {len(block)} bytes can't be decoded: {error}"
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
                if index > 61:
                    field = dynamic[index - 62]
                elif index:
                    field = _STATIC[index - 1]
                else:
                    raise HPACKDecodingError("field 0 of the table")
            elif first & 0x40:  # A literal field, which is added to the table.
                field, position = self._literal(block, position, 0x3F)
                self._add(field)
            elif first & 0x20:  # A new size limit for the table.
                if fields:
                    raise HPACKDecodingError("the size of the table changes after a field")
                limit = first & 0x1F
                position += 1
                if limit == 0x1F:
                    limit, position = _integer(block, position, 0x1F)
                self._resize(limit)
                continue
            else:  # A literal field, which isn't added.
                field, position = self._literal(block, position, 0x0F)
            left -= field[2]
            if left >= 0:
                fields[field[0]] = field[1]
                names.append(field[0])
            elif left < -self._excess_max:
                words = f"a header block that decodes to more than {self._list_bytes_max + self._excess_max} bytes"
                raise Http2Fault(H2Code.ENHANCE_YOUR_CALM, words)
        self.list_bytes = self._list_bytes_max - left
        return fields, left >= 0, tuple(names)

    def _literal(self, block: bytes, position: int, mask: int) -> tuple[_Field, int]:
        index = block[position] & mask
        position += 1
        if index == mask:
            index, position = _integer(block, position, mask)
        if index == 0:
            name, name_bytes, position = _string(block, position)
        else:
            name = (_STATIC[index - 1] if index <= 61 else self._dynamic[index - 62])[0]
            name_bytes = len(name)
        value, value_bytes, position = _string(block, position)
        return (name, value, name_bytes + value_bytes + ENTRY_BYTES), position

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
    """Return the problem with the field names of a request, "" if there is none (RFC 9113, 8.2, 8.3)."""
    pseudo = [name for name in names if name.startswith(":")]
    if not _NEEDED <= set(pseudo) <= _PSEUDO or len(set(pseudo)) < len(pseudo):
        return "its pseudo-header fields must be :method, :scheme, :path and optionally :authority, once each"
    if any(name.startswith(":") for name in names[len(pseudo) :]):
        return "a pseudo-header field comes after other fields"
    if any(name != name.lower() for name in names):
        return "the name of a field isn't lower case"
    if "" in names:
        return "a field without a name"
    of_connections = _OF_CONNECTIONS.intersection(names)
    return f"a field of HTTP/1 connections: {min(of_connections)}" if of_connections else ""


def fault_of_fields(names: tuple[str, ...], fields: dict[str, str]) -> str:
    """Return the problem with the fields of a request, "" if there is none."""
    fault = fault_of_names(names)
    if fault:
        return fault
    if not fields[":path"]:
        return "an empty :path"
    return "" if fields.get("te", "trailers") == "trailers" else "te is not trailers"


def _integer(block: bytes, position: int, value: int) -> tuple[int, int]:
    """Return a number that doesn't fit into the low bits of its first byte, and the position after it.

    `value`: those bits, which are all 1; the rest begins at `position` (RFC 7541, section 5.1).
    """
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


def _string(block: bytes, position: int) -> tuple[str, int, int]:
    """Return a text, its size in bytes, and the position after it."""
    is_packed, size = block[position] & 0x80, block[position] & 0x7F
    position += 1
    if size == 0x7F:
        size, position = _integer(block, position, 0x7F)
    end = position + size
    if end > len(block):
        raise HPACKDecodingError("a text ends after its block")
    data = block[position:end]
    if is_packed and data:
        data = decode_huffman(data)
    return data.decode("utf-8", "replace"), len(data), end


def pack_field(name: str, value: bytes) -> bytes:
    """Return a literal field that uses no table: the same bytes are valid for every client, so they can be prepared."""
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


# `:status: 200`, by its index in the static table.
STATUS_200 = b"\x88"
