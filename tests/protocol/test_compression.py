"""Compressed bodies."""

import builtins
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from staticfire.client import ProducerSettings
from staticfire.protocol.compression import checked_kind, compress, expand
from staticfire.protocol.errors import ProtocolError, UsageError
from staticfire.protocol.sys_flag import COMPRESSED, CompressionKind, with_compression
from tests.javafacts.facts import read_facts

BODY = b"the same again, " * 100
KINDS = list(CompressionKind)


def test_a_body_of_an_old_client_is_zlib() -> None:
    assert expand(zlib.compress(BODY), COMPRESSED, len(BODY)) == BODY


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"a", BODY, bytes(range(256)) * 50, b"\x00" * 500_000])
def test_a_body_says_how_it_is_compressed(kind: CompressionKind, body: bytes) -> None:
    assert expand(compress(body, kind, 5), with_compression(0, kind), len(body)) == body


def test_rocketmq_reads_our_bodies() -> None:
    """What its compressors read from them was written down as a CRC; expanded here they have the same one."""
    facts = read_facts("expand")
    assert {fact.parts[1] for fact in facts} == {kind.name for kind in KINDS}
    for fact in facts:
        _, kind, packed = fact.parts
        expanded = expand(bytes.fromhex(packed), with_compression(0, CompressionKind[kind]), 1_000_000)
        assert str(zlib.crc32(expanded)) == fact.answer


def test_blocks_of_lz4_stand_by_themselves() -> None:
    """RocketMQ's library reads no others."""
    assert compress(BODY, CompressionKind.LZ4, 5)[4] & 0x20


def test_we_read_the_bodies_of_rocketmq() -> None:
    for fact in read_facts("pack"):
        _, kind, _, body = fact.parts
        flag = with_compression(0, CompressionKind[kind])
        assert expand(bytes.fromhex(fact.answer), flag, 1_000_000).hex() == body


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_broken_or_too_large_is_refused(kind: CompressionKind) -> None:
    packed, flag = compress(BODY + b".", kind, 5), with_compression(0, kind)
    with pytest.raises(ProtocolError, match="larger than 1600 bytes when it is decompressed"):
        expand(packed, flag, len(BODY))
    for body in (packed[:-1], packed[: len(packed) // 2], packed[:5], b""):
        with pytest.raises(ProtocolError, match=r"is incomplete|can't be decompressed"):
            expand(body, flag, 10_000)
    with pytest.raises(ProtocolError, match=f"can't be decompressed with {kind.name.lower()}:"):
        expand(b"plain text, and long enough", flag, 10_000)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_would_fill_the_memory_is_given_up_early(kind: CompressionKind) -> None:
    packed = compress(b"\x00" * 30_000_000, kind, 1)
    with pytest.raises(ProtocolError, match="larger than 1000 bytes"):
        expand(packed, with_compression(0, kind), 1_000)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ProtocolError, match="is unknown; supported"):
        expand(zlib.compress(BODY), COMPRESSED | 0x700, len(BODY))


@pytest.fixture
def no_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let imports fail as where `staticfire[compression]` isn't installed."""
    real: Callable[..., Any] = builtins.__import__

    def fail(name: str, globals: Mapping[str, Any] | None = None, locals: Mapping[str, Any] | None = None,
             fromlist: Sequence[str] = (), level: int = 0) -> Any:  # fmt: skip
        if name.partition(".")[0] in ("lz4", "zstandard"):
            raise ImportError(name)
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", fail)


@pytest.mark.usefixtures("no_libraries")
@pytest.mark.parametrize("kind", [CompressionKind.LZ4, CompressionKind.ZSTD])
def test_without_the_library_it_says_how_to_get_it(kind: CompressionKind) -> None:
    with pytest.raises(ProtocolError, match=rf"{kind.name}, which can't be read here: pip install 'staticfire\[comp"):
        expand(b"", with_compression(0, kind), 1)
    with pytest.raises(UsageError, match=rf"compress_type=\"{kind.name.lower()}\" needs a library .*: pip install"):
        checked_kind(kind.name.lower())
    assert checked_kind("zlib") is CompressionKind.ZLIB


def test_an_unknown_name_of_a_kind_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'snappy' is unknown; known are zlib, lz4, zstd"):
        ProducerSettings(compress_type="snappy")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"'snappy' is unknown; known are \"lz4\", \"zstd\", \"zlib\""):
        checked_kind("snappy")
