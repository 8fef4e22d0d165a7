"""After any end of the process, or of the machine, the store goes on with the last whole record."""

import errno
from random import Random

import pytest

from staticfire.broker.store import commit_log
from staticfire.broker.store.outcomes import PutOutcome, ReadStatus
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.faults.simulation.process import ProcessKilled
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.machine import Bytes
from tests.broker.store.stand import SMALL, Sent, StoreStand

LOG = "/store/commitlog/00000000000000000000"


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def kill_in_write(stand: StoreStand, file: str, written_bytes: int) -> None:
    """Let the process be killed in the next write to that file, when so many bytes are written."""

    def on_write(path: str, position: int, data: Bytes) -> None:
        if path == file:
            stand.disk.on_write = None
            if written_bytes:
                stand.disk.files[path].write(position, bytes(data)[:written_bytes])
            raise ProcessKilled

    stand.disk.on_write = on_write


def overwrite(stand: StoreStand, position: int, data: bytes, file: str = LOG) -> None:
    stand.disk.files[file].write(position, data)


def lose_before(stand: StoreStand, lost: list[Sent], kept: list[Sent]) -> None:
    """Leave a hole where the first of these lies, as a failed fsync does."""
    segment = stand.store.log.segments.at(lost[0].log_position)
    assert segment is not None
    start, end = lost[0].log_position, kept[0].log_position
    content = stand.disk.files[segment.path].content
    content[start - segment.start : end - segment.start] = bytes(end - start)


def test_a_new_store_begins_at_nothing(stand: StoreStand) -> None:
    report = StoreStand().open()
    assert (report.was_closed, report.end_position, report.checked_records, report.problems) == (True, 0, 0, ())
    assert not report.is_damaged
    assert stand.store.oldest_stored_ms is None


def test_a_store_that_was_closed_has_nothing_to_check(stand: StoreStand) -> None:
    stand.send(b"a", b"b")
    stand.store.close()
    report = stand.open()
    assert (report.was_closed, report.checked_records, report.start_position) == (True, 0, report.end_position)
    assert stand.bodies() == [b"a", b"b"]
    assert stand.store.last_stored_ms == stand.stored_ms
    stand.send(b"c")
    assert stand.bodies() == [b"a", b"b", b"c"]


def test_the_report_says_how_long_it_took(stand: StoreStand) -> None:
    stand.store.close()
    uptimes = iter([UptimeMs(70), UptimeMs(95)])
    assert stand.store.open(lambda: next(uptimes)).took_ms == 25


@pytest.mark.row("F4")
def test_a_killed_store_enters_its_records_into_the_queues_again(stand: StoreStand) -> None:
    stand.send(b"a", b"b", tag="paid")
    stand.store.flush()
    stand.send(b"c", tag="paid")
    stand.send(b"other", queue_id=1)
    before = [stand.store.entries(stand.store.queue("orders", queue_id), 0, 10) for queue_id in (0, 1)]
    report = stand.restart()
    assert (report.was_closed, report.checked_records, report.cut_bytes) == (False, 2, 0)
    assert (stand.bodies(), stand.bodies(queue_id=1)) == ([b"a", b"b", b"c"], [b"other"])
    assert [stand.store.entries(stand.store.queue("orders", queue_id), 0, 10) for queue_id in (0, 1)] == before


@pytest.mark.row("F4")
def test_a_kill_at_any_byte_of_a_burst_leaves_its_whole_records(stand: StoreStand) -> None:
    probe = StoreStand()
    probe.open()
    probe.send(b"before")
    start = probe.store.max_position
    burst = probe.send(b"one" * 5, b"two" * 9, b"three" * 13)
    ends = [sent.log_position - start for sent in burst[1:]] + [probe.store.max_position - start]
    for written_bytes in range(ends[-1] + 1):
        stand = StoreStand()
        stand.open()
        stand.send(b"before")
        kill_in_write(stand, LOG, written_bytes)
        with pytest.raises(ProcessKilled):
            stand.send(*(sent.body for sent in burst))
        report = stand.restart()
        whole = sum(end <= written_bytes for end in ends)
        bodies = [b"before", *(sent.body for sent in burst[:whole])]
        assert stand.bodies() == bodies
        torn = written_bytes - (ends[whole - 1] if whole else 0)
        assert (report.cut_bytes > 0, report.lost_records) == (torn > 0, 0)
        assert not report.is_damaged
        # A record of another size: nothing of the torn one may be seen behind it.
        stand.send(b"x")
        stand.restart()
        assert stand.bodies() == [*bodies, b"x"]


