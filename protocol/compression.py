"""Compress bodies, and expand them within a limit. RocketMQ: Compressor, CompressorFactory.

Supported are zlib streams, LZ4 frames and Zstandard frames. The libraries of the latter two are imported when a body
needs them: `pip install 'staticfire[compression]'`. Brokers store bodies as they were sent and don't need this, with
one exception: RocketMQ's C++ client compresses the body of a whole batch, which must be expanded to find its messages.
"""

import zlib
from typing import Any

from staticfire.protocol.errors import ProtocolError, UsageError
from staticfire.protocol.sys_flag import CompressionKind, compression_kind

INSTALL = "pip install 'staticfire[compression]'"

# The library expands everything that it is given. A slice contains at most 340 blocks of at most 128 KiB each.
ZSTD_SLICE_BYTES = 1_024


def expand(body: bytes, sys_flag: int, bytes_max: int) -> bytes:
    """Return a body without its compression.

    Raises: ProtocolError if the kind is unknown, its library isn't installed, or the body is too large or broken.
    """
    kind = compression_kind(sys_flag)
    if kind is None:
        raise ProtocolError("the compression of a body is unknown; supported are zlib, LZ4 and Zstandard")
    if not has_library(kind):
        raise ProtocolError(f"a body is compressed with {kind.name}, which can't be read here: {INSTALL}")
    if kind is CompressionKind.ZSTD:
        expanded, is_whole = _expand_zstd(body, bytes_max)
    else:
        expanded, is_whole = _expand_at_once(body, kind, bytes_max)
    if len(expanded) > bytes_max:
        raise ProtocolError(f"a body is larger than {bytes_max} bytes when it is decompressed")
    if not is_whole:
        raise ProtocolError("a compressed body is incomplete")
    return expanded


def _expand_at_once(body: bytes, kind: CompressionKind, bytes_max: int) -> tuple[bytes, bool]:
    expander: Any
    if kind is CompressionKind.ZLIB:
        expander = zlib.decompressobj()
    else:
        from lz4.frame import LZ4FrameDecompressor

        expander = LZ4FrameDecompressor()
    try:
        expanded: bytes = expander.decompress(body, bytes_max + 1)
    # lz4 raises only RuntimeError.
    except (zlib.error, RuntimeError) as error:
        raise _broken(kind, error) from None
    return expanded, expander.eof


def _expand_zstd(body: bytes, bytes_max: int) -> tuple[bytes, bool]:
    from zstandard import ZstdDecompressor, ZstdError

    expander = ZstdDecompressor().decompressobj()
    expanded = bytearray()
    try:
        for start in range(0, len(body), ZSTD_SLICE_BYTES):
            expanded += expander.decompress(body[start : start + ZSTD_SLICE_BYTES])
            if expander.eof or len(expanded) > bytes_max:
                break
    except ZstdError as error:
        raise _broken(CompressionKind.ZSTD, error) from None
    return bytes(expanded), expander.eof


def _broken(kind: CompressionKind, error: Exception) -> ProtocolError:
    return ProtocolError(f"a body can't be decompressed with {kind.name.lower()}: {error}")


def compress(body: bytes, kind: CompressionKind, level: int) -> bytes:
    """Return a body as RocketMQ's clients expand it; their LZ4 has no level. The library must be installed."""
    if kind is CompressionKind.ZLIB:
        return zlib.compress(body, level)
    if kind is CompressionKind.LZ4:
        from lz4.frame import compress as compress_lz4

        # RocketMQ's library doesn't support blocks that depend on one another.
        framed: bytes = compress_lz4(body, block_linked=False)
        return framed
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=level).compress(body)


def has_library(kind: CompressionKind) -> bool:
    """Return whether the library for bodies of that kind is installed."""
    try:
        if kind is CompressionKind.LZ4:
            import lz4.frame  # noqa: F401
        elif kind is CompressionKind.ZSTD:
            import zstandard  # noqa: F401
    except ImportError:
        return False
    return True


def checked_kind(name: str) -> CompressionKind:
    """Return the kind that a setting names. Raises: UsageError (unknown, or its library isn't installed)."""
    kind = CompressionKind.__members__.get(name.upper())
    if kind is None:
        known = ", ".join(f'"{one.name.lower()}"' for one in CompressionKind)
        raise UsageError(f"compress_type={name!r} is unknown; known are {known}")
    if not has_library(kind):
        raise UsageError(f'compress_type="{name}" needs a library that isn\'t here: {INSTALL}')
    return kind
