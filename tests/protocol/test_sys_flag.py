"""The bits of sysFlag."""

import pytest

from staticfire.protocol.sys_flag import (
    CompressionKind,
    TransactionKind,
    compression_kind,
    enters_consume_queue,
    transaction_kind,
    with_compression,
    with_transaction_kind,
)


@pytest.mark.parametrize(
    ("sys_flag", "kind", "seen"),
    [
        (0x301, TransactionKind.NONE, True),
        (0x305, TransactionKind.PREPARED, False),
        (0x309, TransactionKind.COMMIT, True),
        (0x30D, TransactionKind.ROLLBACK, False),
    ],
)
def test_only_plain_and_committed_messages_are_seen_by_consumers(
    sys_flag: int, kind: TransactionKind, seen: bool
) -> None:
    assert transaction_kind(sys_flag) is kind
    assert enters_consume_queue(sys_flag) is seen
    assert with_transaction_kind(0x30D, kind) == sys_flag


@pytest.mark.parametrize(
    ("sys_flag", "kind"),
    [
        (0x0, None),
        (0x300, None),
        (0x1, CompressionKind.ZLIB),
        (0x101, CompressionKind.LZ4),
        (0x201, CompressionKind.ZSTD),
        (0x301, CompressionKind.ZLIB),
        (0x401, None),
    ],
)
def test_how_a_body_is_compressed(sys_flag: int, kind: CompressionKind | None) -> None:
    assert compression_kind(sys_flag) is kind


def test_the_bits_of_a_compressed_message() -> None:
    assert with_compression(0x8, CompressionKind.ZLIB) == 0x309
