"""Queues reach their files in rounds, old entries are read from there, and thousands of queues cost little."""

import errno

import pytest

from staticfire.broker.store.settings import StoreSettings
from staticfire.simulation.world.process import ProcessKilled
from tests.broker.store.stand import SMALL, StoreStand

QUEUES = "/store/consumequeue"


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def files_below(stand: StoreStand, folder: str) -> list[str]:
    return sorted(path for path in stand.disk.files if path.startswith(folder))


def test_a_queue_has_files_only_when_there_is_something_to_write(stand: StoreStand) -> None:
    stand.store.queue("orders", 0)
    stand.store.flush()
    assert files_below(stand, QUEUES) == []
    stand.send(b"x")
    assert files_below(stand, QUEUES) == []
    stand.store.flush()
    assert files_below(stand, QUEUES) == [f"{QUEUES}/orders/0/00000000000000000000"]


def test_entries_are_20_bytes_in_files_named_by_their_first_byte(stand: StoreStand) -> None:
    (first, *_) = stand.send(*[b"x"] * 20, queue_id=3)
    stand.store.flush()
    one, two = files_below(stand, QUEUES)
    assert (one[-20:], two[-20:]) == ("00000000000000000000", f"{16 * 20:020d}")
    assert (stand.disk.files[one].size, stand.disk.files[two].size) == (320, 80)
    assert stand.files.read_bytes(one)[:20] == first.log_position.to_bytes(8, "big") + (116).to_bytes(4, "big") + bytes(
        8
    )


def test_only_a_few_entries_stay_in_memory_once_they_are_written(stand: StoreStand) -> None:
    sent = stand.send(*[b"%d" % number for number in range(100)])
    queue = stand.store.queue("orders", 0)
    stand.store.flush()
    assert len(queue.tail) == SMALL.queue_tail_entries * 20
    sent += stand.send(*[b"%d" % number for number in range(100, 110)])
    assert stand.bodies() == [one.body for one in sent]
    assert stand.bodies(start=97) == [one.body for one in sent[97:]]
    assert [entry.log_position for entry in stand.store.entries(queue, 10, 95)] == [
        one.log_position for one in sent[10:105]
    ]


def test_a_read_goes_from_one_file_into_the_next_and_into_memory(stand: StoreStand) -> None:
    stand.send(*[b"%d" % number for number in range(40)])
    stand.store.flush()
    stand.send(*[b"%d" % number for number in range(40, 50)])
    result = stand.store.read(stand.store.queue("orders", 0), 14, 32)
    assert (result.record_count, result.next_offset) == (32, 46)


def test_a_round_writes_a_number_of_queues_at_a_time_then_their_ends_and_then_the_checkpoint(stand: StoreStand) -> None:
    for queue_id in range(8):
        stand.append(b"x", queue_id=queue_id)
    stand.store.commit()
    written = []
    steps = stand.store.flush_steps()
    for step in steps:
        step.carry_out()
        written.append((len(files_below(stand, QUEUES)), step.more_queues))
    assert written == [(0, False), (3, True), (6, True), (8, False), (8, False)]
    assert stand.restart().checked_records == 0


def test_what_the_checkpoint_vouches_for_is_there_after_a_loss_of_power(stand: StoreStand) -> None:
    stand.send(b"a")
    stand.send(b"b", topic="bills", queue_id=3)
    stand.store.flush()
    stand.lose_power()
    report = stand.open()
    assert (report.checked_records, report.rebuilt) == (0, False)
    assert (stand.bodies(), stand.bodies("bills", 3)) == ([b"a"], [b"b"])


@pytest.mark.parametrize("trouble", ["fails", "is killed"])
def test_names_that_an_earlier_try_left_unsynced_are_synced_by_the_next(stand: StoreStand, trouble: str) -> None:
    """The second try finds folders and files, and nobody has made sure that they stay."""
    stand.send(b"a")

    def before(what: str, path: str) -> None:
        if what == "sync" and path.startswith(QUEUES):
            stand.disk.before = None
            raise OSError(errno.EIO, "Input/output error") if trouble == "fails" else ProcessKilled

    stand.disk.before = before
    with pytest.raises((OSError, ProcessKilled)):
        stand.store.flush()
    if trouble == "is killed":
        stand.restart()
    stand.store.flush()
    stand.lose_power()
    assert stand.open().checked_records == 0
    assert stand.bodies() == [b"a"]


def test_what_comes_during_a_round_waits_for_the_next(stand: StoreStand) -> None:
    stand.send(b"a")
    steps = stand.store.flush_steps()
    next(steps).carry_out()
    stand.send(b"b")
    for step in steps:
        step.carry_out()
    report = stand.restart()
    assert report.checked_records == 1
    assert stand.bodies() == [b"a", b"b"]