def test_a_kill_between_two_segments_leaves_the_first(stand: StoreStand) -> None:
    stand.send(b"before")
    kill_in_write(stand, "/store/commitlog/00000000000000004096", 0)
    bodies = [b"%03d" % number * 200 for number in range(8)]
    with pytest.raises(ProcessKilled):
        stand.send(*bodies)
    report = stand.restart()
    assert not report.is_damaged
    survivors = stand.bodies()
    assert survivors == [b"before", *bodies[: len(survivors) - 1]]
    assert 1 < len(survivors) < 9
    stand.send(*bodies)
    assert stand.bodies() == survivors + bodies


def test_whole_records_of_a_torn_burst_stay_at_their_offsets(stand: StoreStand) -> None:
    """Nobody was told what became of them; what comes next doesn't get their places."""
    kill_in_write(stand, LOG, 10_000)
    with pytest.raises(ProcessKilled):
        stand.send(b"12345", b"second", b"third")
    overwrite(stand, 40, b"\xff")
    stand.disk.power_losses += 1  # only a loss of power writes the end of a burst and not its beginning
    report = stand.restart()
    assert (report.lost_records, len(report.kept_aside), report.rebuilt) == (0, 1, False)
    assert stand.send(b"67890")[0].settled[0][0] == 3
    for _ in range(2):
        assert stand.bodies(start=1) == [b"second", b"third", b"67890"]
        stand.restart()


def test_a_hole_that_a_failed_fsync_left_needs_nobody(stand: StoreStand) -> None:
    """The disk failed, memory was needed for something else, and the machine went on: only the process has ended."""
    stand.send(b"safe")
    stand.store.flush()
    lose_before(stand, stand.send(b"dropped"), stand.send(b"whole"))
    report = stand.restart()
    assert (report.lost_records, report.lost_synced_bytes, report.rebuilt) == (0, 0, False)
    assert "no fsync had made them safe" in report.problems[0]
    assert len(report.kept_aside) == 1
    assert stand.bodies_with_gaps() == [b"safe", b"whole"]
    assert stand.send(b"next")[0].settled[0][0] == 3


def test_without_its_checkpoint_a_killed_store_does_not_write_all_of_its_log_again(
    stand: StoreStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_log, "REWRITE_BYTES_MAX", 6_000)
    stand.send(*[b"%03d" % number * 200 for number in range(40)])
    stand.store.flush()
    stand.kill()
    stand.disk.remove("/store/checkpoint")
    written: list[str] = []
    stand.open()
    stand.disk.on_write = lambda path, *_: written.append(path) if "commitlog" in path else None
    stand.store.log.sync()
    segments = [segment.path for segment in stand.store.log.segments.all]
    assert len(segments) > 5
    assert 1 < len(set(written)) <= 3
    assert set(written) <= set(segments[-3:])
    assert stand.store.synced_position == stand.store.max_position


def test_damage_below_the_checkpoint_is_found_when_it_reaches_it(stand: StoreStand) -> None:
    sent = stand.send(b"a" * 50, b"b" * 50)
    other = stand.send(b"other", queue_id=1)
    stand.store.close()
    end = other[0].log_position + 200
    overwrite(stand, sent[1].log_position, bytes(end - sent[1].log_position))
    report = stand.open()
    assert report.is_damaged
    assert report.lost_synced_bytes > 0
    assert stand.bodies() == [b"a" * 50]
    assert stand.bodies(queue_id=1) == []
    stand.send(b"new", queue_id=1)
    stand.restart()
    assert (stand.bodies(), stand.bodies(queue_id=1)) == ([b"a" * 50], [b"new"])
    assert not stand.restart().is_damaged


def test_a_lost_last_segment_costs_what_was_in_it(stand: StoreStand) -> None:
    sent = stand.send(*[b"%03d" % number * 200 for number in range(12)])
    stand.store.close()
    last = max(path for path in stand.disk.files if "commitlog" in path)
    stand.disk.remove(last)
    report = stand.open()
    assert report.is_damaged
    left = [one.body for one in sent if one.log_position < int(last[-20:])]
    assert stand.bodies() == left
    stand.send(b"new")
    stand.restart()
    assert stand.bodies() == [*left, b"new"]


