"""What only a real file system can show: full disks, locks that end with their process, what others leave behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from staticfire.runtime.live import live_machine

files = live_machine().files

LIMITED = """
import os, resource, sys
from staticfire.runtime.live.files import LiveFiles

folder, map_bytes = sys.argv[1], int(sys.argv[2])
file = LiveFiles().open(folder + "/log", map_bytes)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # a write that crosses it is cut short, the next one fails
file.write(0, b"a" * 600)
try:
    file.write(600, b"b" * 600)
except OSError as error:
    print(error.filename, file.size(), bytes(file.read(590, 20)))
"""
HOLD = """
import sys
from staticfire.runtime.live.files import LiveFiles

files = LiveFiles()
lock = files.lock_folder(sys.argv[1])
files.open(sys.argv[1] + "/log").write(0, b"written before the kill")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("map_bytes", "size", "rest"), [(0, 600, b""), (4096, 4096, bytes(10))])
def test_a_write_cut_short_leaves_nothing(tmp_path: Path, map_bytes: int, size: int, rest: bytes) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path), str(map_bytes)]
    unmeasured = dict(os.environ)
    unmeasured.pop("COVERAGE_PROCESS_START", None)  # What measures writes a file of its own, beyond the limit.
    printed = subprocess.run(command, env=unmeasured, capture_output=True, text=True, check=False)
    assert printed.stderr == ""
    assert printed.stdout.strip() == f"{tmp_path}/log {size} {b'a' * 10 + rest!r}"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs Linux's device that is always full")
def test_no_space_is_an_error_that_names_the_file() -> None:
    file = files.open("/dev/full")
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        file.write(0, b"x")
    file.close()


def test_a_killed_process_keeps_its_bytes_and_gives_its_lock_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BlockingIOError, match=f"in use by process {holder.pid}; stop it or use another folder"):
            files.lock_folder(str(tmp_path))
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    files.lock_folder(str(tmp_path)).release()
    assert files.read_bytes(f"{tmp_path}/log") == b"written before the kill"


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    with pytest.raises(OSError, match=f"{tmp_path}/folder'") as caught:
        files.replace(f"{tmp_path}/folder", b"a file can't replace this")
    assert caught.value.filename == f"{tmp_path}/folder"
    assert str(caught.value).endswith("/folder'")
    assert os.listdir(tmp_path) == ["folder"]


def test_a_file_with_secrets_and_its_copies_can_be_read_by_their_owner_only(tmp_path: Path) -> None:
    old_mask = os.umask(0o022)
    try:
        (tmp_path / "config").mkdir()
        files.replace(f"{tmp_path}/config/topics.json", b"{}")
        files.replace(f"{tmp_path}/config/access.json", b"{}")  # As an earlier version wrote it.
        files.replace(f"{tmp_path}/config/access.json", b"{}", is_private=True)
        files.copy(f"{tmp_path}/config", f"{tmp_path}/copy")
    finally:
        os.umask(old_mask)
    for place in ("config", "copy"):
        modes = {each.name: each.stat().st_mode & 0o777 for each in (tmp_path / place).iterdir()}
        assert modes == {"topics.json": 0o644, "access.json": 0o600}


def test_what_a_killed_replacement_left_is_not_listed_and_removed_with_its_folder(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    (store / "topics.json.123-0.tmp").write_bytes(b"half of i")
    files.replace(f"{store}/topics.json", b"{}")
    assert files.list_folder(str(store)) == ["topics.json"]
    files.remove_folder(str(store))
    assert not store.exists()


def test_removing_a_folder_does_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_bytes(b"x")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "link").symlink_to(tmp_path / "precious")
    files.remove_folder(f"{tmp_path}/store")
    assert (tmp_path / "precious" / "file").exists()
    assert not (tmp_path / "store").exists()


def test_a_mapped_file_takes_no_space_for_what_was_not_written(tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/log", 64 << 20)
    file.write(0, b"x")
    file.sync()
    assert (tmp_path / "log").stat().st_size == 64 << 20
    assert (tmp_path / "log").stat().st_blocks * 512 < 1 << 20
    file.close()


def descriptors_below(folder: Path) -> list[int]:
    """Return this process's descriptors of files in a folder. Other threads open and close other ones meanwhile."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            if entry.readlink().is_relative_to(folder):
                found.append(int(entry.name))
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs Linux's list of descriptors")
def test_files_are_not_inherited_by_commands_that_a_process_runs(tmp_path: Path) -> None:
    file, lock = files.open(f"{tmp_path}/log", 4096), files.lock_folder(str(tmp_path))
    ours = descriptors_below(tmp_path)
    assert len(ours) >= 2
    assert not any(map(os.get_inheritable, ours))
    lock.release()
    file.close()


@pytest.mark.parametrize("is_durable", [True, False])
def test_only_what_is_to_survive_waits_for_the_disk(
    is_durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", synced.append)
    monkeypatch.setattr("staticfire.runtime.live.file._fdatasync", synced.append)
    there = live_machine(is_durable=is_durable).files
    there.replace(f"{tmp_path}/table", b"content")
    file = there.open(f"{tmp_path}/log", 4096)
    file.write(0, b"record")
    file.sync()
    file.close()
    there.sync_folder(str(tmp_path))
    assert (there.read_bytes(f"{tmp_path}/table"), there.read_bytes(f"{tmp_path}/log")[:6]) == (b"content", b"record")
    assert len(synced) == (4 if is_durable else 0)


def test_many_files_are_synced_together(tmp_path: Path) -> None:
    if not files.syncs_together:
        pytest.skip("this system has no syncfs that tells of errors")
    written: list[str] = []

    def write() -> None:
        for number in range(3):
            file = files.open(f"{tmp_path}/{number}")
            file.write(0, b"x" * number)
            file.close()
            written.append(str(number))

    files.sync_together(str(tmp_path), write)
    assert written == files.list_folder(str(tmp_path)) == ["0", "1", "2"]
    with pytest.raises(FileNotFoundError):
        files.sync_together(f"{tmp_path}/nowhere", write)
    assert len(written) == 3

    def fail() -> None:
        raise OSError(28, "No space left on device", "queue")

    with pytest.raises(OSError, match="queue"):
        files.sync_together(str(tmp_path), fail)


def test_a_view_of_a_mapped_file_is_what_was_written(tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/log", 4096)
    file.write(10, b"written")
    with file.view(10, 7) as view:
        assert view.tobytes() == b"written"
    file.close()  # Which fails while there is a view.
