"""No file of a queue is lost without a word, what the log has of it is made anew, and no offset is given twice."""

import errno
from collections.abc import Callable

import pytest

from staticfire.broker.store.findings import REBUILT_QUEUE, Finding
from staticfire.broker.store.settings import StoreSettings
from staticfire.broker.store.store import MessageStore
from staticfire.simulation.world.files import SimulatedFiles
from staticfire.simulation.world.history import History
from staticfire.simulation.world.process import Process, ProcessKilled
from tests.broker.store.stand import (
    BODIES,
    ENDS,
    FOLDER,
    LOG,
    QUEUES,
    STOPPED,
    StoreStand,
    filled,
    noted_ends,
    tags_code_of,
)


@pytest.fixture
def stand() -> StoreStand:
    return filled()


def files_of_queue(stand: StoreStand) -> list[str]:
    return sorted(path for path in stand.disk.files if path.startswith(f"{QUEUES}/orders/0/"))


def zero(stand: StoreStand, *paths: str) -> None:
    for path in paths:
        content = stand.disk.files[path].content
        content[:] = bytes(len(content))


LOSSES: dict[str, Callable[[StoreStand], None]] = {
    "the last file is removed": lambda stand: stand.disk.remove(files_of_queue(stand)[-1]),
    "the last file is cut by an entry": lambda stand: stand.disk.files[files_of_queue(stand)[-1]].truncate(7 * 20),
    "the last file is cut in an entry": lambda stand: stand.disk.files[files_of_queue(stand)[-1]].truncate(8 * 20 - 1),
    "the last file is emptied": lambda stand: stand.disk.files[files_of_queue(stand)[-1]].truncate(0),
    "the last file is zeroed": lambda stand: zero(stand, files_of_queue(stand)[-1]),
    "all files are zeroed": lambda stand: zero(stand, *files_of_queue(stand)),
    "the queue's folder is removed": lambda stand: stand.disk.remove_folder(f"{QUEUES}/orders/0"),
    "the topic's folder is removed": lambda stand: stand.disk.remove_folder(f"{QUEUES}/orders"),
    "the last file can't be read": lambda stand: stand.disk.bad_sectors.append((files_of_queue(stand)[-1], 0, 160)),
}


@pytest.mark.row("F4")
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("closed", [True, False])
def test_a_queue_that_lost_its_end_is_rebuilt_from_the_log(stand: StoreStand, loss: str, closed: bool) -> None:
    if not closed:
        stand.open()
        stand.kill()
    LOSSES[loss](stand)
    report = stand.open()
    stand.disk.bad_sectors.clear()
    assert (report.short_queues, report.rebuilt, report.is_damaged) == (1, False, False)
    assert "rebuilt from the log (queue 0 of orders)" in report.problems[0]
    assert stand.bodies() == BODIES
    (new,) = stand.send(b"new")
    assert new.settled[0][0] == len(BODIES)
    for _ in range(2):
        stand.store.close()
        assert stand.open().short_queues == 0
        assert stand.bodies() == [*BODIES, b"new"]


@pytest.mark.row("F4")
def test_a_queue_whose_messages_retention_has_removed_continues_where_it_ended(stand: StoreStand) -> None:
    stand.open()
    stand.send(*BODIES, topic="bills", queue_id=3)
    stand.store.flush()
    stand.store.remove_segments_before(stand.store.max_position - 100)
    assert stand.bodies() == []
    stand.store.close()
    stand.disk.remove_folder(f"{QUEUES}/orders")
    report = stand.open()
    assert report.problems[1].startswith("queue 0 of orders continues at its former end, offset 40")
    for _ in range(3):
        queue = stand.store.queue("orders", 0)
        assert (queue.min_offset, queue.max_offset) == (40, 40)
        stand.store.close()
        assert stand.open().short_queues == 0, "it is told once"
    (new,) = stand.send(b"new")
    assert new.settled[0][0] == 40
    stand.restart()
    assert stand.bodies() == [b"new"]


@pytest.mark.parametrize("lost", ["/store/checkpoint", QUEUES])
def test_offsets_continue_after_a_rebuild_of_all_queues(stand: StoreStand, lost: str) -> None:
    stand.open()
    stand.send(*BODIES, topic="bills", queue_id=3)
    stand.store.flush()
    stand.store.remove_segments_before(stand.store.max_position - 100)
    stand.store.close()
    stand.disk.remove(lost)
    stand.disk.remove_folder(lost)
    assert stand.open().rebuilt
    for _ in range(2):
        assert stand.store.queue("orders", 0).max_offset == 40
        assert stand.store.queue("bills", 3).max_offset == 41
        stand.restart()