def test_a_lost_log_costs_everything_and_offsets_begin_anew(stand: StoreStand) -> None:
    stand.send(b"a", b"b")
    stand.store.close()
    stand.disk.remove_folder("/store/commitlog")
    report = stand.open()
    assert report.is_damaged
    assert stand.bodies() == []
    stand.send(b"new")
    stand.restart()
    assert stand.bodies() == [b"new"]


@pytest.mark.parametrize("lost", ["/store/checkpoint", "/store/consumequeue", "both"])
@pytest.mark.parametrize("closed", [True, False])
def test_queues_are_rebuilt_from_the_log(stand: StoreStand, lost: str, closed: bool) -> None:
    sent = stand.send(*[b"%03d" % number * 50 for number in range(40)])
    stand.store.flush()
    stand.send(b"last", queue_id=2)
    if closed:
        stand.store.close()
    else:
        stand.kill()
    for path in ["/store/checkpoint", "/store/consumequeue"] if lost == "both" else [lost]:
        stand.disk.remove(path)
        stand.disk.remove_folder(path)
    report = stand.open()
    assert report.rebuilt
    assert report.problems
    assert not report.is_damaged
    assert stand.bodies() == [one.body for one in sent]
    assert stand.bodies(queue_id=2) == [b"last"]
    stand.store.close()
    assert not stand.open().rebuilt
    assert stand.bodies() == [one.body for one in sent]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"dispatched_position": 1}', b"[200,200,0,-1,16]"]
)
def test_a_checkpoint_that_can_not_be_true_is_not_believed(stand: StoreStand, content: bytes) -> None:
    sent = stand.send(*[b"%03d" % number * 50 for number in range(10)])
    stand.store.close()
    stand.files.replace("/store/checkpoint", content)
    report = stand.open()
    assert report.rebuilt
    assert stand.bodies() == [one.body for one in sent]


def test_a_checkpoint_beyond_the_end_is_taken_back(stand: StoreStand) -> None:
    sent = stand.send(b"a", b"b")
    stand.store.close()
    stand.files.replace("/store/checkpoint", b"[3000,3000,0,-1,16]")
    assert stand.open().is_damaged
    assert stand.bodies() == [one.body for one in sent]
    stand.send(b"c")
    stand.restart()
    assert stand.bodies() == [b"a", b"b", b"c"]


def test_files_of_one_topic_that_vanished_are_missed_when_its_next_record_comes(stand: StoreStand) -> None:
    stand.send(b"a", b"b")
    stand.store.flush()
    stand.send(b"c")
    stand.kill()
    stand.disk.remove_folder("/store/consumequeue/orders")
    report = stand.open()
    assert report.rebuilt
    assert "has offset 2" in report.problems[0]
    assert stand.bodies() == [b"a", b"b", b"c"]


def test_an_unreadable_table_of_deleted_topics_is_not_ignored(stand: StoreStand) -> None:
    stand.store.close()
    stand.files.replace("/store/deletedTopics", b"{")
    with pytest.raises(StorageError, match="deletedTopics"):
        stand.open()


def test_queue_files_of_another_size_are_made_anew(stand: StoreStand) -> None:
    sent = stand.send(*[b"%03d" % number for number in range(20)])
    stand.store.close()
    stand.settings = StoreSettings(segment_bytes_max=4096, queue_file_entries=7)
    assert stand.open().rebuilt
    assert stand.bodies() == [one.body for one in sent]


@pytest.mark.parametrize("segment_bytes_max", [1024, 100_000])
def test_the_size_of_new_segments_may_change(stand: StoreStand, segment_bytes_max: int) -> None:
    bodies = [b"%03d" % number * 200 for number in range(12)]
    stand.send(*bodies)
    stand.kill()
    stand.settings = StoreSettings(segment_bytes_max=segment_bytes_max, queue_file_entries=16)
    assert not stand.open().is_damaged
    stand.send(*bodies)
    stand.restart()
    assert stand.bodies() == bodies * 2
    stand.settings = SMALL
    assert not stand.restart().is_damaged
    stand.send(*bodies)
    assert stand.bodies() == bodies * 3
    assert not stand.restart().is_damaged
    assert stand.bodies() == bodies * 3


