"""A burst that can't be written has not happened, and the next one may succeed."""

import errno
from random import Random

import pytest

from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.store.settings import FlushDiskType, StoreSettings
from staticfire.protocol.errors import StorageError
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.runtime.machine import Bytes
from tests.broker.store.stand import SMALL, Sent, StoreStand, note

BODIES = [b"%03d" % number * 200 for number in range(12)]


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def fill_disk(stand: StoreStand, at_write: int, partly: bool) -> None:
    """Let the n-th write fail, perhaps after it took half of its bytes; the next ones succeed."""
    writes = 0

    def on_write(path: str, position: int, data: Bytes) -> None:
        nonlocal writes
        writes += 1
        if writes == at_write:
            if partly and path in stand.disk.files:
                stand.disk.files[path].write(position, bytes(data)[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")

    stand.disk.on_write = on_write


def test_why_a_write_failed_is_kept_as_words(stand: StoreStand) -> None:
    """An exception that is raised again and again grows, and holds all that was on the stack."""
    fill_disk(stand, 1, partly=False)
    stand.send(b"lost")
    for _ in range(2):
        failure = stand.store.failure
        assert failure is not None
        assert (failure.__traceback__, failure.__cause__) == (None, None)
        with pytest.raises(StorageError, match="No space left"):
            raise failure


def test_state_that_follows_an_append_is_notified_of_a_failed_write(stand: StoreStand) -> None:
    fill_disk(stand, 1, partly=False)
    sent, state = stand.append(b"lost"), Sent(b"lost")
    stand.store.when_written(note, state)
    stand.store.commit()
    assert sent.outcome is state.outcome is PutOutcome.FAILED


@pytest.mark.parametrize("partly", [False, True], ids=["not at all", "in part"])
@pytest.mark.parametrize("at_write", [1, 2, 3])
def test_a_burst_over_three_segments_is_stored_as_a_whole_or_not_at_all(
    stand: StoreStand, at_write: int, partly: bool
) -> None:
    stand.send(b"before")
    end = stand.store.max_position
    fill_disk(stand, at_write, partly)
    failed = stand.send(*BODIES)
    stand.disk.on_write = None
    assert {sent.outcome for sent in failed} == {PutOutcome.FAILED}
    assert "No space left" in str(stand.store.failure)
    assert stand.store.max_position == end
    assert stand.bodies() == [b"before"]
    after = stand.send(b"after", queue_id=0)
    assert after[0].settled == [(1, end, PutOutcome.STORED)]
    assert stand.bodies() == [b"before", b"after"]
    report = stand.restart()
    assert stand.bodies() == [b"before", b"after"]
    assert not report.is_damaged


def test_a_failed_burst_does_not_come_back_after_a_kill(stand: StoreStand) -> None:
    stand.send(b"before")
    stand.disk.fail_write(3)
    stand.send(*BODIES)
    report = stand.restart()
    assert stand.bodies() == [b"before"]
    assert (report.cut_bytes, report.lost_records) == (0, 0)


def test_a_failed_burst_does_not_come_back_after_a_loss_of_power() -> None:
    for seed in range(30):
        stand = StoreStand()
        stand.open()
        stand.send(b"before")
        fill_disk(stand, 1 + seed % 3, partly=True)
        stand.send(*BODIES)
        stand.lose_power(Random(seed))
        stand.disk.on_write = None
        stand.open()
        assert stand.bodies() == [b"before"]


def test_while_the_remains_of_a_failed_burst_can_not_be_removed_nothing_is_written(
    stand: StoreStand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand.send(b"before")
    truncate = stand.disk.truncate

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(stand.disk, "truncate", fail)
    stand.disk.fail_write(3)
    stand.send(*BODIES)
    assert stand.send(b"too early")[0].outcome is PutOutcome.FAILED
    monkeypatch.setattr(stand.disk, "truncate", truncate)
    assert stand.send(b"after")[0].outcome is PutOutcome.STORED
    stand.restart()
    assert stand.bodies() == [b"before", b"after"]


def test_only_the_queues_of_the_failed_burst_are_rolled_back(stand: StoreStand) -> None:
    stand.send(b"a", b"b", queue_id=1)
    stand.disk.fail_write(1)
    stand.append(b"lost", queue_id=1)
    stand.append(b"lost", queue_id=2)
    stand.append(b"lost", queue_id=1)
    assert stand.store.commit() == {}
    stand.append(b"c", queue_id=1)
    assert len(stand.store.commit()) == 1
    assert (stand.bodies(queue_id=1), stand.bodies(queue_id=2)) == ([b"a", b"b", b"c"], [])


@pytest.mark.parametrize("partly", [False, True], ids=["not at all", "in part"])
def test_a_full_disk_is_survived_at_every_write(partly: bool) -> None:
    """Let each write of a small life fail once: what was reported as stored is there, and nothing else."""
    for at_write in range(1, 60):
        stand = StoreStand()
        stand.open()
        fill_disk(stand, at_write, partly)
        expected = []
        for number in range(12):
            expected += [sent.body for sent in stand.send(*BODIES[:3]) if sent.outcome is PutOutcome.STORED]
            if number % 4 == 3:
                try:
                    stand.store.flush()
                except OSError:
                    pass
        assert stand.bodies() == expected
        stand.disk.on_write = None
        stand.restart()
        assert stand.bodies() == expected
        stand.store.close()
        stand.open()
        assert stand.bodies() == expected


def test_sync_flush_settles_after_the_fsync_and_says_when_that_failed() -> None:
    stand = StoreStand(StoreSettings(segment_bytes_max=4096, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    stand.open()
    stand.disk.fail_sync(1)
    hasty = stand.append(b"hasty", wait_flush=False)
    careful = stand.append(b"careful")
    stand.store.commit()
    assert (hasty.outcome, careful.outcome) == (PutOutcome.STORED, PutOutcome.FLUSH_TIMEOUT)
    assert stand.bodies() == [b"hasty", b"careful"]
    assert stand.send(b"later")[0].outcome is PutOutcome.STORED
    stand.lose_power()
    stand.open()
    assert stand.bodies() == [b"hasty", b"careful", b"later"]


def test_what_a_failed_fsync_was_to_save_is_written_again() -> None:
    """As a kernel does: after the failed fsync it takes the lost pages for clean, and the next one succeeds."""
    stand = StoreStand(StoreSettings(segment_bytes_max=4096, flush_disk_type=FlushDiskType.SYNC_FLUSH))
    stand.open()
    stand.disk.fail_sync(1)
    stand.send(b"unlucky")
    written: list[tuple[int, bytes]] = []
    stand.disk.on_write = lambda path, position, data: written.append((position, bytes(data)))
    stand.send(b"next")
    (new_position, new), (again_position, again) = written
    assert again_position == 0
    assert b"unlucky" in again
    assert again.endswith(new)
    assert new_position == again.index(new)


def test_the_settings_of_these_tests_roll_often() -> None:
    assert sum(map(len, BODIES)) > SMALL.segment_bytes_max


def test_a_store_that_refuses_says_why_and_writes_what_it_had_taken(stand: StoreStand) -> None:
    taken = stand.append(b"taken")
    stand.store.refuse(StorageError("the disk is 95 % full"))
    for fields in ({}, {"sys_flag": TransactionKind.PREPARED}, {"queue_id": 3}):
        with pytest.raises(StorageError, match="the disk is 95 % full"):
            stand.append(b"refused", **fields)
    stand.store.commit()
    assert taken.outcome is PutOutcome.STORED
    stand.disk.fail_write()
    stand.store.refuse(None)
    assert stand.send(b"lost")[0].outcome is PutOutcome.FAILED
    assert stand.send(b"next")[0].outcome is PutOutcome.STORED
    assert stand.bodies() == [b"taken", b"next"]


def test_a_burst_that_fails_while_the_store_refuses_changes_nothing_about_that(stand: StoreStand) -> None:
    stand.append(b"lost")
    stand.store.refuse(StorageError("full"))
    stand.disk.fail_write()
    stand.store.commit()
    with pytest.raises(StorageError, match="full"):
        stand.append(b"refused")
    stand.store.refuse(None)
    stand.send(*[b"%03d" % number * 200 for number in range(30)])
    assert len(stand.bodies()) == 30