def test_a_hole_at_a_queues_end_is_passed_by_readers_and_by_those_who_search_times(stand: StoreStand) -> None:
    stand.disk.remove(max(path for path in stand.disk.files if "/commitlog/" in path))
    assert stand.open().is_damaged
    left = stand.bodies_with_gaps()
    assert left == BODIES[: len(left)]
    assert 0 < len(left) < len(BODIES)
    stand.send(b"new")
    assert stand.bodies_with_gaps() == [*left, b"new"]
    queue = stand.store.queue("orders", 0)
    assert stand.store.read(queue, len(left), 2).next_offset == len(left) + 2
    assert stand.store.entries(queue, len(BODIES) - 1, 1)[0].record_bytes == 0
    assert stand.store.findings.damaged_records == 0, "it was told by the start"


def test_a_deleted_topic_begins_at_0_whatever_was_noted_of_it(stand: StoreStand) -> None:
    stand.open()
    stand.store.delete_queues("orders")
    stand.store.close()
    for _ in range(2):
        assert stand.open().problems == ()
        assert stand.store.queue("orders", 0).max_offset == 0
        stand.store.close()
    stand.open()
    stand.send(b"new")
    stand.store.close()
    stand.disk.remove_folder(f"{QUEUES}/orders")
    assert stand.open().short_queues == 1
    assert stand.bodies() == [b"new"]


@pytest.mark.parametrize("has_foreign_file", [False, True])
def test_a_deletion_that_is_forgotten_because_its_records_are_gone_stays_one(
    stand: StoreStand, has_foreign_file: bool
) -> None:
    stand.open()
    if has_foreign_file:
        stand.disk.make_folder(f"{QUEUES}/orders/0")
        stand.files.open(f"{QUEUES}/orders/0/notes.txt").close()
    stand.store.delete_queues("orders")
    stand.send(*BODIES, topic="bills", queue_id=3)
    stand.store.flush()
    stand.store.remove_segments_before(stand.store.max_position)
    stand.restart()
    assert "orders" in stand.store.deletions, "somebody's state may not have been saved since"
    for _ in range(3):
        stand.store.close()
        stand.open()
        assert stand.store.queue("orders", 0).max_offset == 0
    assert stand.store.deletions == {}


def test_a_deletion_after_the_log_lost_its_end_counts_although_the_lost_end_was_noted_behind_it(
    stand: StoreStand,
) -> None:
    stand.disk.remove_folder(f"{FOLDER}/commitlog")
    stand.open()
    stand.store.delete_queues("orders")
    for _ in range(2):
        stand.restart()
        assert stand.store.queue("orders", 0).max_offset == 0
        assert stand.store.queue("bills", 3).max_offset == 1


def test_a_deletion_during_the_round_that_notes_the_queue_counts(stand: StoreStand) -> None:
    stand.open()
    stand.send(b"new")
    for number, step in enumerate(stand.store.flush_steps()):
        step.carry_out()
        if number == 2:
            assert len(noted_ends(stand)) == 2
            stand.store.delete_queues("orders")
    stand.restart()
    assert stand.store.queue("orders", 0).max_offset == 0


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 20), (0, 35), (10, 11), (10, 39)])
def test_entries_that_were_zeroed_before_the_last_are_rebuilt_as_they_are_read(
    stand: StoreStand, first: int, last: int
) -> None:
    for path in files_of_queue(stand):
        start = int(path[-20:]) // 20
        for offset in range(max(first, start), min(last, start + 16)):
            stand.disk.files[path].write((offset - start) * 20, bytes(20))
    assert stand.open().short_queues == 0
    assert stand.bodies() == BODIES
    assert stand.store.findings.mended_entries == last - first


def test_a_queue_that_begins_within_a_file_is_not_taken_for_one_with_zeroed_entries(stand: StoreStand) -> None:
    stand.open()
    stand.store.remove_segments_before(5_000)
    left = stand.bodies()
    stand.store.close()
    stand.disk.remove("/store/checkpoint")
    for _ in range(3):
        stand.open()
        queue = stand.store.queue("orders", 0)
        assert (queue.min_offset, queue.max_offset) == (40 - len(left), 40)
        assert queue.min_offset % 16
        assert stand.store.read(queue, 0, 32).next_offset == queue.min_offset
        assert stand.bodies() == left
        stand.store.close()
    assert stand.store.findings.mended_entries == 0


