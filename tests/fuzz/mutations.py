"""Spoils bytes: bits, lengths, types, pieces of others. One seed: the same."""

import random
import struct

LENGTHS = [0, 1, 2, 4, 5, 127, 128, 255, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 16 << 20]
MARKS = bytes.fromhex("0001027f808f909fa0bfc0c1c2c3c4c6c7c9cacbcccfd0d3d4d8d9dbdcdddedfe0ff")
# The types of msgpack, and bytes at the edges.
TOKENS = [
    *(b"null", b"true", b"-0", b"1e400", b"1e999999999", b"9" * 30, b"9" * 700, b"9" * 5000, b"0.1", b"NaN", b"[]"),
    *(
        b"{}",
        b"[" * 200,
        b'{"a":' * 200,
        b"{{}:1}",
        b"{1:2}",
        b"'",
        b'"',
        b"\\",
        b"\\ud800",
        b"\\u0000",
        b"\\x41",
        b",",
    ),
    *(b"\xff\xfe", b"\xed\xa0\x80", b"\x01", b"\x02", b"\x00" * 8, b"\xff" * 8, b"\xdd\xff\xff\xff\xff", b"\xc0"),
    *(b"\xdf\x00\xff\xff\xff", b"\xc6\x7f\xff\xff\xff", b"\x91" * 600, b"\xd3\x80" + b"\0" * 7, b"DELAY\x01-1\x02"),
]
VALUES = [
    b"null",
    b"1",
    b"-1",
    b"1.5",
    b"true",
    b'"x"',
    b'""',
    b"[]",
    b"{}",
    b'{"a":1}',
    b"9223372036854775808",
    b"1e999",
]
SPOILT = [1, 1, 1, 1, 2, 2, 3, 4]
# So many things are wrong at once.
BYTES_MAX = 60_000


class Mutator:
    """Makes spoilt bytes of whole ones, and of pieces of others."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._ways = [
            self._flip, self._flip, self._mark, self._token, self._length, self._remove, self._repeat, self._cut,
            self._splice, self._swap_value, self._swap_value, self._swap_value,
        ]  # fmt: skip

    def spoil(self, data: bytes, other: bytes) -> bytes:
        """Return the bytes with one to four things wrong."""
        spoilt = bytearray(data)
        for _ in range(self.random.choice(SPOILT)):
            self.random.choice(self._ways)(spoilt, other)
        return bytes(spoilt[:BYTES_MAX])

    def spoil_frame(self, frame: bytes, other: bytes) -> bytes:
        """Return a frame that is spoilt somewhere: mostly behind lengths that are right, so that it is looked at."""
        header_end = min(8 + int.from_bytes(frame[5:8], "big"), len(frame))
        kind = self.random.random()
        if kind < 0.2 or len(frame) < 8:
            spoilt = self.spoil(frame, other)
            return struct.pack(">I", len(spoilt) - 4) + spoilt[4:] if kind < 0.1 and len(spoilt) > 8 else spoilt
        codec = frame[4:5] if kind < 0.97 else bytes([self.random.randrange(4)])
        header, body = frame[8:header_end], frame[header_end:]
        if kind < 0.5 or not body:
            header = self.spoil(header, other[8:])
        else:
            body = self.spoil(body, other[header_end:])
        return struct.pack(">I", 4 + len(header) + len(body)) + codec + len(header).to_bytes(3, "big") + header + body

    def pieces(self, data: bytes) -> list[bytes]:
        """Return the bytes as they may come in: at once, or in pieces."""
        if self.random.random() < 0.7 or len(data) < 2:
            return [data]
        cuts = sorted(self.random.randrange(len(data)) for _ in range(self.random.randint(1, 4)))
        return [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True) if end > begin]

    def _at(self, data: bytearray) -> int:
        return int(self.random.random() * len(data))

    def _flip(self, data: bytearray, _: bytes) -> None:
        if data:
            data[self._at(data)] ^= 1 << self.random.randrange(8)

    def _mark(self, data: bytearray, _: bytes) -> None:
        if data:
            data[self._at(data)] = self.random.choice(MARKS)

    def _token(self, data: bytearray, _: bytes) -> None:
        at = self._at(data)
        data[at : at + self.random.choice([0, 0, 1, 4])] = self.random.choice(TOKENS)

    def _length(self, data: bytearray, _: bytes) -> None:
        at, size = self._at(data), self.random.choice([1, 2, 3, 4])
        data[at : at + size] = (self.random.choice([*LENGTHS, len(data)]) & (1 << 8 * size) - 1).to_bytes(size, "big")

    def _remove(self, data: bytearray, _: bytes) -> None:
        at = self._at(data)
        del data[at : at + self.random.randint(1, 8)]

    def _repeat(self, data: bytearray, _: bytes) -> None:
        at = self._at(data)
        data[at:at] = data[at : at + self.random.randint(1, 40)] * self.random.choice([1, 1, 1, 50])

    def _cut(self, data: bytearray, _: bytes) -> None:
        del data[self._at(data) :]

    def _splice(self, data: bytearray, other: bytes) -> None:
        data[self._at(data) :] = other[int(self.random.random() * len(other)) :]

    def _swap_value(self, data: bytearray, _: bytes) -> None:
        """Put another kind of value where JSON has a text."""
        begin = data.find(b'"', self._at(data))
        end = data.find(b'"', begin + 1)
        if 0 <= begin < end:
            data[begin : end + 1] = self.random.choice(VALUES)