def test_a_round_that_is_broken_off_is_done_again(stand: StoreStand) -> None:
    for queue_id in range(8):
        stand.append(b"x", queue_id=queue_id)
    stand.store.commit()
    steps = stand.store.flush_steps()
    for _ in range(3):
        next(steps).carry_out()
    steps.close()
    assert stand.restart().checked_records == 8
    stand.store.flush()
    assert stand.restart().checked_records == 0
    assert [stand.bodies(queue_id=queue_id) for queue_id in range(8)] == [[b"x"]] * 8


def test_queues_are_written_again_after_a_full_disk(stand: StoreStand) -> None:
    stand.send(b"a")
    stand.disk.fail_write(1, errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        stand.store.flush()
    stand.store.flush()
    assert stand.restart().checked_records == 0
    assert stand.bodies() == [b"a"]


def test_no_entry_reaches_the_disk_before_its_record(stand: StoreStand) -> None:
    stand.send(b"a")
    stand.disk.fail_sync(1)
    with pytest.raises(OSError, match="Input/output"):
        stand.store.flush()
    assert files_below(stand, QUEUES) == []
    stand.store.flush()
    assert len(files_below(stand, QUEUES)) == 1


def test_a_topic_deleted_while_its_queues_are_being_written_leaves_nothing(stand: StoreStand) -> None:
    stand.send(b"old")
    steps = stand.store.flush_steps()
    next(steps).carry_out()
    write = next(steps)
    stand.store.delete_queues("orders")
    stand.send(b"new")
    write.carry_out()
    for step in steps:
        step.carry_out()
    assert files_below(stand, QUEUES) == []
    assert stand.bodies() == [b"new"]
    stand.restart()
    assert stand.bodies() == [b"new"]


def test_a_missing_queue_file_is_rebuilt_as_it_is_read(stand: StoreStand) -> None:
    bodies = [b"%d" % number for number in range(40)]
    stand.send(*bodies)
    stand.store.close()
    stand.disk.remove(f"{QUEUES}/orders/0/{16 * 20:020d}")
    stand.open()
    assert stand.bodies() == bodies
    assert stand.store.findings.mended_entries == 16
    stand.restart()
    assert stand.bodies() == bodies
    assert stand.store.findings.mended_entries == 0


def test_a_close_does_not_wait_for_very_many_queues(stand: StoreStand) -> None:
    for queue_id in range(4):
        stand.send(b"x", queue_id=queue_id)
    stand.store.close()
    assert files_below(stand, QUEUES) == []
    stand.lose_power()
    report = stand.open()
    assert (report.was_closed, report.checked_records) == (True, 4)
    assert stand.bodies(queue_id=3) == [b"x"]


def test_5000_queues_are_written_and_found_again_with_few_open_files() -> None:
    stand = StoreStand(StoreSettings(segment_bytes_max=1 << 20, queue_files_open_max=10))
    stand.open()
    for topic in range(1250):
        for queue_id in range(4):
            stand.append(b"%d-%d" % (topic, queue_id), f"topic-{topic}", queue_id)
        stand.store.commit()
    stand.store.flush()
    stand.store.close()
    report = stand.open()
    assert report.checked_records == 0
    assert len(stand.store._by_name) == 0  # house: that a start loads no queue is seen in its time only
    for topic in range(0, 1250, 50):
        assert stand.bodies(f"topic-{topic}", 3) == [b"%d-3" % topic]
    assert len(stand.store._queues._entries._open) <= 10  # house: a simulated disk has no limit of open files
    stand.kill()
    stand.disk.remove("/store/checkpoint")
    assert stand.open().checked_records == 5000
    assert stand.bodies("topic-7", 2) == [b"7-2"]


def test_topics_and_queues_are_known_from_files_and_from_memory() -> None:
    stand = StoreStand()
    stand.open()
    stand.send(b"a", topic="orders", queue_id=2)
    stand.send(b"b", topic="orders", queue_id=11)
    stand.send(b"c", topic="bills")
    stand.store.queue("asked-for", 0)
    for change in (stand.restart, lambda: stand.store.flush(), stand.restart):
        change()
        assert {topic: stand.store.queue_ids(topic) for topic in stand.store.topics()} | {"asked-for": []} == {
            "orders": [2, 11],
            "bills": [0],
            "asked-for": [],
        }
    stand.store.delete_queues("orders")
    for _ in range(2):
        assert stand.store.queue_ids("orders") == stand.store.queue_ids("never") == []
        stand.restart()
