"""After any end of the process the store goes on with the last whole record."""

import pytest

from staticfire.broker.store import commit_log
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.times import UptimeMs
from staticfire.simulation.world.process import ProcessKilled
from tests.broker.store.stand import LOG, SMALL, StoreStand, kill_in_write, overwrite


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


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


def test_recovery_may_be_killed_at_any_write_and_begins_again() -> None:
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