def test_such_a_queue_of_an_older_version_stays_as_it_is(stand: StoreStand) -> None:
    stand.open()
    stand.store.remove_segments_before(5_000)
    left = stand.bodies()
    first = 40 - len(left)
    stand.store.close()
    path = next(path for path in files_of_queue(stand) if int(path[-20:]) // 20 == first - first % 16)
    for older in files_of_queue(stand):
        if older < path:
            stand.disk.remove(older)
    stand.disk.files[path].write(0, bytes(first % 16 * 20))
    stand.disk.remove(ENDS)
    stand.files.replace("/store/checkpoint", b"[%d,%d,1000,-1,16,0]" % ((stand.store.max_position,) * 2))
    for _ in range(2):
        stand.open()
        assert stand.store.queue("orders", 0).min_offset == first
        assert stand.bodies() == left
        stand.store.close()
    assert stand.store.findings.mended_entries == 0


def test_a_rebuild_may_be_killed_at_any_step(stand: StoreStand) -> None:
    image = stand.disk.image
    for at_step in range(1, 60):
        saved = image()
        stand.disk.remove_folder(f"{QUEUES}/orders")
        stand.disk.files[LOG].content[50] ^= 1
        steps = 0

        def before(*_: object, at_step: int = at_step) -> None:
            nonlocal steps
            steps += 1
            if steps == at_step:
                raise ProcessKilled

        stand.disk.before = before
        try:
            stand.open()
            stand.store.flush()
        except ProcessKilled:
            pass
        stand.disk.before = None
        stand.restart()
        assert stand.bodies_with_gaps() == BODIES[1:]
        assert stand.store.queue("orders", 0).max_offset == 40
        stand.kill()
        stand.disk.put_back(saved)


# --- what a start doesn't look at


@pytest.fixture
def reported(stand: StoreStand) -> list[Finding]:
    """What a store reports after a start that has checked one queue, which was whole."""
    reported: list[Finding] = []
    settings = StoreSettings(segment_bytes_max=4096, queue_file_entries=16, queues_checked_at_start=1)
    stand.open()
    stand.send(*BODIES, topic="shipments")
    stand.store.close()
    stand.open()
    stand.kill()
    stand.disk.remove_folder(f"{QUEUES}/shipments")
    stand.disk.remove_folder(f"{QUEUES}/bills/3")
    stand.process = Process("broker", "127.0.0.1", 9)
    stand.files = SimulatedFiles(stand.process, stand.disk, History(STOPPED))
    stand.store = MessageStore(stand.files, FOLDER, settings, tags_code_of, reported.append)
    assert stand.store.open().short_queues == 0
    return reported


def test_a_queue_that_a_start_did_not_check_is_rebuilt_at_its_first_use(
    stand: StoreStand, reported: list[Finding]
) -> None:
    stand.send(b"written meanwhile")
    assert stand.bodies(topic="shipments") == BODIES
    assert [(it.kind, it.topic, it.queue_offset) for it in reported] == [
        (REBUILT_QUEUE, "shipments", 40),
        (REBUILT_QUEUE, "bills", 1),
    ]
    assert stand.bodies(topic="bills", queue_id=3) == [b"other"]
    stand.store.flush()
    stand.restart()
    assert stand.bodies(topic="shipments") == BODIES


def test_workers_look_at_all_queues(stand: StoreStand, reported: list[Finding]) -> None:
    assert [look() for look in stand.store.looks_at_ends()] == [False]
    stand.store.mend_short_queues()
    assert len(reported) == 2
    assert [look() for look in stand.store.looks_at_ends()] == [True]
    assert stand.bodies(topic="shipments") == BODIES


def test_a_queue_that_can_not_be_rebuilt_now_is_rebuilt_by_the_next_request(
    stand: StoreStand, reported: list[Finding]
) -> None:
    segment = max(path for path in stand.disk.files if "/commitlog/" in path)
    stand.disk.is_bad = lambda path, *_: path == segment and _fail()  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(OSError, match="no memory"):
            stand.store.queue("shipments", 0)
    del stand.disk.is_bad
    assert stand.bodies(topic="shipments") == BODIES


def _fail() -> bool:
    raise OSError(errno.ENOMEM, "no memory")


def test_a_topic_that_is_deleted_needs_no_files(stand: StoreStand, reported: list[Finding]) -> None:
    stand.store.delete_queues("shipments")
    stand.store.delete_queues("bills")
    assert stand.store.queue("shipments", 0).max_offset == 0
    assert [look() for look in stand.store.looks_at_ends()] in ([], [True])
    assert not reported
