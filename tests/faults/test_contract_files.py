"""What the files seam promises, kept by the real file system and by the simulated one."""

import sqlite3
from contextlib import closing

import pytest

from tests.faults.conftest import Stand

MAP_BYTES = 1 << 20


@pytest.fixture(params=[0, MAP_BYTES], ids=["plain", "mapped"])
def map_bytes(request: pytest.FixtureRequest) -> int:
    value: int = request.param
    return value


async def test_what_was_written_is_read_at_once(stand: Stand, map_bytes: int) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log", map_bytes)
    file.write(0, b"hello ")
    file.write(6, bytearray(b"wor"))
    file.write(9, memoryview(b"ld"))
    assert file.read(0, 11) == b"hello world"
    assert file.read(6, 3) == b"wor"
    file.write(0, b"J")
    assert file.read(0, 5) == b"Jello"
    assert type(file.read(0, 5)) is bytes
    file.close()


async def test_a_plain_file_is_as_large_as_what_was_written(stand: Stand) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log")
    assert file.size() == 0
    file.write(10, b"abc")
    assert file.size() == 13
    assert file.read(0, 100) == bytes(10) + b"abc"
    assert file.read(13, 5) == b""
    assert file.read(500, 5) == b""
    file.close()


async def test_a_mapped_file_has_its_size_and_zeros_from_the_start(stand: Stand) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log", MAP_BYTES)
    assert file.size() == MAP_BYTES
    file.write(5, b"abc")
    assert file.read(0, 10) == bytes(5) + b"abc" + bytes(2)
    assert file.read(MAP_BYTES - 2, 10) == bytes(2)
    assert file.read(MAP_BYTES + 5, 10) == b""
    file.write(MAP_BYTES - 3, b"end")
    assert file.read(MAP_BYTES - 4, 10) == b"\0end"
    with pytest.raises(ValueError, match="log: 3 bytes at 1048574 exceed"):
        file.write(MAP_BYTES - 2, b"end")
    file.close()


async def test_a_file_keeps_its_content_when_opened_again(stand: Stand, map_bytes: int) -> None:
    files = stand.machine.files
    file = files.open(f"{stand.folder}/log", map_bytes)
    file.write(0, b"kept")
    file.sync()
    file.close()
    again = files.open(f"{stand.folder}/log", map_bytes)
    assert again.read(0, 4) == b"kept"
    again.close()
    assert files.read_bytes(f"{stand.folder}/log").rstrip(b"\0") == b"kept"


async def test_a_file_larger_than_its_map_is_mapped_whole(stand: Stand) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log")
    file.write(0, b"x" * 5000)
    file.close()
    mapped = stand.machine.files.open(f"{stand.folder}/log", 4096)
    assert mapped.size() == 5000
    assert mapped.read(4990, 100) == b"x" * 10
    mapped.close()


async def test_truncating_cuts_a_plain_file(stand: Stand) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log")
    file.write(0, b"0123456789")
    file.truncate(4)
    assert (file.size(), file.read(0, 10)) == (4, b"0123")
    file.truncate(6)
    assert (file.size(), file.read(0, 10)) == (6, b"0123\0\0")
    file.close()


async def test_truncating_empties_the_rest_of_a_mapped_file(stand: Stand) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log", MAP_BYTES)
    file.write(0, b"0123456789")
    file.truncate(4)
    assert (file.size(), file.read(0, 10)) == (MAP_BYTES, b"0123" + bytes(6))
    file.write(4, b"abc")
    assert file.read(0, 8) == b"0123abc\0"
    file.close()


async def test_a_file_knows_where_its_data_end(stand: Stand, map_bytes: int) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log", map_bytes)
    assert file.data_end() == 0
    file.write(300_000, b"0123456789")
    end = file.data_end()
    assert 300_010 <= end <= max(map_bytes, 300_010), "at least what was written, at most the file's size"
    assert not file.read_unmapped(end, MAP_BYTES).strip(b"\0")
    file.truncate(5)
    assert file.data_end() <= max(map_bytes, 5)
    file.close()


