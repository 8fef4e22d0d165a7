"""Messages go into the store in bursts and are read from queues as RocketMQ's consumers expect."""

import pytest

from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import Entry, PutOutcome, ReadStatus
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.errors import ProtocolError, StorageError
from staticfire.protocol.record import decode_record
from staticfire.protocol.tags import java_hash
from staticfire.protocol.times import MessageMs
from tests.broker.store.stand import SMALL, StoreStand


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def test_messages_are_read_in_the_order_in_which_they_were_sent(stand: StoreStand) -> None:
    stand.send(b"one", b"two")
    stand.send(b"three")
    assert stand.bodies() == [b"one", b"two", b"three"]


def test_queues_and_topics_are_apart(stand: StoreStand) -> None:
    stand.append(b"a0", queue_id=0)
    stand.append(b"a1", queue_id=1)
    stand.append(b"b0", topic="bills")
    stand.append(b"a0 again", queue_id=0)
    stand.store.commit()
    assert stand.bodies() == [b"a0", b"a0 again"]
    assert stand.bodies(queue_id=1) == [b"a1"]
    assert stand.bodies(topic="bills") == [b"b0"]


def test_nothing_is_visible_before_the_commit(stand: StoreStand) -> None:
    queue = stand.store.queue("orders", 0)
    sent = stand.append(b"one")
    assert (queue.max_offset, queue.next_offset, sent.settled) == (0, 1, [])
    assert stand.store.read(queue, 0, 32).status is ReadStatus.NO_MESSAGE_IN_QUEUE
    stand.store.commit()
    assert (queue.max_offset, queue.next_offset) == (1, 1)
    assert sent.settled == [(0, sent.log_position, PutOutcome.STORED)]


def test_a_burst_is_one_write_and_is_settled_in_order(stand: StoreStand) -> None:
    stand.send(b"first")
    writes: list[str] = []
    stand.disk.on_write = lambda path, *_: writes.append(path)
    settled: list[bytes] = []
    for number in range(10):
        stand.append(b"%d" % number, queue_id=number % 3, on_stored=lambda sent, *_: settled.append(sent.body))
    stand.store.commit()
    assert writes == ["/store/commitlog/00000000000000000000"]
    assert settled == [b"%d" % number for number in range(10)]


def test_a_commit_reports_which_queues_got_messages_and_from_which_offset(stand: StoreStand) -> None:
    stand.send(b"old")
    stand.append(b"x", queue_id=1)
    stand.append(b"y", queue_id=0)
    stand.append(b"z", queue_id=0)
    orders = [stand.store.queue("orders", queue_id) for queue_id in (0, 1)]
    assert stand.store.commit() == {orders[1]: 0, orders[0]: 1}
    assert stand.store.commit() == {}


def test_a_settlement_may_append_to_the_next_burst(stand: StoreStand) -> None:
    stand.append(b"cause", on_stored=lambda *_: stand.append(b"effect"))
    stand.store.commit()
    assert stand.bodies() == [b"cause"]
    stand.store.commit()
    assert stand.bodies() == [b"cause", b"effect"]


def test_records_that_all_lie_side_by_side_come_as_one_slice(stand: StoreStand) -> None:
    stand.send(b"a", b"b", b"c")
    stand.send(b"elsewhere", queue_id=1)
    stand.send(b"d")
    queue = stand.store.queue("orders", 0)
    for count, slices in ((3, 1), (4, 4)):
        result = stand.store.read(queue, 0, count)
        assert (result.record_count, len(stand.store.records(result))) == (count, slices)


def test_a_record_is_stored_as_it_was_given(stand: StoreStand) -> None:
    queue = stand.store.queue("orders", 3)
    new = NewRecord(queue, b"KEYS\x01k\x02", 5, b"body", 111, bytes(range(20)), 0x10, 7, 2, 99)
    position = stand.store.put(new, MessageMs(222))
    stand.store.commit()
    record = stand.store.record_at(position)
    assert record is not None
    found = decode_record(record)
    assert (found.born_ms, found.sys_flag, found.flag, found.reconsume_times, found.prepared_position) == (
        111,
        16,
        7,
        2,
        99,
    )
    assert (found.born_host, found.properties, found.body, found.stored_ms) == (
        bytes(range(20)),
        b"KEYS\x01k\x02",
        b"body",
        222,
    )
    assert stand.store.stored_ms_of(queue, 0) == 222


