"""Compressed bodies."""

import zlib

import pytest

from staticfire.protocol.compression import expand
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.sys_flag import COMPRESSED, CompressionKind, with_compression

BODY = b"the same again, " * 100


def test_a_body_of_an_old_client_is_zlib() -> None:
    assert expand(zlib.compress(BODY), COMPRESSED, len(BODY)) == BODY


def test_a_body_says_how_it_is_compressed() -> None:
    assert expand(zlib.compress(BODY), with_compression(0, CompressionKind.ZLIB), len(BODY)) == BODY


@pytest.mark.parametrize(
    ("body", "sys_flag", "words"),
    [
        (zlib.compress(BODY), with_compression(0, CompressionKind.LZ4), "LZ4, not zlib"),
        (zlib.compress(BODY), COMPRESSED | 0x700, "an unknown kind"),
        (zlib.compress(BODY + b"."), COMPRESSED, "larger than 1600 bytes when it is expanded"),
        (zlib.compress(BODY)[:-1], COMPRESSED, "breaks off"),
        (b"plain", COMPRESSED, "isn't: Error -3"),
        (b"", COMPRESSED, "breaks off"),
    ],
)
def test_what_cannot_be_expanded_is_refused(body: bytes, sys_flag: int, words: str) -> None:
    with pytest.raises(ProtocolError, match=words):
        expand(body, sys_flag, len(BODY))