async def test_a_closed_file_refuses_everything(stand: Stand, map_bytes: int) -> None:
    file = stand.machine.files.open(f"{stand.folder}/log", map_bytes)
    file.close()
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write(0, b"x")
    with pytest.raises((OSError, ValueError)):
        file.read(0, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync()


async def test_a_file_needs_its_folder(stand: Stand) -> None:
    with pytest.raises(FileNotFoundError, match="missing/log"):
        stand.machine.files.open(f"{stand.folder}/missing/log")
    with pytest.raises(FileNotFoundError, match="missing/state"):
        stand.machine.files.replace(f"{stand.folder}/missing/state", b"{}")
    with pytest.raises(IsADirectoryError):
        stand.machine.files.open(stand.folder)


async def test_folders_are_made_with_their_parents_and_listed_sorted(stand: Stand) -> None:
    files = stand.machine.files
    files.make_folder(f"{stand.folder}/a/b/c")
    files.make_folder(f"{stand.folder}/a/b/c")
    files.make_folder(f"{stand.folder}/a/10")
    files.open(f"{stand.folder}/a/9").close()
    assert files.list_folder(f"{stand.folder}/a") == ["10", "9", "b"]
    assert files.list_folder(f"{stand.folder}/a/b/") == ["c"]
    assert files.list_folder(f"{stand.folder}/nowhere") == []
    for below in ("", "/nowhere", "/no/where"):
        with pytest.raises(NotADirectoryError, match=f"a/9{below}"):
            files.list_folder(f"{stand.folder}/a/9{below}")
    assert files.exists(f"{stand.folder}/a/b")
    assert files.exists(f"{stand.folder}/a/9")
    assert not files.exists(f"{stand.folder}/a/8")
    with pytest.raises(FileExistsError):
        files.make_folder(f"{stand.folder}/a/9")


async def test_replacing_puts_new_content_in_place(stand: Stand) -> None:
    files, path = stand.machine.files, f"{stand.folder}/state.json"
    with pytest.raises(FileNotFoundError, match=r"state\.json"):
        files.read_bytes(path)
    files.replace(path, b"one")
    files.replace(path, b"")
    assert files.read_bytes(path) == b""
    files.replace(path, b"three")
    assert files.read_bytes(path) == b"three"
    assert files.list_folder(stand.folder) == ["state.json"]


async def test_a_part_of_a_file_is_read_without_opening_it(stand: Stand) -> None:
    files, path = stand.machine.files, f"{stand.folder}/state"
    files.replace(path, b"0123456789")
    assert files.read_part(path, 2, 3) == b"234"
    assert files.read_part(path, 8, 5) == b"89"
    assert files.read_part(path, 10, 5) == b""
    assert files.read_part(f"{stand.folder}/missing", 0, 5) == b""
    assert files.read_part(f"{path}/in-a-file", 0, 5) == b""
    assert not files.exists(f"{stand.folder}/missing")
    with pytest.raises(IsADirectoryError):
        files.read_part(stand.folder, 0, 5)


async def test_the_names_in_a_folder_are_synced(stand: Stand) -> None:
    files = stand.machine.files
    files.make_folder(f"{stand.folder}/a")
    files.open(f"{stand.folder}/a/x").close()
    files.sync_folder(f"{stand.folder}/a")
    files.sync_folder(stand.folder)
    assert files.list_folder(f"{stand.folder}/a") == ["x"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        files.sync_folder(f"{stand.folder}/nowhere")


async def test_removing_is_fine_when_there_is_nothing(stand: Stand) -> None:
    files = stand.machine.files
    files.remove(f"{stand.folder}/nothing")
    files.remove_folder(f"{stand.folder}/nothing")
    files.replace(f"{stand.folder}/something", b"x")
    files.remove(f"{stand.folder}/something")
    assert not files.exists(f"{stand.folder}/something")


async def test_only_an_empty_folder_is_removed_as_one(stand: Stand) -> None:
    files, folder = stand.machine.files, f"{stand.folder}/a"
    assert files.remove_empty_folder(folder)
    files.make_folder(f"{folder}/b.tmp")
    assert not files.remove_empty_folder(folder)
    assert files.remove_empty_folder(f"{folder}/b.tmp")
    assert files.remove_empty_folder(folder)
    assert not files.exists(folder)


async def test_a_folder_is_removed_with_all_in_it(stand: Stand) -> None:
    files = stand.machine.files
    files.make_folder(f"{stand.folder}/a/b/c")
    files.replace(f"{stand.folder}/a/x", b"x")
    files.replace(f"{stand.folder}/a/b/c/y", b"y")
    files.replace(f"{stand.folder}/z", b"z")
    files.remove_folder(f"{stand.folder}/a")
    assert files.list_folder(stand.folder) == ["z"]
    assert not files.exists(f"{stand.folder}/a/b/c/y")


async def test_a_removed_file_can_be_used_by_who_has_it_open(stand: Stand, map_bytes: int) -> None:
    files = stand.machine.files
    file = files.open(f"{stand.folder}/log", map_bytes)
    file.write(0, b"old")
    files.remove(f"{stand.folder}/log")
    file.write(3, b"er")
    assert file.read(0, 5) == b"older"
    assert not files.exists(f"{stand.folder}/log")
    file.close()


async def test_a_folder_has_one_user(stand: Stand) -> None:
    lock = stand.machine.files.lock_folder(stand.folder)
    with pytest.raises(BlockingIOError, match=f"{stand.folder} is in use by process {stand.machine.identity.pid}"):
        stand.other.files.lock_folder(stand.folder)
    with pytest.raises(BlockingIOError):
        stand.machine.files.lock_folder(stand.folder)
    lock.release()
    lock.release()
    second = stand.other.files.lock_folder(stand.folder)
    lock.release()
    with pytest.raises(BlockingIOError):
        stand.machine.files.lock_folder(stand.folder)
    second.release()
    assert stand.machine.files.list_folder(stand.folder) == ["lock"]


async def test_only_a_folder_that_exists_can_be_locked(stand: Stand) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        stand.machine.files.lock_folder(f"{stand.folder}/nowhere")


async def test_how_full_the_disk_is(stand: Stand) -> None:
    use = stand.machine.files.disk_usage(stand.folder)
    assert 0 <= use.used_bytes <= use.total_bytes
    assert 0 <= use.percent <= 100
    with pytest.raises(FileNotFoundError, match="nowhere"):
        stand.machine.files.disk_usage(f"{stand.folder}/nowhere")


async def test_a_database_can_be_kept(stand: Stand) -> None:
    with closing(sqlite3.connect(stand.machine.files.database_path(f"{stand.folder}/keys.sqlite"))) as database:
        database.execute("CREATE TABLE numbers (number INTEGER)")
        database.execute("INSERT INTO numbers VALUES (42)")
        assert database.execute("SELECT number FROM numbers").fetchall() == [(42,)]


async def test_a_copy_has_all_of_a_folder_and_lives_its_own_life(stand: Stand, map_bytes: int) -> None:
    files, place = stand.machine.files, stand.folder
    files.make_folder(f"{place}/from/inner")
    file = files.open(f"{place}/from/inner/log", map_bytes)
    file.write(0, b"hello")
    files.replace(f"{place}/from/small", b"{}")
    assert files.copy(f"{place}/from", f"{place}/to") >= 7
    file.write(0, b"J")
    file.close()
    assert files.list_folder(f"{place}/to") == ["inner", "small"]
    assert files.read_part(f"{place}/to/inner/log", 0, 5) == b"hello"
    with pytest.raises(FileNotFoundError):
        files.copy(f"{place}/nowhere", f"{place}/to-2")
    files.move(f"{place}/to", f"{place}/moved")
    assert not files.exists(f"{place}/to")
    assert files.read_part(f"{place}/moved/inner/log", 0, 5) == b"hello"
    files.move(f"{place}/moved/small", f"{place}/small")
    assert files.read_bytes(f"{place}/small") == b"{}"
