"""The key index on a real disk: it follows the log, is kept over restarts, and made anew when it is broken."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path

import pytest

from staticfire.broker.key_index import BUSY_PAUSE_TIMES, KeyIndexer, keys_of, read_slice
from staticfire.broker.store.commit_log import Chunk
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.properties import format_properties
from staticfire.protocol.record import pack_blank, pack_record, pack_topic
from staticfire.runtime.live import live_machine

pytestmark = [pytest.mark.row("F3"), pytest.mark.row("F4")]

FOREVER = (1 << 63) - 1
# A segment that ends after everything.
END = 1 << 40
PAID_OPEN = ["paid", "open"]


def record(position: int, key: str, body: bytes = b"x", sys_flag: int = 0) -> bytes:
    properties = format_properties({"KEYS": key})
    host, topic = bytes(8), pack_topic("orders")
    return pack_record(position, 0, 0, 1_000 + position, 0, sys_flag, 0, 0, 0, host, topic, properties, body)


def records(keys: list[str], position: int = 0) -> bytes:
    data = b""
    for key in keys:
        data += record(position + len(data), key)
    return data


def test_keys_are_the_unique_id_and_all_words() -> None:
    assert keys_of(format_properties({"KEYS": "a  b", "UNIQ_KEY": "id"})) == [b"a", b"b", b"id"]
    assert keys_of(b"") == []


def test_a_slice_ends_before_a_record_that_is_not_whole() -> None:
    data = records(["paid", "paid", "open"])
    part = read_slice(data[:-1], 0, END)
    assert [position for _, position, _ in part.entries] == [0, len(record(0, "paid"))]
    assert part.end_position == 2 * len(record(0, "paid"))
    assert read_slice(data[:100], 0, END).wanted_bytes == len(record(0, "paid"))


def test_what_was_rolled_back_has_no_keys() -> None:
    part = read_slice(record(0, "paid", sys_flag=0xC), 0, END)
    assert part.entries == []
    assert part.end_position > 0


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(StorageError, match="no record at position 7"):
        read_slice(b"\x01" * 100, 7, END)


@pytest.mark.parametrize("damage", [b"\xff", b"\xc3"])
def test_a_damaged_topic_is_damage_and_no_crash(damage: bytes) -> None:
    data = record(0, "paid")
    at = data.index(b"orders")
    with pytest.raises(StorageError, match="position 7 of the log is damaged"):
        read_slice(data[:at] + damage + data[at + 1 :], 7, END)


@pytest.mark.parametrize("size", [0, 1, 27, 30, 108, 1 << 31])
def test_a_damaged_size_is_damage_and_no_endless_loop(size: int) -> None:
    whole, damaged = record(0, "paid"), bytearray(record(0, "paid"))
    damaged[4:8] = size.to_bytes(4, "big")
    for data in (bytes(damaged) + whole, bytes(damaged)[:40]):
        assert (part := read_slice(whole + data, 0, END)).end_position == len(whole)
        assert [position for _, position, _ in part.entries] == [0]
        if size < 1 << 31:
            with pytest.raises(StorageError, match="no record at position 7"):
                read_slice(data, 7, END)
        else:
            assert read_slice(data, 7, END).wanted_bytes == size


@pytest.mark.parametrize("size", [0, 26, 41, 1 << 31])
def test_a_blank_with_a_damaged_size_skips_nothing_behind_its_segment(size: int) -> None:
    whole = record(0, "paid")
    blank, end = bytearray(pack_blank(len(whole), 40)), len(whole) + 40
    assert read_slice(whole + bytes(blank), 0, end).end_position == end
    blank[4:8] = size.to_bytes(4, "big")
    assert read_slice(whole + bytes(blank), 0, end).end_position == len(whole)
    with pytest.raises(StorageError, match=f"no record at position {len(whole)}"):
        read_slice(bytes(blank), len(whole), end)


async def test_only_a_damaged_record_is_missing_in_the_index(tmp_path: Path) -> None:
    keys = ["one", "two", "three", "four", "five"]
    async with indexer_of(tmp_path, keys) as indexer:
        size = len(records(["one", "two"]))
        path = tmp_path / "commitlog" / f"{0:020d}"
        with path.open("r+b") as log:
            log.seek(size + 4)
            log.write(bytes(4))
        await indexer.open()
        found = [len(await positions(indexer, key, keys)) for key in keys]
        assert found == [1, 1, 0, 1, 1]
        await indexer.close()


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


@contextlib.asynccontextmanager
async def indexer_of(folder: Path, keys: list[str]) -> AsyncIterator[KeyIndexer]:
    """An index that isn't open yet, of a log with messages of these keys."""
    machine = live_machine()
    store = MessageStore(machine.files, str(folder), StoreSettings(), lambda *_: 0)
    store.open()
    data = records(keys)
    if store.max_position < len(data):
        store.log.write([Chunk(0, [data])], len(data))
    yield KeyIndexer(machine, str(folder / "index"), store)
    store.log.sync()
    store.close()
    await machine.workers.close()


