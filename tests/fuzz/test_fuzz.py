"""A few thousand of each kind: `make test-fuzz` has the many."""

import gc
import tracemalloc
import zlib
from collections.abc import Callable

import pytest

from staticfire.client.cluster.pull_answers import received
from staticfire.protocol.command import RecordBatch
from staticfire.protocol.compression import expand
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.limits import EXPANDED_BYTES_MAX
from staticfire.protocol.record import decode_record, pack_record, pack_topic
from staticfire.protocol.requests.offsets import GetMaxOffset
from staticfire.protocol.sys_flag import CompressionKind, with_compression
from tests.fuzz.__main__ import read_many
from tests.fuzz.corpus import CODECS, STORE_HOST
from tests.fuzz.reading import Reader, connected
from tests.fuzz.records import Records

FRAMES = 1_000
SEED = 2013
BODY_BYTES = 20_000
TIMES = 100
KEPT_BYTES_MAX = 500_000
# A quarter of the bodies that are read.
TIMEOUT_MS = 1_000
ZIPPED = with_compression(0, CompressionKind.ZLIB)
MIB = 1 << 20


def kept_bytes(work: Callable[[], None]) -> int:
    """Return how much memory is still in use after some work."""
    work()
    gc.collect()
    tracemalloc.start()
    try:
        work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", CODECS)
async def test_spoilt_frames_are_refused_and_nothing_else(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATICFIRE_LOG_LEVEL", "error")
    reader = Reader(CODECS[codec], SEED)
    await read_many(reader.read, FRAMES)
    assert all(times > FRAMES // 100 for times in reader.seen.values())
    assert len(reader.seen) == 4


async def test_spoilt_records_are_refused_and_nothing_else() -> None:
    await read_many(Records(SEED).read, FRAMES)


async def test_answers_that_cannot_be_read_leave_nothing_behind() -> None:
    header = b'{"code":0,"flag":1,"opaque":1,"extFields":{"offset":"x"}}'
    frame = (
        (4 + len(header) + BODY_BYTES).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header + bytes(BODY_BYTES)
    )

    def read() -> None:
        for _ in range(TIMES):
            connection = connected(CODECS["JSON"], accepting=False)
            answer = connection.ask(GetMaxOffset("orders", 0), TIMEOUT_MS)
            connection.data_received(frame)
            assert isinstance(answer.exception(), ProtocolError)
            connection.connection_lost(None)

    assert kept_bytes(read) < KEPT_BYTES_MAX


def test_what_would_be_huge_is_not_expanded() -> None:
    bomb = zlib.compress(bytes(2 * EXPANDED_BYTES_MAX), 9)
    record = decode_record(pack_record(0, 0, 0, 0, 0, ZIPPED, 0, 0, 0, STORE_HOST, pack_topic("orders"), b"", bomb))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="larger than"):
            expand(bomb, ZIPPED, MIB)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
        (message,) = received(RecordBatch([record]), "broker-a", None, STORE_HOST)
        assert "larger than" in str(message.undecoded)
        assert message.body == bomb
        assert tracemalloc.get_traced_memory()[1] < 3 * EXPANDED_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_a_level_of_thousands_of_digits_is_none() -> None:
    properties = b"DELAY\x01" + b"9" * 5_000 + b"\x02"
    record = decode_record(pack_record(0, 0, 0, 0, 0, 0, 0, 0, 0, STORE_HOST, pack_topic("orders"), properties, b""))
    [message] = received(RecordBatch([record]), "broker-a", None, STORE_HOST)
    assert message.delay_level == 0
