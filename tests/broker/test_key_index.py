"""The key index on a real disk: kept over restarts, made anew when it is broken, cut to the log."""

import asyncio
from itertools import count
from pathlib import Path

import pytest

from staticfire.broker.key_index import (
    BUSY_PAUSE_TIMES,
    IndexedSlice,
    KeyIndex,
    KeyIndexer,
    key_hash,
    keys_of,
    read_slice,
)
from staticfire.broker.store.commit_log import Chunk
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.properties import format_properties
from staticfire.protocol.record import pack_record, pack_topic
from staticfire.runtime.live import live_machine

FOREVER = (1 << 63) - 1
PAID = key_hash(b"orders", b"paid")


def record(position: int, key: str, body: bytes = b"x", sys_flag: int = 0) -> bytes:
    properties = format_properties({"KEYS": key})
    host, topic = bytes(8), pack_topic("orders")
    return pack_record(position, 0, 0, 1_000 + position, 0, sys_flag, 0, 0, 0, host, topic, properties, body)


def records(keys: list[str], position: int = 0) -> bytes:
    data = b""
    for key in keys:
        data += record(position + len(data), key)
    return data


def found(index: KeyIndex, key: int = PAID, limit: int = 10, below: int = FOREVER) -> list[int]:
    return index.find(key, 0, FOREVER, below, limit)


def test_keys_are_the_unique_id_and_all_words() -> None:
    assert keys_of(format_properties({"KEYS": "a  b", "UNIQ_KEY": "id"})) == [b"a", b"b", b"id"]
    assert keys_of(b"") == []


def test_a_slice_ends_before_a_record_that_is_not_whole() -> None:
    data = records(["paid", "paid", "open"])
    part = read_slice(data[:-1], 0)
    assert [position for _, position, _ in part.entries] == [0, len(record(0, "paid"))]
    assert part.end_position == 2 * len(record(0, "paid"))
    assert read_slice(data[:100], 0).wanted_bytes == len(record(0, "paid"))


def test_what_was_rolled_back_has_no_keys() -> None:
    part = read_slice(record(0, "paid", sys_flag=0xC), 0)
    assert part.entries == []
    assert part.end_position > 0


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(StorageError, match="no record at position 7"):
        read_slice(b"\x01" * 100, 7)


def test_the_newest_come_first(tmp_path: Path) -> None:
    index = KeyIndex(str(tmp_path / "keys.sqlite"))
    index.add(IndexedSlice([(PAID, position, position) for position in range(5)], 5, (4, 4), 0))
    assert found(index, limit=2) == [4, 3]
    assert found(index, below=3) == [2, 1, 0]
    assert index.find(PAID, 1, 2, FOREVER, 10) == [2, 1]
    index.close()


def test_it_is_kept_and_cut_to_the_log(tmp_path: Path) -> None:
    path = str(tmp_path / "keys.sqlite")
    index = KeyIndex(path)
    index.add(IndexedSlice([(PAID, position, position) for position in range(5)], 5, (4, 4), 0))
    index.close()
    index = KeyIndex(path)
    assert (index.position, index.last_position, found(index)) == (5, 4, [4, 3, 2, 1, 0])
    index.cut(1, 4)
    assert (index.position, found(index)) == (4, [3, 2, 1])
    index.close()


@pytest.mark.parametrize("is_busy", [False, True])
async def test_it_takes_small_steps_and_long_pauses_while_the_broker_is_busy(tmp_path: Path, is_busy: bool) -> None:
    machine = live_machine()
    store = MessageStore(machine.files, str(tmp_path), StoreSettings(), lambda *_: 0)
    store.open()
    data = b""
    while len(data) < 600 * 1024:
        data += record(len(data), "paid", bytes(10_000))
    store.log.write([Chunk(0, [data])], len(data))
    clock = count(0, int(is_busy))
    indexer = KeyIndexer(machine, str(tmp_path / "index"), store, lambda: next(clock))
    await indexer.open()
    pauses: list[int] = []
    caught_up = asyncio.Event()

    async def pause(pause_ms: int) -> None:
        pauses.append(pause_ms)
        if indexer.last[0] + 20_000 > len(data):
            caught_up.set()

    following = asyncio.create_task(indexer.loop(pause))
    await caught_up.wait()
    following.cancel()
    assert len(pauses) > 15 if is_busy else len(pauses) < 6
    assert pauses[-1] >= (BUSY_PAUSE_TIMES if is_busy else 1)
    await indexer.close()
    store.log.close()
    await machine.workers.close()


async def test_a_broken_index_is_made_anew_from_the_log(tmp_path: Path) -> None:
    machine = live_machine()
    store = MessageStore(machine.files, str(tmp_path), StoreSettings(), lambda *_: 0)
    store.open()
    data = records(["paid", "open"])
    store.log.write([Chunk(0, [data])], len(data))
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "keys.sqlite").write_bytes(b"no database" * 1000)
    indexer = KeyIndexer(machine, str(tmp_path / "index"), store)
    await indexer.open()
    await indexer.catch_up()
    assert await indexer.find("orders", "paid", 0, FOREVER, FOREVER, 10) == [0]
    await indexer.close()
    assert await indexer.find("orders", "paid", 0, FOREVER, FOREVER, 10) == []
    store.log.close()
    await machine.workers.close()
