"""Stored bytes that are wrong: nothing whole is ever cut, nothing wrong handed out, nothing lost without a word."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from staticfire.broker.store.damage import LogDamaged
from staticfire.broker.store.findings import MENDED_ENTRY, Finding
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.errors import StorageError
from staticfire.protocol.record import decode_records, join_records
from staticfire.protocol.times import MessageMs
from staticfire.simulation.world.files import SimulatedFiles
from staticfire.simulation.world.history import History
from staticfire.simulation.world.inode import Inode
from staticfire.simulation.world.process import Process
from tests.broker.store.stand import FOLDER, STOPPED, StoreStand, tags_code_of

SETTINGS = StoreSettings(segment_bytes_max=1024, queue_file_entries=8, queue_tail_entries=2, queues_per_flush_max=3)
QUEUES = 2


class DamagedStand(StoreStand):
    """A small store of several segments and two queues, whose disk somebody spoils; and what it has reported."""

    def __init__(self, flushed: bool = True) -> None:
        super().__init__(SETTINGS)
        self.reported: list[Finding] = []
        self.open()
        self.sent: dict[int, list[bytes]] = {0: [], 1: []}
        for number in range(14):
            body = b"%02d" % number + bytes(range(number, number + 90))
            self.send(body, queue_id=number % QUEUES, tag="paid")
            self.sent[number % QUEUES].append(body)
        if flushed:
            self.store.flush()

    def open_with(self, salvage: bool = False) -> None:
        self.kill()
        self._lives += 1
        self.process = Process("broker", "127.0.0.1", self._lives)
        self.files = SimulatedFiles(self.process, self.disk, History(STOPPED))
        settings = StoreSettings(
            **{name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__} | {"salvage": salvage}
        )
        self.store = MessageStore(self.files, FOLDER, settings, tags_code_of, self.reported.append)
        self.report = self.store.open()

    def log_files(self) -> list[str]:
        return sorted(path for path in self.disk.files if "/commitlog/" in path)

    def queue_files(self) -> list[str]:
        return sorted(path for path in self.disk.files if "/consumequeue/" in path)

    def consumed(self, queue_id: int) -> list[bytes]:
        """Pull a queue from its beginning to its end."""
        queue = self.store.queue("orders", queue_id)
        offset, bodies = 0, []
        for _ in range(100):
            found = self.store.read(queue, offset, 32)
            if found.positions:
                bodies += [
                    record.body
                    for record in decode_records(join_records(self.store.records(found), found.record_count))
                ]
            if found.next_offset == offset:
                break
            offset = found.next_offset
        assert offset == queue.max_offset, "the queue is wedged"
        return bodies

    @property
    def is_reported(self) -> bool:
        report = self.report
        return bool(self.reported or report.is_damaged or report.cut_bytes or report.problems or report.rebuilt)

    def check(self) -> list[bytes]:
        """Return what is missing; that has to be reported, and nothing may come that wasn't sent."""
        missing: list[bytes] = []
        for queue_id in range(QUEUES):
            consumed, sent = self.consumed(queue_id), self.sent[queue_id]
            assert [body for body in sent if body in consumed] == consumed, "wrong, doubled or out of order"
            missing += [body for body in sent if body not in consumed]
        assert not missing or self.is_reported
        return missing


@contextmanager
def spoilt(stand: DamagedStand) -> Iterator[None]:
    """Put the disk back afterwards."""
    folders = set(stand.disk.folders)
    saved = {path: (bytes(inode.content), inode.size) for path, inode in stand.disk.files.items()}
    try:
        yield
    finally:
        stand.kill()
        for path in set(stand.disk.files) - set(saved):
            stand.disk.remove(path)
        for path, (content, size) in saved.items():
            if path not in stand.disk.files:
                stand.disk.make_folder(path.rpartition("/")[0])
                stand.disk.open(path)
            inode = stand.disk.files[path]
            inode.content[:] = content
            inode.size = size
        for folder in sorted(set(stand.disk.folders) - folders):
            stand.disk.remove_folder(folder)
        stand.reported.clear()


def flip(inode: Inode, at: int, mask: int) -> None:
    inode.content[at] ^= mask


def survive(stand: DamagedStand, lost_max: int) -> str:
    """Start, by a salvage if need be, and consume; say how it went."""
    how = "started"
    try:
        stand.open_with()
    except LogDamaged:
        how = "refused"
        with pytest.raises(LogDamaged, match=r"/store/commitlog/\d+ .*--salvage"):
            stand.open_with()
        stand.open_with(salvage=True)
        assert stand.report.kept_aside
        assert all(path in stand.disk.files for path in stand.report.kept_aside)
    missing = stand.check()
    assert len(missing) <= lost_max
    # It goes on: what is sent now is there after a restart, and the salvage isn't needed again.
    stand.send(b"new")
    stand.open_with()
    for queue_id, new in ((0, [b"new"]), (1, [])):
        left = [body for body in stand.sent[queue_id] if body not in missing]
        assert stand.consumed(queue_id) == left + new
    return how


