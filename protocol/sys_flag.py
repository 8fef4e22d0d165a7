"""The bits of a message's sysFlag. RocketMQ: MessageSysFlag, CompressionType.

Two of them are never taken at their word here: the families of the born host and the store host follow from the
addresses themselves where a record is written.
"""

from enum import IntEnum

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
INNER_BATCH = 0x80
UNSEEN = 0x4
# The bit that prepared and rolled back messages share.
UNUSUAL = UNSEEN | INNER_BATCH
# What a send has to be looked at for.
COMPRESSION_MASK = 0x700


class TransactionKind(IntEnum):
    """What part of a transaction a record is."""

    NONE = 0x0
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC


class CompressionKind(IntEnum):
    """How the body is compressed, as the value in bits 8 to 10."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def transaction_kind(sys_flag: int) -> TransactionKind:
    """Return what part of a transaction a record with these bits is."""
    return TransactionKind(sys_flag & TRANSACTION_MASK)


def with_transaction_kind(sys_flag: int, kind: TransactionKind) -> int:
    """Return the bits with another transaction kind."""
    return sys_flag & ~TRANSACTION_MASK | kind


def enters_consume_queue(sys_flag: int) -> bool:
    """Whether consumers see a record with these bits: neither prepared nor rolled back."""
    return not sys_flag & UNSEEN


def compression_kind(sys_flag: int) -> CompressionKind | None:
    """Return how the body is compressed, None when it isn't or nobody knows that kind.

    Clients older than 5.0 set COMPRESSED alone and mean ZLIB.
    """
    if not sys_flag & COMPRESSED:
        return None
    value = (sys_flag & COMPRESSION_MASK) >> 8
    if value == 0:
        return CompressionKind.ZLIB
    return CompressionKind(value) if value in CompressionKind.__members__.values() else None


def with_compression(sys_flag: int, kind: CompressionKind) -> int:
    """Return the bits of a message whose body was compressed."""
    return sys_flag & ~COMPRESSION_MASK | COMPRESSED | kind << 8
