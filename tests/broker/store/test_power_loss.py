"""After a loss of power the log ends at its first hole; after a failed fsync, what is whole stays where it was."""

from random import Random

import pytest

from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.simulation.world.process import ProcessKilled
from tests.broker.store.stand import LOG, StoreStand, kill_in_write, lose_before, overwrite


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def test_a_torn_burst_is_cut_off_with_all_that_is_whole_in_it(stand: StoreStand) -> None:
    """No producer got a response for it. What is cut off is kept in a file of its own."""
    stand.send(b"before")
    kill_in_write(stand, LOG, 10_000)
    with pytest.raises(ProcessKilled):
        stand.send(b"12345", b"second", b"third")
    overwrite(stand, stand.store.max_position + 40, b"\xff")
    stand.disk.power_losses += 1  # only a loss of power writes the end of a burst and not its beginning
    report = stand.restart()
    assert (report.lost_records, report.lost_synced_bytes, len(report.kept_aside), report.rebuilt) == (2, 0, 1, False)
    assert "2 messages that were written later were also cut off" in report.problems[0]
    assert b"second" in bytes(stand.disk.files[report.kept_aside[0]].content)
    assert stand.send(b"67890")[0].settled[0][0] == 1
    for _ in range(2):
        assert stand.bodies() == [b"before", b"67890"]
        stand.restart()


