"""The scrub: what rots is reported before a consumer reads it."""

import pytest

from staticfire.broker.scrubbing import pause_after_step_ms
from staticfire.broker.store.findings import DAMAGED_RECORD, SHOWN_MAX, Finding, Findings
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.times import UptimeMs
from tests.broker.store.stand import StoreStand
from tests.broker.store.test_damage import DamagedStand, flip, spoilt, written


def scrub(stand: DamagedStand) -> None:
    """Let the scrub go round once."""
    while (step := stand.store.scrub.step()) is not None:
        stand.store.scrub.looked(step())


def test_the_scrub_finds_what_rots_where_no_client_reads() -> None:
    stand = DamagedStand()
    stand.store.close()
    stand.open_with()
    scrub(stand)
    assert stand.reported == []
    assert stand.store.findings.scrubbed_bytes == stand.store.max_position
    number = 0
    for path in stand.log_files():
        for at in range(0, written(stand, path), 7):
            with spoilt(stand):
                stand.open_with()
                flip(stand.disk.files[path], at, 0x10)
                scrub(stand)
                scrub(stand)
                number += len(stand.reported)
                assert stand.store.findings.damaged_records == len(stand.reported)
                assert len(stand.check()) <= 1
                assert len(stand.reported) <= 1
    assert number > 400


def test_the_scrub_mends_entries_by_which_a_filter_would_pass_a_message_over() -> None:
    stand = DamagedStand()
    stand.store.close()
    stand.open_with()
    queue = stand.store.queue("orders", 0)
    code = queue.entries(0, 1)[0].tags_code
    flip(stand.disk.files["/store/consumequeue/orders/0/" + "0" * 20], 39, 1)
    assert stand.store.read(queue, 0, 32, wanted=lambda it: it == code).record_count == 6
    scrub(stand)
    assert stand.store.read(queue, 0, 32, wanted=lambda it: it == code).record_count == 7
    assert [finding.kind for finding in stand.reported] == ["mended_entry"]


def test_the_scrub_goes_round_a_log_that_grows_and_shrinks() -> None:
    stand = DamagedStand()
    steps = 0
    for number in range(30):
        stand.send(b"%d" % number * 50)
        if number % 7 == 0:
            stand.store.flush()
        if number == 20:
            stand.store.remove_segments_before(stand.store.max_position)
        step = stand.store.scrub.step()
        if step is not None:
            stand.store.scrub.looked(step())
            steps += 1
    assert stand.reported == []
    assert steps > 10


def test_a_record_larger_than_a_step_is_scrubbed_as_well() -> None:
    stand = StoreStand(StoreSettings(segment_bytes_max=4 * 1024 * 1024))
    stand.open()
    stand.send(bytes(1_000_000), b"small", bytes(700_000))
    stand.store.flush()
    for _ in range(3):
        while (step := stand.store.scrub.step()) is not None:
            stand.store.scrub.looked(step())
    assert stand.store.findings.scrubbed_bytes == 3 * stand.store.max_position
    assert stand.store.findings.damaged_records == 0


@pytest.mark.parametrize(
    ("took_ms", "bytes_per_second", "pause_ms"),
    [(0, 4 << 20, 15), (0, 1 << 40, 1), (2, 4 << 20, 98), (2, 64 << 10, 1_000), (60_000, 4 << 20, 5_000)],
)
def test_the_scrub_takes_its_share_of_bytes_and_of_time(took_ms: int, bytes_per_second: int, pause_ms: int) -> None:
    assert pause_after_step_ms(UptimeMs(7), UptimeMs(7 + took_ms), bytes_per_second) == pause_ms


def test_a_record_of_a_queues_earlier_life_is_put_into_none() -> None:
    """Its topic was deleted, and a loss of power took the note of that."""
    stand = DamagedStand()
    stand.store.delete_queues("orders")
    stand.send(*[b"new %d" % number for number in range(5)])
    stand.store.flush()
    stand.disk.remove("/store/deletedTopics")
    stand.open_with()
    assert stand.store.queue("orders", 0).max_offset == 5
    scrub(stand)
    assert {finding.kind for finding in stand.reported} == {"record_beyond"}
    assert stand.consumed(0) == [b"new %d" % number for number in range(5)]


@pytest.mark.parametrize("is_in_use", [True, False])
def test_records_behind_the_end_of_their_queue_are_reported_once_per_queue(is_in_use: bool) -> None:
    """Neither its files nor anything that was noted of it had more: somebody has put older ones there."""
    stand = DamagedStand()
    stand.store.close()
    older = stand.disk.image()
    stand.open_with()
    *_, last = stand.send(b"more", b"and more", queue_id=0)
    stand.store.close()
    newer = {path: bytes(inode.content) for path, inode in stand.disk.files.items() if "commitlog" in path}
    stand.disk.put_back(older)
    for path, content in newer.items():
        inode = stand.disk.open(path)
        inode.content[:], inode.size = content, 1024
    end = stand.store.max_position
    stand.files.replace("/store/checkpoint", b"[%d,%d,1000,%d,8,0]" % (end, end, last.log_position))
    stand.open_with()
    if is_in_use:
        assert stand.store.queue("orders", 0).max_offset == 7
    for _ in range(2):
        scrub(stand)
    assert [(finding.kind, finding.queue_offset) for finding in stand.reported] == [("record_beyond", 7)]


def test_as_many_findings_are_reported_as_the_limit_says_and_all_records_are_counted_once() -> None:
    reported: list[Finding] = []
    findings = Findings(reported.append)
    for _ in ("the scrub", "a read"):
        for position in range(SHOWN_MAX + 5):
            findings.damaged(Finding(DAMAGED_RECORD, position, "rotten"))
    assert [finding.log_position for finding in reported] == list(range(SHOWN_MAX))
    assert findings.damaged_records == SHOWN_MAX + 5
