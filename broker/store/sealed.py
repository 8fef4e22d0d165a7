"""Small pieces of state with a checksum in front, on one line: `<CRC-32, 8 hex digits> <what it is of>`.

Text, so that a person can read it; the checksum tells a flipped bit or a cut end from what was written.
"""

from staticfire.protocol.checksums import crc32

SEAL_BYTES = 9


def seal(data: bytes) -> bytes:
    """Return data with its checksum in front."""
    return b"%08x %b" % (crc32(data), data)


def unseal(sealed: bytes) -> bytes:
    """Return what was sealed. Raises: ValueError (it isn't what was sealed, or not all of it)."""
    data = sealed[SEAL_BYTES:]
    if sealed[:SEAL_BYTES] != b"%08x " % crc32(data):
        raise ValueError("its checksum does not match: it was changed or cut")
    return data
