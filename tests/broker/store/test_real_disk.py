"""The same store on the operating system's files, up to a SIGKILL."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.runtime.live.files import LiveFiles
from tests.broker.store.stand import StoreStand, tags_code_of

ROOT = Path(__file__).parents[3]
SETTINGS = StoreSettings(segment_bytes_max=64 * 1024, queue_file_entries=100)


class RealStand(StoreStand):
    """A store below a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SETTINGS)
        self.store = MessageStore(LiveFiles(), str(folder), SETTINGS, tags_code_of)
        self.report = self.store.open()


@pytest.mark.parametrize("foreign", ["orders/copy.tmp/x", "orders/0/notes.tmp"])
def test_foreign_files_whose_names_are_those_of_unfinished_replacements_are_kept(tmp_path: Path, foreign: str) -> None:
    stand = RealStand(tmp_path)
    stand.send(b"old")
    stand.store.flush()
    path = tmp_path / "consumequeue" / foreign
    path.parent.mkdir(exist_ok=True)
    path.touch()
    stand.store.delete_queues("orders")
    stand.store.close()
    assert path.exists()
    stand = RealStand(tmp_path)
    assert stand.store.queue_ids("orders") == []
    stand.store.close()


def test_messages_are_there_after_a_close(tmp_path: Path) -> None:
    stand = RealStand(tmp_path)
    bodies = [b"%04d" % number * 250 for number in range(300)]
    for start in range(0, 300, 10):
        stand.send(*bodies[start : start + 10])
    assert stand.bodies() == bodies
    stand.store.close()
    stand = RealStand(tmp_path)
    assert stand.report.checked_records == 0
    assert stand.bodies() == bodies
    assert stand.store.remove_segments_before(100_000) == 1
    assert stand.bodies() == bodies[stand.store.queue("orders", 0).min_offset :]
    stand.store.delete_queues("orders")
    stand.send(b"new")
    stand.store.close()
    stand = RealStand(tmp_path)
    assert stand.bodies() == [b"new"]
    stand.store.close()


def test_a_folder_belongs_to_one_store(tmp_path: Path) -> None:
    stand = RealStand(tmp_path)
    with pytest.raises(StorageError, match="in use"):
        RealStand(tmp_path)
    stand.store.close()


def test_bytes_behind_the_last_whole_record_are_cut_off(tmp_path: Path) -> None:
    stand = RealStand(tmp_path)
    stand.send(b"a", b"b")
    end = stand.store.max_position
    stand.store.close()
    (tmp_path / "abort").touch()
    log = tmp_path / "commitlog" / f"{0:020d}"
    with log.open("r+b") as file:
        file.seek(end)
        file.write(b"torn" * 100)
    stand = RealStand(tmp_path)
    assert (stand.report.was_closed, stand.report.cut_bytes, stand.report.is_damaged) == (False, 400, False)
    assert log.read_bytes()[end:].strip(b"\0") == b""
    stand.send(b"c")
    assert stand.bodies() == [b"a", b"b", b"c"]
    stand.store.close()


WRITER = """
import sys
from pathlib import Path
from tests.broker.store.test_real_disk import RealStand
stand = RealStand(Path(sys.argv[1]))
for number in range(1_000_000):
    stand.send(*[b"%d" % number * 20] * 3, queue_id=number % 2)
    if number % 50 == 49:
        stand.store.flush()
    print(number, flush=True)
"""


def test_what_was_acknowledged_is_there_after_a_sigkill(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert writer.stdout is not None
    acknowledged = -1
    with writer:
        for line in writer.stdout:
            acknowledged = int(line)
            if acknowledged == 170:
                writer.send_signal(signal.SIGKILL)
    stand = RealStand(tmp_path)
    assert not stand.report.was_closed
    assert not stand.report.is_damaged
    for queue_id in (0, 1):
        bodies = stand.bodies(queue_id=queue_id)
        numbers = [number for number in range(acknowledged + 1) if number % 2 == queue_id]
        expected = [b"%d" % number * 20 for number in numbers for _ in range(3)]
        assert bodies[: len(expected)] == expected
        assert len(bodies) <= len(expected) + 3
    stand.store.close()
