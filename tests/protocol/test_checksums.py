"""CRC-32 is the same whoever computes it: stores and RocketMQ's clients read what others have written."""

import subprocess
import sys
import zlib

from hypothesis import given, strategies as st

from staticfire.protocol.checksums import crc32
from staticfire.protocol.record import pack_blank
from tests.house.source import ROOT

WITHOUT_ZLIB_NG = """
import sys, zlib
sys.modules["zlib_ng"] = None
from staticfire.protocol.checksums import crc32
from staticfire.protocol.record import pack_blank
assert crc32 is zlib.crc32
print(pack_blank(5000, 4096).hex())
"""


@given(st.binary(max_size=5000))
def test_it_is_the_standard_librarys_value(data: bytes) -> None:
    assert crc32(data) == crc32(memoryview(data)) == crc32(bytearray(data)) == zlib.crc32(data)
    assert crc32(data[7:], crc32(data[:7])) == zlib.crc32(data)


def test_long_data_of_every_alignment_too() -> None:
    data = bytes(range(256)) * 700
    for start in range(64):
        assert crc32(data[start:]) == zlib.crc32(data[start:])


def test_records_are_written_alike_where_there_is_no_wheel() -> None:
    printed = subprocess.run([sys.executable, "-c", WITHOUT_ZLIB_NG], cwd=ROOT, capture_output=True, check=True)
    assert printed.stdout.decode().strip() == pack_blank(5000, 4096).hex()