def written(stand: DamagedStand, path: str) -> int:
    return len(bytes(stand.disk.files[path].content).rstrip(b"\0"))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "step"), [("killed", 2), ("closed", 3), ("no checkpoint", 7), ("no queues", 11)])
def test_whatever_byte_of_the_log_is_flipped_costs_at_most_its_message(case: str, step: int) -> None:
    stand = DamagedStand(flushed=case != "killed")
    if case == "closed":
        stand.store.close()
    stand.kill()
    if case == "no checkpoint":
        stand.disk.remove("/store/checkpoint")
    if case == "no queues":
        stand.disk.remove_folder("/store/consumequeue")
    outcomes = set()
    number = 0
    for path in stand.log_files():
        for at in range(written(stand, path)):
            number += 1
            if number % step:
                continue
            with spoilt(stand):
                flip(stand.disk.files[path], at, (1, 0x80, 0xFF)[number // step % 3])
                outcomes.add(survive(stand, lost_max=1))
    assert "started" in outcomes or case not in ("closed", "killed")
    assert ("refused" in outcomes) is (case in ("no checkpoint", "no queues")), "behind what was synced it isn't damage"


@pytest.mark.slow
@pytest.mark.parametrize("mask", [1, 0x80, 0xFF])
def test_whatever_byte_of_a_queue_file_is_flipped_costs_nothing(mask: int) -> None:
    stand = DamagedStand()
    stand.store.close()
    for path in stand.queue_files():
        # Of its last entry a start doesn't know that it is the last: that is the checkpoint's business.
        for at in range(len(stand.disk.files[path].content) - 20):
            with spoilt(stand):
                flip(stand.disk.files[path], at, mask)
                stand.open_with()
                missing = stand.check()
                assert not missing, (path, at)


def test_bytes_of_the_log_that_rot_at_run_time_reach_no_consumer() -> None:
    stand = DamagedStand()
    for path in stand.log_files():
        for at in range(0, written(stand, path), 5):
            with spoilt(stand):
                stand.open_with()
                flip(stand.disk.files[path], at, 0x10)
                assert len(stand.check()) <= 1


@pytest.mark.parametrize("closed", [True, False])
def test_wherever_a_file_of_the_log_is_cut_the_rest_is_there_or_refused(closed: bool) -> None:
    stand = DamagedStand()
    if closed:
        stand.store.close()
    stand.kill()
    for path in stand.log_files():
        for size in range(0, written(stand, path), 17):
            with spoilt(stand):
                stand.disk.files[path].truncate(size)
                if closed:
                    stand.disk.remove("/store/checkpoint")
                survive(stand, lost_max=14)


def test_exchanged_files_are_refused_and_both_kept() -> None:
    stand = DamagedStand()
    stand.kill()
    files = stand.log_files()
    assert len(files) > 3
    for one, other in [(0, 1), (1, 2), (len(files) - 2, len(files) - 1)]:
        with spoilt(stand):
            first, second = stand.disk.files[files[one]], stand.disk.files[files[other]]
            first.content, second.content = second.content, first.content
            stand.disk.remove("/store/checkpoint")
            with pytest.raises(LogDamaged, match="contains records of"):
                stand.open_with()
            first.content, second.content = second.content, first.content
            stand.open_with()
            assert stand.check() == []


def test_a_missing_segment_in_the_middle_is_damage() -> None:
    stand = DamagedStand()
    stand.kill()
    stand.disk.remove(stand.log_files()[1])
    stand.disk.remove("/store/checkpoint")
    with pytest.raises(LogDamaged, match=r"Whole messages that follow: \d+ \(\d of queue 0 of orders, \d of queue 1"):
        stand.open_with()
    stand.open_with(salvage=True)
    assert 0 < len(stand.check()) < 8
    assert any("are lost, from offset" in problem for problem in stand.report.problems)


@pytest.mark.parametrize("file", ["checkpoint", "abort", "consumequeue"])
def test_each_other_file_may_be_missing(file: str) -> None:
    stand = DamagedStand()
    stand.store.close() if file == "abort" else stand.kill()
    stand.disk.remove(f"/store/{file}")
    stand.disk.remove_folder(f"/store/{file}")
    stand.open_with()
    assert stand.check() == []


def test_a_bad_sector_is_a_damaged_message_and_not_the_end_of_the_process() -> None:
    stand = DamagedStand()
    stand.store.close()
    path = stand.log_files()[1]
    stand.disk.bad_sectors = [(path, 300, 301)]
    stand.open_with()
    assert len(stand.check()) == 1
    (finding,) = stand.reported
    assert (finding.kind, finding.topic, finding.reason) == ("damaged_record", "orders", "it can't be read")
    assert stand.store.record_at(finding.log_position) is None
    assert stand.store.stored_ms_of(stand.store.queue("orders", finding.queue_id), finding.queue_offset) is None
    stand.disk.remove("/store/checkpoint")
    with pytest.raises(LogDamaged):
        stand.open_with()
    with pytest.raises(StorageError, match="to another disk"):
        stand.open_with(salvage=True)
    stand.disk.bad_sectors = []
    stand.open_with(salvage=True)
    assert len(stand.check()) < 5  # a sector is four messages here


def test_another_error_of_the_disk_is_no_damage() -> None:
    stand = DamagedStand()
    stand.store.close()
    stand.open_with()

    def fail(path: str, position: int, size: int) -> bool:
        raise OSError(errno.ENOMEM, "no memory")

    queue = stand.store.queue("orders", 0)
    stand.disk.is_bad = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="no memory"):
        stand.store.read(queue, 0, 32)
    assert not stand.reported


def test_a_damaged_message_is_reported_once_and_counted_once() -> None:
    stand = DamagedStand()
    stand.store.close()
    stand.open_with()
    flip(stand.disk.files[stand.log_files()[0]], 200, 1)
    for _ in range(3):
        assert len(stand.check()) == 1
    assert len(stand.reported) == stand.store.findings.damaged_records == 1
    assert stand.reported[0].reason == "the CRC of its body does not match"


def test_filtered_reads_are_checked_as_well() -> None:
    stand = DamagedStand()
    stand.store.close()
    stand.open_with()
    queue = stand.store.queue("orders", 0)
    flip(stand.disk.files[stand.log_files()[0]], 200, 1)
    found = stand.store.read(queue, 0, 32, wanted=lambda code: True)
    assert (found.first_offset, found.record_count, found.next_offset) == (1, 6, 7)


def test_a_record_of_a_deleted_topic_is_never_taken_for_one_of_the_new_topic() -> None:
    stand = DamagedStand()
    stand.store.delete_queues("orders")
    stand.send(b"new", b"newer", queue_id=0)
    stand.store.close()
    stand.open_with()
    at = stand.store.queue("orders", 0).entries(0, 1)[0].log_position
    path = stand.log_files()[-1]
    flip(stand.disk.files[path], at - int(path[-20:]) + 110, 1)
    assert stand.consumed(0) == [b"newer"]


def test_on_real_files_a_salvage_leaves_the_damaged_part_beside(tmp_path: Path) -> None:
    from staticfire.runtime.live.files import LiveFiles

    def open_store(salvage: bool = False) -> StoreStand:
        settings = StoreSettings(segment_bytes_max=64 * 1024, salvage=salvage)
        stand = StoreStand(settings)
        stand.open_on_folder(LiveFiles(), str(tmp_path))
        return stand

    stand = open_store()
    bodies = [b"%04d" % number * 250 for number in range(300)]
    stand.send(*bodies)
    stand.store.close()
    (tmp_path / "checkpoint").unlink()
    log = tmp_path / "commitlog" / f"{65536:020d}"
    with log.open("r+b") as file:
        file.seek(5000)
        file.write(b"?")
    with pytest.raises(LogDamaged, match="start once with"):
        open_store()
    stand = open_store(salvage=True)
    assert len(stand.bodies_with_gaps()) == 299
    (kept,) = (tmp_path / "damaged").iterdir()
    assert 1000 < kept.stat().st_size < 1300
    stand.store.close()
    stand = open_store()
    assert len(stand.bodies_with_gaps()) == 299
    stand.store.close()


def test_times_are_found_past_a_damaged_message() -> None:
    stand = StoreStand(SETTINGS)
    stand.open()
    for number in range(9):
        stand.send(b"%d" % number * 40, stored_ms=1000 + number)
    stand.store.close()
    stand.open()
    from staticfire.broker.store.time_search import Boundary

    queue = stand.store.queue("orders", 0)
    position = queue.entries(4, 1)[0].log_position
    segment = stand.store.log.segments.at(position)
    assert segment is not None
    flip(stand.disk.files[segment.path], position - segment.start + 44, 1)
    assert stand.store.search_offset(queue, MessageMs(1002), Boundary.LOWER) == 2
    assert stand.store.search_offset(queue, MessageMs(1007), Boundary.LOWER) == 7


def test_exchanged_queue_files_are_rebuilt() -> None:
    """Also when another queue was read before, with the same records: what was proven is proven of one queue."""
    stand = DamagedStand()
    stand.store.close()
    first, second = (next(path for path in stand.queue_files() if f"/orders/{queue}/" in path) for queue in (0, 1))
    stand.disk.files[first], stand.disk.files[second] = stand.disk.files[second], stand.disk.files[first]
    stand.open_with()
    assert stand.check() == []
    assert {finding.kind for finding in stand.reported} == {MENDED_ENTRY}


def test_retention_takes_nothing_whole_that_lies_before_a_hole() -> None:
    stand = DamagedStand()
    stand.store.close()
    content = stand.disk.files[stand.log_files()[2]].content
    content[:] = bytes(len(content))
    stand.disk.remove("/store/checkpoint")
    stand.open_with(salvage=True)
    stand.store.flush()
    before = {queue_id: stand.consumed(queue_id) for queue_id in range(QUEUES)}
    assert stand.store.remove_segments_before(1024) == 1
    for queue_id, bodies in before.items():
        queue = stand.store.queue("orders", queue_id)
        found = stand.store.read(queue, queue.min_offset, 32)
        assert queue.min_offset == 2
        records = decode_records(join_records(stand.store.records(found), found.record_count))
        assert [record.body for record in records] == bodies[2:]