async def positions(indexer: KeyIndexer, key: str, keys: list[str] = PAID_OPEN) -> list[int]:
    await indexer.catch_up(len(records(keys)))
    return await indexer.find("orders", key, 0, FOREVER, FOREVER, 10)


async def test_a_broken_index_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "keys.sqlite").write_bytes(b"no database" * 1000)
    async with indexer_of(tmp_path, PAID_OPEN) as indexer:
        await indexer.open()
        assert await positions(indexer, "paid") == [0]
        await indexer.close()
        assert await positions(indexer, "paid") == []


async def test_an_index_that_breaks_while_it_is_used_is_rebuilt_and_reports_what_it_lacks(tmp_path: Path) -> None:
    keys = [f"key-{number}" for number in range(3_000)]
    size = len(records(keys))
    async with indexer_of(tmp_path, keys) as indexer:
        await indexer.open()
        assert await positions(indexer, "key-77", keys)
        await indexer.close()
        path = tmp_path / "index" / "keys.sqlite"
        data = bytearray(path.read_bytes())
        data[8192:] = bytes(len(data) - 8192)  # The pages behind the first two.
        path.write_bytes(data)
        await indexer.open()
        assert await indexer.find("orders", "key-77", 0, FOREVER, FOREVER, 10) == []
        assert indexer.lacks(size) == size
        assert len(await positions(indexer, "key-77", keys)) == 1
        assert indexer.lacks(size) == 0
        await indexer.close()
        assert indexer.lacks(size) == size  # Nobody can look now.


async def test_what_was_in_memory_when_it_was_killed_is_read_again(tmp_path: Path) -> None:
    keys = [f"key-{number}" for number in range(100)]
    async with indexer_of(tmp_path, keys) as indexer:
        await indexer.open()
        assert len(await positions(indexer, "key-77", keys)) == 1
    async with indexer_of(tmp_path, keys) as again:  # The first one was never closed.
        await again.open()
        assert again.lacks(len(records(keys)))
        assert len(await positions(again, "key-77", keys)) == 1
        await again.close()
    async with indexer_of(tmp_path, keys) as closed:
        await closed.open()
        assert closed.lacks(len(records(keys))) == 0
        assert len(await closed.find("orders", "key-77", 0, FOREVER, FOREVER, 10)) == 1
        await closed.close()


@pytest.mark.parametrize("lies_there", ["index", "index/keys.sqlite/x"])
async def test_what_lies_in_the_way_of_the_index_keeps_no_broker_from_starting(tmp_path: Path, lies_there: str) -> None:
    path = tmp_path / lies_there
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")
    async with indexer_of(tmp_path, PAID_OPEN) as indexer:
        await indexer.open()
        assert await positions(indexer, "paid") == []
        assert indexer.lacks(len(records(PAID_OPEN)))
        for gone in (path, path.parent) if "sqlite" in lies_there else (path,):
            gone.rmdir() if gone.is_dir() else gone.unlink()
        caught_up = asyncio.Event()

        async def pause(pause_ms: int) -> None:
            await asyncio.sleep(0)
            if not indexer.lacks(len(records(PAID_OPEN))):
                caught_up.set()

        following = asyncio.create_task(indexer.loop(pause))
        await caught_up.wait()
        following.cancel()
        assert await positions(indexer, "paid") == [0]
        await indexer.close()