@pytest.mark.parametrize("reaches_files", [False, True], ids=["in memory", "in files"])
@pytest.mark.parametrize(
    ("offset", "status", "next_offset"),
    [
        (-1, ReadStatus.OFFSET_TOO_SMALL, 0),
        (0, ReadStatus.FOUND, 3),
        (2, ReadStatus.FOUND, 3),
        (3, ReadStatus.OFFSET_OVERFLOW_ONE, 3),
        (4, ReadStatus.OFFSET_OVERFLOW_BADLY, 3),
    ],
)
def test_a_read_answers_with_rocketmqs_status(
    stand: StoreStand, reaches_files: bool, offset: int, status: ReadStatus, next_offset: int
) -> None:
    stand.send(b"a", b"b", b"c")
    if reaches_files:
        stand.store.flush()
        stand.restart()
    result = stand.store.read(stand.store.queue("orders", 0), offset, 32)
    assert result[:4] == (status, next_offset, 0, 3)


@pytest.mark.parametrize("offset", [-5, 0, 5])
def test_a_queue_that_never_had_a_message_says_so_at_any_offset(stand: StoreStand, offset: int) -> None:
    assert stand.store.read(stand.store.queue("orders", 0), offset, 32)[:2] == (ReadStatus.NO_MESSAGE_IN_QUEUE, 0)


def test_a_read_returns_as_many_messages_as_requested_and_one_at_least(stand: StoreStand) -> None:
    stand.send(*[b"x"] * 40)
    queue = stand.store.queue("orders", 0)
    assert stand.store.read(queue, 0).record_count == 32
    assert stand.store.read(queue, 0, 1000).record_count == 40
    assert stand.store.read(queue, 0, 5).record_count == 5
    assert stand.store.read(queue, 0, 0).record_count == 1


def test_a_read_stops_before_its_bytes_are_too_many_but_gives_the_first_message_whatever_its_size() -> None:
    stand = StoreStand(StoreSettings(segment_bytes_max=2_000_000))
    stand.open()
    stand.send(bytes(300_000), bytes(100_000), bytes(100_000), bytes(100_000))
    queue = stand.store.queue("orders", 0)
    assert [stand.store.read(queue, offset, 32).record_count for offset in range(4)] == [1, 2, 2, 1]
    assert stand.store.read(queue, 1, 32, bytes_max=1).record_count == 1


def test_a_read_that_its_bytes_bound_is_what_a_look_at_each_message_gives(stand: StoreStand) -> None:
    stand.send(*[bytes(37 * number % 100) for number in range(20)])
    queue = stand.store.queue("orders", 0)
    for bytes_max in range(0, 3_500, 97):
        at_once = stand.store.read(queue, 3, 15, bytes_max)
        one_by_one = stand.store.read(queue, 3, 15, bytes_max, wanted=lambda _: True)
        assert list(at_once.positions) == list(one_by_one.positions)
        assert at_once.next_offset == one_by_one.next_offset == at_once.end_offset
        assert at_once.record_bytes == one_by_one.record_bytes == sum(at_once.sizes)


def test_a_filter_passes_over_what_is_not_wanted(stand: StoreStand) -> None:
    for number in range(100):
        stand.append(b"%d" % number, tag="rare" if number % 10 == 9 else "common")
    stand.store.commit()
    queue, rare = stand.store.queue("orders", 0), java_hash("rare")
    found = stand.store.read(queue, 0, 3, wanted=lambda code: code == rare)
    assert (found.status, found.record_count, found.next_offset) == (ReadStatus.FOUND, 3, 30)
    assert (found.first_offset, found.end_offset) == (9, 30)
    nothing = stand.store.read(queue, 0, 32, wanted=lambda code: code == 1)
    assert (nothing.status, nothing.record_count, nothing.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 0, 100)


def test_a_filter_looks_at_800_messages_at_most() -> None:
    stand = StoreStand(StoreSettings(segment_bytes_max=1_000_000))
    stand.open()
    stand.send(*[b""] * 1000)
    nothing = stand.store.read(stand.store.queue("orders", 0), 50, 32, wanted=lambda _: False)
    assert (nothing.status, nothing.next_offset) == (ReadStatus.NO_MATCHED_MESSAGE, 850)