def test_recovery_may_be_killed_at_any_write_and_begins_anew() -> None:
    for at_write in range(1, 40):
        stand = StoreStand()
        stand.open()
        bodies = [b"%03d" % number * 50 for number in range(40)]
        stand.send(*bodies[:20])
        stand.store.flush()
        stand.send(*bodies[20:])
        torn = stand.store.max_position
        overwrite(stand, torn % 4096, b"torn", max(path for path in stand.disk.files if "commitlog" in path))
        stand.disk.remove("/store/checkpoint" if at_write % 2 else "/nothing")
        writes = 0

        def on_write(*_: object, at_write: int = at_write) -> None:
            nonlocal writes
            writes += 1
            if writes == at_write:
                raise ProcessKilled

        stand.disk.on_write = on_write
        try:
            stand.restart()
            stand.store.flush()
        except ProcessKilled:
            pass
        stand.disk.on_write = None
        stand.restart()
        assert stand.bodies() == bodies


# --- deleted topics


def test_a_deleted_topic_begins_with_offset_0_again(stand: StoreStand) -> None:
    stand.send(b"old", b"old")
    stand.send(b"kept", topic="bills")
    stand.store.flush()
    stand.store.delete_queues("orders")
    assert stand.bodies() == []
    stand.send(b"new")
    assert stand.bodies() == [b"new"]
    for _ in range(2):
        stand.restart()
        assert (stand.bodies(), stand.bodies(topic="bills")) == ([b"new"], [b"kept"])
    stand.store.close()
    stand.open()
    assert (stand.bodies(), stand.bodies(topic="bills")) == ([b"new"], [b"kept"])


def test_who_still_has_a_deleted_queue_can_not_append_to_it(stand: StoreStand) -> None:
    queue = stand.store.queue("orders", 0)
    stand.send(b"old")
    stand.store.delete_queues("orders")
    with pytest.raises(StorageError, match="deleted"):
        stand.store.append(queue, 0, 0, 0, 0, 0, bytes(8), b"", b"", 0, MessageMs(stand.stored_ms))
    assert stand.store.read(queue, 0, 32).record_count == 1


def test_a_deleted_topic_stays_deleted_when_the_queues_are_rebuilt(stand: StoreStand) -> None:
    stand.send(b"old")
    stand.store.delete_queues("orders")
    stand.store.close()
    stand.disk.remove("/store/checkpoint")
    stand.open()
    assert stand.bodies() == []


def test_a_deletion_in_the_midst_of_a_burst_takes_what_came_before_it(stand: StoreStand) -> None:
    old = stand.append(b"old")
    other = stand.append(b"other", topic="bills")
    stand.store.delete_queues("orders")
    assert (old.outcome, other.outcome) == (PutOutcome.STORED, PutOutcome.STORED)
    stand.append(b"new")
    orders, bills = stand.store.queue("orders", 0), stand.store.queue("bills", 0)
    assert stand.store.commit() == {orders: 0, bills: 0}
    assert stand.bodies() == [b"new"]
    stand.restart()
    assert stand.bodies() == [b"new"]


def test_a_deletion_whose_folder_was_not_removed_any_more_is_finished_at_start(stand: StoreStand) -> None:
    stand.send(b"old")
    stand.store.flush()
    stand.store._state.write_deleted_topics({"orders": stand.store.max_position})
    stand.restart()
    assert stand.bodies() == []
    assert not stand.files.exists("/store/consumequeue/orders/0")


def test_a_queue_that_begins_with_a_hole_is_no_remnant_of_a_deletion(stand: StoreStand) -> None:
    stand.send(b"old")
    stand.store.flush()
    stand.store.delete_queues("orders")
    stand.store.flush()
    lose_before(stand, stand.send(b"lost"), stand.send(b"whole"))
    for _ in range(3):
        stand.restart()
        assert stand.bodies_with_gaps() == [b"whole"]
        assert stand.store.queue("orders", 0).max_offset == 2
        stand.store.flush()


