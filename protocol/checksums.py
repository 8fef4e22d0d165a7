"""CRC-32 for all modules: from zlib-ng if its wheel is installed, otherwise from the standard library.

Both return the same values. zlib-ng takes a third to a sixth of the time, which makes it possible to verify records on
each read. On a platform without the wheel, everything else is the same: docs/decisions/0017.
"""

try:
    from zlib_ng.zlib_ng import crc32
except ImportError:
    from zlib import crc32  # noqa: TID251  # the one place

__all__ = ["crc32"]
