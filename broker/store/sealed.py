"""Small pieces of state, each on one line after its checksum: `<CRC-32, 8 hex digits> <data>`.

The state is text, so that people can read it. The checksum detects flipped bits and a missing end.
"""

from staticfire.protocol.checksums import crc32

SEAL_BYTES = 9


def seal(data: bytes) -> bytes:
    """Return the data with its checksum in front."""
    return b"%08x %b" % (crc32(data), data)


def unseal(sealed: bytes) -> bytes:
    """Return the data of `seal`. Raises: ValueError (it was changed, or is incomplete)."""
    data = sealed[SEAL_BYTES:]
    if sealed[:SEAL_BYTES] != b"%08x " % crc32(data):
        raise ValueError("its checksum does not match: it was changed or cut")
    return data