def test_an_entry_may_carry_any_number_as_its_tags_code(stand: StoreStand) -> None:
    queue = stand.store.queue("SCHEDULE_TOPIC_XXXX", 2)
    for due_ms in (1 << 62, -(1 << 63)):
        stand.store.put(NewRecord(queue, b"", due_ms, b"", 0, bytes(8)), MessageMs(1))
    stand.store.commit()
    first, second = stand.store.entries(queue, 0, 10)
    assert (first.tags_code, second.tags_code) == (1 << 62, -(1 << 63))
    assert second == Entry(first.log_position + first.record_bytes, first.record_bytes, -(1 << 63))
    assert stand.store.entries(queue, 2, 10) == []


def test_prepared_and_rolled_back_records_enter_no_queue(stand: StoreStand) -> None:
    sent = [stand.append(b"half", sys_flag=0x4), stand.append(b"seen"), stand.append(b"back", sys_flag=0xC)]
    stand.store.commit()
    assert [one.settled[0][0] for one in sent] == [0, 0, 0]
    assert stand.bodies() == [b"seen"]
    record = stand.store.record_at(sent[0].log_position)
    assert record is not None
    assert decode_record(record).body == b"half"
    stand.restart()
    assert stand.bodies() == [b"seen"]


def test_a_burst_continues_in_the_next_segment(stand: StoreStand) -> None:
    sent = stand.send(*[b"%04d" % number * 100 for number in range(40)])
    assert stand.disk.files.keys() >= {f"/store/commitlog/{start:020d}" for start in (0, 4096, 8192)}
    assert {one.outcome for one in sent} == {PutOutcome.STORED}
    assert stand.bodies() == [one.body for one in sent]
    assert [position for position, _ in stand.store.records_from(0)] == [one.log_position for one in sent]
    assert [position for position, _ in stand.store.records_from(sent[7].log_position)] == [
        one.log_position for one in sent[7:]
    ]


@pytest.mark.parametrize("body_bytes", range(3900, 4100))
def test_a_record_that_just_fits_into_a_segment_does_and_a_larger_one_is_refused(body_bytes: int) -> None:
    stand = StoreStand()
    stand.open()
    stand.send(b"before")
    room = SMALL.segment_bytes_max - 27 - (98 + 8 + 3 + len("orders"))
    if body_bytes <= room:
        stand.send(bytes(body_bytes), b"after")
        assert [len(body) for body in stand.bodies()] == [6, body_bytes, 5]
        stand.restart()
        assert [len(body) for body in stand.bodies()] == [6, body_bytes, 5]
    else:
        with pytest.raises(StorageError, match="too large"):
            stand.append(bytes(body_bytes))
        stand.send(b"after")
        assert stand.bodies() == [b"before", b"after"]


def test_what_can_not_be_packed_changes_nothing(stand: StoreStand) -> None:
    stand.append(b"before")
    with pytest.raises(ProtocolError):
        stand.append(b"", stored_ms=1 << 70)
    stand.append(b"after")
    stand.store.commit()
    assert stand.bodies() == [b"before", b"after"]


def test_no_record_is_found_where_none_begins(stand: StoreStand) -> None:
    (sent,) = stand.send(b"x" * 50)
    assert stand.store.record_at(sent.log_position) is not None
    for position in (-1, 1, 20, 100, stand.store.max_position, 10_000, 1 << 62):
        assert stand.store.record_at(position) is None


@pytest.mark.parametrize("topic", ["", ".", "..", "a/b", "a\0b"])
def test_a_topic_that_can_not_be_a_folder_gets_no_queue(stand: StoreStand, topic: str) -> None:
    with pytest.raises(StorageError, match="folder"):
        stand.store.queue(topic, 0)


def test_a_closed_store_takes_nothing(stand: StoreStand) -> None:
    queue = stand.store.queue("orders", 0)
    stand.store.close()
    stand.store.close()
    with pytest.raises(StorageError, match="closed"):
        stand.store.put(NewRecord(queue, b"", 0, b"", 0, bytes(8)), MessageMs(1))


def test_a_folder_belongs_to_one_process(stand: StoreStand) -> None:
    other = StoreStand()
    other.disk = stand.disk
    with pytest.raises(StorageError, match="in use by process"):
        other.open()
    stand.store.close()
    other.open()


def test_a_folder_that_can_not_be_written_is_a_clear_error() -> None:
    stand = StoreStand()
    stand.disk.fail_write(1)
    with pytest.raises(StorageError, match="/store"):
        stand.open()
    stand.open()
