"""Compressed bodies, expanded within a limit. RocketMQ: ZlibCompressor.

Brokers store bodies as they were sent and never need this, but for one thing: RocketMQ's C++ core compresses the body
of a whole batch, which can't be told apart into messages before it is expanded.
"""

import zlib

from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.sys_flag import CompressionKind, compression_kind


def expand(body: bytes, sys_flag: int, bytes_max: int) -> bytes:
    """Return a body without its compression. Raises: ProtocolError: a kind that isn't zlib, too large, or broken."""
    kind = compression_kind(sys_flag)
    if kind is not CompressionKind.ZLIB:
        raise ProtocolError(f"a body is compressed with {'an unknown kind' if kind is None else kind.name}, not zlib")
    expander = zlib.decompressobj()
    try:
        expanded = expander.decompress(body, bytes_max + 1)
    except zlib.error as error:
        raise ProtocolError(f"a body that is said to be compressed with zlib isn't: {error}") from None
    if len(expanded) > bytes_max:
        raise ProtocolError(f"a body is larger than {bytes_max} bytes when it is expanded")
    if not expander.eof:
        raise ProtocolError("a compressed body breaks off")
    return expanded