def test_a_deletion_beyond_the_recovered_end_does_not_bury_what_comes_after(stand: StoreStand) -> None:
    stand.send(b"synced", topic="bills")
    stand.store.flush()
    stand.send(b"not synced")
    stand.store.delete_queues("orders")
    stand.lose_power()
    stand.open()
    stand.send(b"new")
    stand.restart()
    assert stand.bodies() == [b"new"]


def test_what_follows_a_deletion_that_failed_halfway_is_not_buried_with_it(stand: StoreStand) -> None:
    """The table of deleted topics was put in place, and then its name could not be synced."""
    stand.send(b"old")
    stand.store.flush()

    def before(what: str, path: str) -> None:
        if (what, path) == ("sync names", "/store"):
            raise OSError(errno.EIO, "Input/output error")

    stand.disk.before = before
    with pytest.raises(StorageError, match="could not be removed for good"):
        stand.store.delete_queues("orders")
    stand.disk.before = None
    stand.send(b"new")
    stand.store.close()
    stand.open()
    assert stand.bodies() == [b"new"]


@pytest.mark.parametrize("folder", ["/store/commitlog", "/store/consumequeue/orders/0"])
def test_a_file_whose_name_is_no_place_in_the_log_is_named(stand: StoreStand, folder: str) -> None:
    stand.send(b"a")
    stand.store.close()
    stand.files.open(f"{folder}/{'9' * 20}").close()

    def use() -> None:
        stand.open()
        stand.store.queue("orders", 0)

    with pytest.raises(StorageError, match=f"{folder}/9+ is no .*: move it away"):
        use()


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


# --- loss of power


def test_segments_are_there_with_their_names_once_they_were_synced(stand: StoreStand) -> None:
    bodies = [b"%03d" % number * 200 for number in range(12)]
    stand.send(*bodies)
    stand.kill()
    stand.open()  # Who finds the files doesn't know whether their names are safe.
    stand.send(b"last")
    stand.store.log.sync()
    stand.lose_power()
    stand.open()
    assert stand.bodies() == [*bodies, b"last"]


def test_a_log_that_lost_its_first_segment_before_anything_was_safe_keeps_the_others(stand: StoreStand) -> None:
    bodies = [b"%03d" % number * 200 for number in range(12)]
    stand.send(*bodies)
    stand.kill()
    stand.disk.remove(LOG)
    stand.disk.power_losses += 1  # in the same run of the machine it would be damage
    stand.open()
    left = stand.bodies()
    assert left == bodies[-len(left) :]
    assert 0 < len(left) < 12
    stand.send(b"new")
    stand.restart()
    assert stand.bodies() == [*left, b"new"]


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
def test_after_a_loss_of_power_each_queue_has_what_is_whole_of_what_was_sent() -> None:
    """In order and at the offsets that senders were told; what is synced is there without a gap."""
    for seed in range(60):
        random = Random(seed)
        stand = StoreStand(StoreSettings(segment_bytes_max=2048, queue_file_entries=16))
        sent: list[list[bytes]] = [[], [], []]
        safe, count = [0, 0, 0], 0
        for _ in range(4):
            stand.open()
            for queue_id in range(3):
                kept = stand.bodies_with_gaps(queue_id=queue_id)
                assert [body for body in sent[queue_id] if body in kept] == kept
                assert kept[: safe[queue_id]] == sent[queue_id][: safe[queue_id]]
                sent[queue_id] = kept
            for _ in range(random.randrange(30)):
                queue_id = random.randrange(3)
                count += 1
                body = b"%d-" % count + b"." * random.randrange(150)
                stand.send(body, queue_id=queue_id)
                sent[queue_id].append(body)
                if random.random() < 0.1:
                    stand.store.flush()
                    safe = [len(each) for each in sent]
            stand.lose_power(random)


def test_entries_of_a_cut_off_end_are_gone_from_queues_that_nobody_asked_for(stand: StoreStand) -> None:
    stand.send(b"a")
    stand.send(b"b", queue_id=1)
    stand.store.close()
    stand.disk.files[LOG].truncate(130)
    assert stand.open().is_damaged
    stand.send(b"c" * 60)
    stand.store.close()
    stand.open()
    assert stand.store.read(stand.store.queue("orders", 1), 0, 32).status is ReadStatus.NO_MESSAGE_IN_QUEUE
