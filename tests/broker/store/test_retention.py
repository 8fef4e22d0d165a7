"""Old segments go as a whole, and no queue shows a message whose record went with them."""

import pytest

from staticfire.broker.store.outcomes import ReadStatus
from staticfire.broker.store.time_search import Boundary
from staticfire.protocol.times import MessageMs
from tests.broker.store.stand import Sent, StoreStand


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def fill(stand: StoreStand, count: int = 30) -> list[Sent]:
    """Write about six messages per segment; message n is stored at second n."""
    sent = [stand.append(b"%03d" % number * 200, stored_ms=1000 * number) for number in range(count)]
    stand.store.commit()
    stand.store.flush()
    return sent


@pytest.mark.row("F2")
def test_queues_begin_with_the_first_message_that_is_left(stand: StoreStand) -> None:
    sent = fill(stand)
    assert stand.store.oldest_stored_ms == 0
    assert stand.store.remove_segments_before(9000) == 2
    left = [one for one in sent if one.log_position >= 8192]
    first = sent.index(left[0])
    queue = stand.store.queue("orders", 0)
    assert (stand.store.min_position, queue.min_offset, queue.max_offset) == (8192, first, 30)
    assert stand.bodies() == [one.body for one in left]
    assert stand.store.read(queue, 0, 32)[:2] == (ReadStatus.OFFSET_TOO_SMALL, first)
    assert stand.store.oldest_stored_ms == first * 1000
    assert stand.store.stored_ms_of(queue, first - 1) is None
    assert stand.store.record_at(sent[0].log_position) is None
    assert stand.store.search_offset(queue, MessageMs(0), Boundary.LOWER) == first
    stand.restart()
    assert stand.bodies() == [one.body for one in left]


def test_the_last_segment_stays(stand: StoreStand) -> None:
    sent = fill(stand)
    stand.store.remove_segments_before(1 << 40)
    assert stand.store.min_position == sent[-1].log_position // 4096 * 4096
    assert stand.bodies()[-1] == sent[-1].body


def test_a_queue_that_lost_all_its_messages_continues_with_its_offsets(stand: StoreStand) -> None:
    stand.send(b"a", b"b", queue_id=7)
    fill(stand)
    stand.store.remove_segments_before(8192)
    queue = stand.store.queue("orders", 7)
    for _ in range(2):
        assert (queue.min_offset, queue.max_offset) == (2, 2)
        assert stand.store.read(queue, 2, 32).status is ReadStatus.OFFSET_OVERFLOW_ONE
        assert stand.store.read(queue, 1, 32)[:2] == (ReadStatus.OFFSET_TOO_SMALL, 2)
        stand.restart()
        queue = stand.store.queue("orders", 7)
    assert stand.send(b"c", queue_id=7)[0].settled[0][0] == 2
    stand.restart()
    assert stand.bodies(queue_id=7) == [b"c"]


def test_queue_files_without_a_message_are_removed_but_for_the_last(stand: StoreStand) -> None:
    fill(stand, 40)
    stand.store.remove_segments_before(1 << 40)
    queue_files = sorted(path[-20:] for path in stand.disk.files if "consumequeue" in path)
    assert queue_files == [f"{32 * 20:020d}"]


def test_what_the_checkpoint_does_not_cover_stays(stand: StoreStand) -> None:
    for number in range(30):
        stand.append(b"%03d" % number * 200)
    stand.store.commit()
    assert stand.store.remove_segments_before(1 << 40) == 0
    stand.store.flush()
    assert stand.store.remove_segments_before(1 << 40) > 0


def test_a_rebuild_begins_each_queue_with_its_oldest_record(stand: StoreStand) -> None:
    sent = fill(stand, 40)
    stand.store.remove_segments_before(9000)
    left = [one.body for one in sent if one.log_position >= 8192]
    for _ in range(2):
        stand.kill()
        stand.disk.remove("/store/checkpoint")
        assert stand.open().rebuilt
        queue = stand.store.queue("orders", 0)
        assert (queue.min_offset, queue.max_offset) == (40 - len(left), 40)
        assert stand.bodies() == left
        stand.store.close()
        stand.open()
        assert stand.bodies() == left


def test_the_oldest_segment_is_as_young_as_what_comes_behind_it(stand: StoreStand) -> None:
    assert stand.store.oldest_segment() is None
    sent = fill(stand)
    for end in (4096, 8192):
        behind = next(index for index, one in enumerate(sent) if one.log_position >= end)
        assert stand.store.oldest_segment() == (end, behind * 1000)
        stand.store.remove_segments_before(end)
    stand.store.remove_segments_before(1 << 40)
    assert stand.store.oldest_segment() is None
