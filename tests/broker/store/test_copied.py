"""Pieces of a log, appended to another store: equal bytes, equal queues, and nothing that isn't a record."""

from contextlib import suppress
from random import Random

import msgspec
import pytest

from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import StorageError
from staticfire.protocol.names import SCHEDULE_TOPIC
from tests.broker.store.stand import SMALL, StoreStand

pytestmark = pytest.mark.row("P7")
TOPICS = ("orders", "bills")


def source(seed: int, messages: int = 120) -> StoreStand:
    """Return a store with messages of many sizes, in several segments."""
    random, stand = Random(seed), StoreStand()
    stand.open()
    for number in range(messages):
        body = b"%d" % number * random.randrange(1, 200)
        stand.send(body[:1500], topic=random.choice(TOPICS), queue_id=random.randrange(2), tag="a")
    return stand


def copied(stand: StoreStand, target: StoreStand, piece_bytes: int) -> None:
    """Copy in pieces of this size, which end anywhere."""
    theirs, size = stand.store, piece_bytes
    while (position := target.store.max_position) < theirs.max_position:
        end = target.store.copy_of_log().add(position, theirs.log_window(position, size))
        target.store.commit()
        assert target.store.max_position == end
        size = piece_bytes if end > position else 2 * size


def contents(stand: StoreStand) -> tuple[bytes, list[list[bytes]]]:
    files, store = stand.files, stand.store
    names = files.list_folder("/store/commitlog")
    log = b"".join(files.read_bytes(f"/store/commitlog/{name}").ljust(SMALL.segment_bytes_max, b"\0") for name in names)
    return log[: store.max_position], [stand.bodies(topic, queue_id) for topic in TOPICS for queue_id in range(2)]


@pytest.mark.parametrize("piece_bytes", [1, 100, 777, 4_096, 1 << 20])
def test_a_copy_is_equal_however_it_is_cut(piece_bytes: int) -> None:
    stand, target = source(piece_bytes), StoreStand()
    target.open()
    copied(stand, target, piece_bytes)
    assert contents(target) == contents(stand)
    report = target.restart()
    assert not report.is_damaged
    assert contents(target) == contents(stand)


def test_a_copy_continues_after_a_kill_anywhere() -> None:
    stand, target, random = source(3), StoreStand(), Random(3)
    target.open()
    while target.store.max_position < stand.store.max_position:
        position = target.store.max_position
        target.store.copy_of_log().add(position, stand.store.log_window(position, random.randrange(2_000, 9_000)))
        if random.random() < 0.7:
            target.store.commit()
        if random.random() < 0.5:
            target.store.flush()
        if random.random() < 0.3:
            target.lose_power()
            target.open()
        else:
            target.restart()
    assert contents(target) == contents(stand)


@pytest.mark.parametrize("first_bytes", [2 * SMALL.segment_bytes_max, SMALL.segment_bytes_max // 2])
@pytest.mark.parametrize("restarts", [False, True])
def test_segments_of_another_size_are_copied_as_they_are(first_bytes: int, restarts: bool) -> None:
    """mappedFileSizeCommitLog was changed at all brokers, and then a new slave joins."""
    stand, target, random = StoreStand(), StoreStand(), Random(8)
    stand.settings = msgspec.structs.replace(SMALL, segment_bytes_max=first_bytes)
    stand.open()
    for _ in range(2):
        for number in range(100):
            stand.send(b"%d" % number * 20)
        stand.settings = SMALL
        stand.restart()
    target.open()
    theirs = stand.store
    while (position := target.store.max_position) < theirs.max_position:
        piece = theirs.log_window(position, random.randrange(2_000, 9_000))
        target.store.copy_of_log().add(position, piece, theirs.segment_end(position))
        target.store.commit()
        if restarts and random.random() < 0.3:
            if random.random() < 0.5:
                target.store.log.segments.cut(target.store.max_position)
            target.restart()
    assert contents(target)[1] == contents(stand)[1]
    names = [one.files.list_folder("/store/commitlog") for one in (stand, target)]
    assert restarts or names[0] == names[1]


def test_a_piece_that_passes_the_end_of_its_segment_is_refused() -> None:
    stand, target = StoreStand(), StoreStand()
    stand.settings = msgspec.structs.replace(SMALL, segment_bytes_max=8 * SMALL.segment_bytes_max)
    stand.open()
    target.open()
    for number in range(300):
        stand.send(b"%d" % number * 20)
    piece = stand.store.log_window(0, 1 << 20)
    with pytest.raises(StorageError, match=r"passes the end of its segment .*set mappedFileSizeCommitLog"):
        target.store.copy_of_log().add(0, piece)
    target.store.commit()
    assert target.store.max_position == 0


@pytest.mark.parametrize("place", [0, 5, 40, 120, -1])
def test_a_changed_byte_is_refused_and_nothing_of_it_is_stored(place: int) -> None:
    stand, target = source(4, messages=1), StoreStand()
    target.open()
    piece = bytearray(stand.store.log_window(0, 1 << 20))
    piece[place] ^= 0x55
    with suppress(StorageError):  # A changed length may look like a record that isn't whole yet.
        assert target.store.copy_of_log().add(0, bytes(piece)) == 0
    target.store.commit()
    assert target.store.max_position == 0


def test_a_piece_from_another_position_is_refused() -> None:
    stand, target = source(5), StoreStand()
    target.open()
    with pytest.raises(StorageError, match="a piece of the log begins at 100, but this log ends at 0"):
        target.store.copy_of_log().add(100, stand.store.log_window(0, 4_000))


def test_a_topic_that_was_deleted_meanwhile_enters_no_queue() -> None:
    stand, target = StoreStand(), StoreStand()
    stand.open()
    target.open()
    stand.send(b"old", b"older")
    stand.store.delete_queues("orders")
    stand.send(b"new")
    target.store.delete_as_copied(stand.store.deletions)
    copied(stand, target, 1 << 20)
    assert target.bodies() == stand.bodies() == [b"new"]
    target.restart()
    assert target.bodies() == [b"new"]


@pytest.mark.skipif(twin is None, reason="built without a compiler, or STATICFIRE_PURE_PYTHON is set")
@pytest.mark.parametrize("piece_bytes", [700, 1 << 20])
def test_the_compiled_twin_enters_what_python_enters(piece_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stand, random = source(6), Random(6)
    stand.send(b"gone", topic="young")
    stand.store.delete_queues("young")
    for number in range(80):
        tag = random.choice(["", "paid", "\u00e9t\u00e9"])
        topic = random.choice([*TOPICS, "young", SCHEDULE_TOPIC])
        stand.send(b"%d" % number, topic=topic, tag=tag, sys_flag=random.choice([0, 0, 4]), stored_ms=2_000 + number)
    with_twin, without = StoreStand(), StoreStand()
    for target in (with_twin, without):
        target.open()
        target.store.delete_as_copied(stand.store.deletions)
    copied(stand, with_twin, piece_bytes)
    monkeypatch.setattr("staticfire.broker.store.copied.twin", None)
    copied(stand, without, piece_bytes)
    assert contents(with_twin) == contents(without) == contents(stand)
    stores = with_twin.store, without.store, stand.store
    for topic in ("young", SCHEDULE_TOPIC, *TOPICS):
        mine, theirs, originals = (store.entries(store.queue(topic, 0), 0, 500) for store in stores)
        assert mine == theirs == originals
    assert len({(store.last_position, store.last_stored_ms) for store in stores}) == 1
