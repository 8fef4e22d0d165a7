"""The bits of a message's sysFlag. RocketMQ: MessageSysFlag, CompressionType.

Two of the bits aren't trusted: the address families of the born host and the store host. When a record is written, they
are derived from the addresses themselves.
"""

from enum import IntEnum

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_MASK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
INNER_BATCH = 0x80
# The bit that both prepared and rolled back messages have.
UNSEEN = 0x4
# A send with one of these bits needs extra checks.
UNUSUAL = UNSEEN | INNER_BATCH
COMPRESSION_MASK = 0x700


class TransactionKind(IntEnum):
    """The role of a record in a transaction."""

    NONE = 0x0
    PREPARED = 0x4
    COMMIT = 0x8
    ROLLBACK = 0xC


class CompressionKind(IntEnum):
    """The compression of the body; the value is in bits 8 to 10."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3


def transaction_kind(sys_flag: int) -> TransactionKind:
    """Return the role in a transaction of a record with these bits."""
    return TransactionKind(sys_flag & TRANSACTION_MASK)


def with_transaction_kind(sys_flag: int, kind: TransactionKind) -> int:
    """Return the bits with another transaction kind."""
    return sys_flag & ~TRANSACTION_MASK | kind


def enters_consume_queue(sys_flag: int) -> bool:
    """Return whether consumers see a record with these bits: one that is neither prepared nor rolled back."""
    return not sys_flag & UNSEEN


def compression_kind(sys_flag: int) -> CompressionKind | None:
    """Return the compression of the body; None if it isn't compressed or the kind is unknown.

    Clients older than 5.0 set only COMPRESSED and mean ZLIB.
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