@pytest.mark.parametrize("is_torn", [True, False])
def test_with_sync_flush_only_a_torn_place_ends_the_log(is_torn: bool) -> None:
    """The checkpoint is older than the last fsync: a flipped bit may be before acknowledged messages."""
    stand = StoreStand(StoreSettings(segment_bytes_max=65_536, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    stand.open()
    [hit] = stand.send(b"x" * 2_000)
    [after] = stand.send(b"after")
    if is_torn:
        overwrite(stand, hit.log_position + 700, bytes(after.log_position - 700 - hit.log_position))
    else:
        overwrite(stand, hit.log_position + 700, b"X")
    stand.disk.power_losses += 1
    report = stand.restart()
    assert stand.bodies_with_gaps() == ([] if is_torn else [b"after"])
    assert len(report.kept_aside) == 1


def test_what_the_disk_had_confirmed_is_never_cut_off(stand: StoreStand) -> None:
    [hit] = stand.send(b"damaged later")
    stand.send(b"safe")
    stand.store.flush()
    stand.send(b"perhaps")
    stand.disk.rot(LOG, hit.log_position + 40)
    stand.lose_power(Random(1))
    assert stand.open().lost_synced_bytes == 0
    assert stand.bodies_with_gaps()[0] == b"safe"


def test_a_hole_that_a_failed_fsync_left_needs_no_person(stand: StoreStand) -> None:
    """The disk failed, memory was needed for something else, and the machine went on: only the process has ended."""
    stand.send(b"safe")
    stand.store.flush()
    lose_before(stand, stand.send(b"dropped"), stand.send(b"whole"))
    report = stand.restart()
    assert (report.lost_records, report.lost_synced_bytes, report.rebuilt) == (0, 0, False)
    assert "before an fsync made them safe" in report.problems[0]
    assert len(report.kept_aside) == 1
    assert stand.bodies_with_gaps() == [b"safe", b"whole"]
    assert stand.send(b"next")[0].settled[0][0] == 3


def test_what_a_failed_fsync_of_a_killed_process_lost_is_written_again_by_the_next(stand: StoreStand) -> None:
    """The next process reads it from memory, and the disk says of an fsync that all is well."""
    stand.send(b"a")
    stand.disk.fail_sync()
    with pytest.raises(OSError, match="Input/output"):
        stand.store.log.sync()
    stand.restart()
    stand.store.flush()
    stand.lose_power()
    stand.open()
    assert stand.bodies() == [b"a"]


def test_segments_are_there_with_their_names_once_they_were_synced(stand: StoreStand) -> None:
    bodies = [b"%03d" % number * 200 for number in range(12)]
    stand.send(*bodies)
    stand.kill()
    stand.open()  # The process that finds these files can't know whether their names are safe.
    stand.send(b"last")
    stand.store.log.sync()
    stand.lose_power()
    stand.open()
    assert stand.bodies() == [*bodies, b"last"]


def test_a_log_that_lost_its_first_segment_before_anything_was_safe_starts_empty(stand: StoreStand) -> None:
    stand.send(*[b"%03d" % number * 200 for number in range(12)])
    stand.kill()
    stand.disk.remove(LOG)
    stand.disk.power_losses += 1  # in the same run of the machine it would be damage
    report = stand.open()
    assert report.lost_records > 0
    assert stand.bodies() == []
    stand.send(b"new")
    stand.restart()
    assert stand.bodies() == [b"new"]


def test_a_rebuild_that_is_killed_keeps_a_log_whose_old_segments_are_gone(stand: StoreStand) -> None:
    bodies = [b"%03d" % number * 200 for number in range(30)]
    stand.send(*bodies)
    stand.store.flush()
    stand.store.remove_segments_before(stand.store.max_position - 5_000)
    left = stand.bodies()
    stand.kill()
    stand.disk.remove("/store/checkpoint")
    stand.open()  # rebuilds, and is killed before the next checkpoint
    stand.restart()
    assert stand.bodies() == left
    assert 0 < len(left) < 30


def test_an_orderly_end_is_remembered_after_a_loss_of_power(stand: StoreStand) -> None:
    stand.send(b"a")
    stand.store.close()
    stand.disk.lose_power(None)
    assert stand.open().was_closed


@pytest.mark.row("F4")
def test_with_sync_flush_nothing_acknowledged_is_lost_with_the_power() -> None:
    for seed in range(60):
        stand = StoreStand(
            StoreSettings(segment_bytes_max=2048, queue_file_entries=16, flush_disk_type=FlushDiskType.SYNC_FLUSH)
        )
        stand.open()
        random = Random(seed)
        expected: dict[int, list[bytes]] = {0: [], 1: []}
        for number in range(30):
            queue_id = number % 2
            body = b"%03d" % number * random.randrange(60)
            assert stand.send(body, queue_id=queue_id)[0].outcome is PutOutcome.STORED
            expected[queue_id].append(body)
            if random.random() < 0.2:
                stand.store.flush()
        stand.send(b"perhaps", wait_flush=False)
        stand.lose_power(random)
        assert stand.open().lost_synced_bytes == 0
        assert stand.bodies() in (expected[0], [*expected[0], b"perhaps"])
        assert stand.bodies(queue_id=1) == expected[1]


@pytest.mark.row("F4")
@pytest.mark.parametrize("flush", FlushDiskType)
def test_after_a_loss_of_power_the_log_has_a_prefix_of_what_was_sent(flush: FlushDiskType) -> None:
    """In order and at the offsets that senders were told; what is synced is there."""
    for seed in range(60):
        random = Random(seed)
        stand = StoreStand(StoreSettings(segment_bytes_max=2048, queue_file_entries=16, flush_disk_type=flush))
        stand.disk.reorders = seed % 2 == 0
        sent: list[tuple[int, bytes]] = []
        safe = count = 0
        for _ in range(4):
            stand.open()
            kept = sum(len(stand.bodies(queue_id=queue_id)) for queue_id in range(3))
            assert kept >= safe
            sent = sent[:kept]
            for queue_id in range(3):
                assert stand.bodies(queue_id=queue_id) == [body for at, body in sent if at == queue_id]
            for _ in range(random.randrange(30)):
                count += 1
                sent.append((random.randrange(3), b"%d-" % count + b"." * random.randrange(150)))
                stand.send(sent[-1][1], queue_id=sent[-1][0], wait_flush=False)
                if random.random() < 0.1:
                    stand.store.flush()
                    safe = len(sent)
            stand.lose_power(random)


@pytest.mark.parametrize("closed", [True, False])
def test_segments_that_were_removed_stay_removed(stand: StoreStand, closed: bool) -> None:
    """Their names come back with the power, as long as nobody has synced the folder."""
    bodies = [b"%03d" % number * 200 for number in range(30)]
    stand.send(*bodies)
    stand.store.flush()
    stand.store.remove_segments_before(9_000)
    left = stand.bodies()
    if closed:
        stand.store.close()
    for _ in range(3):
        stand.lose_power()
        assert (f"/store/commitlog/{4096:020d}" in stand.disk.files) is not closed
        report = stand.open()
        assert (report.lost_files, stand.bodies()) == (0, left)


def test_a_segment_that_is_put_back_stays_without_a_loss_of_power(stand: StoreStand) -> None:
    bodies = [b"%03d" % number * 200 for number in range(30)]
    stand.send(*bodies)
    stand.store.flush()
    kept = bytes(stand.disk.files[LOG].content)
    stand.store.remove_segments_before(4_096)
    stand.store.close()
    file = stand.files.open(LOG, 4_096)
    file.write(0, kept)
    file.sync()
    for _ in range(2):
        stand.open()
        assert stand.bodies() == bodies
        stand.store.log.sync_names()
        stand.lose_power()


def test_a_full_disk_keeps_nothing_from_being_removed(stand: StoreStand) -> None:
    stand.send(*[b"%03d" % number * 200 for number in range(30)])
    stand.store.flush()
    stand.disk.bytes_left = 0
    assert stand.store.remove_segments_before(9_000) == 2
    stand.disk.bytes_left = None
    assert stand.restart().lost_files == 0
