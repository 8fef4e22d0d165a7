"""What a deletion of a topic takes with it, and what not, whatever happens meanwhile."""

import errno
import posixpath

import pytest

from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import NotForGood, PutOutcome
from staticfire.protocol.errors import StorageError
from staticfire.protocol.times import MessageMs
from tests.broker.store.stand import StoreStand, lose_before


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


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
        stand.store.put(NewRecord(queue, b"", 0, b"", 0, bytes(8)), MessageMs(stand.stored_ms))
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


def fail_to_remove(what: str, path: str) -> None:
    if what.startswith("remove") and path.startswith("/store/consumequeue/orders"):
        raise OSError(errno.EIO, "Input/output error")


def test_a_deletion_whose_folder_was_not_removed_any_more_is_finished_at_start(stand: StoreStand) -> None:
    stand.send(b"old")
    stand.store.flush()
    stand.disk.before = fail_to_remove
    with pytest.raises(NotForGood, match="Input/output"):
        stand.store.delete_queues("orders")
    stand.disk.before = None
    assert stand.files.exists("/store/consumequeue/orders/0")
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


def test_a_deletion_that_could_not_be_written_has_not_happened(stand: StoreStand) -> None:
    stand.send(b"old")
    stand.store.flush()
    stand.disk.fail_sync()
    with pytest.raises(StorageError, match="nothing was changed"):
        stand.store.delete_queues("orders")
    stand.send(b"new")
    for _ in range(2):
        assert stand.bodies() == [b"old", b"new"]
        stand.restart()
    stand.store.delete_queues("orders")
    assert stand.bodies() == []


def test_topics_that_are_deleted_together_go_together(stand: StoreStand) -> None:
    """One table says so of all: it is replaced once, and no start finds a part of them deleted."""
    stand.send(b"old")
    stand.send(b"old", topic="bills")
    stand.send(b"kept", topic="parcels")
    stand.store.flush()
    stand.disk.fail_sync()
    with pytest.raises(StorageError, match=r"2 topics can't be removed.*nothing was changed"):
        stand.store.delete_queues("orders", "bills")
    assert (stand.bodies(), stand.bodies(topic="bills")) == ([b"old"], [b"old"])
    replaced: list[str] = []
    stand.disk.before = lambda what, path: replaced.append(path) if what == "rename" else None
    stand.store.delete_queues("orders", "bills")
    stand.disk.before = None
    assert len(replaced) == 1
    for _ in range(2):
        assert (stand.bodies(), stand.bodies(topic="bills")) == ([], [])
        assert stand.bodies(topic="parcels") == [b"kept"]
        stand.restart()


def test_one_folder_that_stays_keeps_no_other_topic_from_being_deleted(stand: StoreStand) -> None:
    stand.send(b"old")
    stand.send(b"old", topic="bills")
    stand.store.flush()

    def before(what: str, path: str) -> None:
        if what == "remove" and "/bills" in path:
            raise OSError(errno.EACCES, "Permission denied")

    stand.disk.before = before
    with pytest.raises(StorageError, match="2 topics could not be removed for good"):
        stand.store.delete_queues("bills", "orders")
    stand.disk.before = None
    stand.restart()
    assert (stand.bodies(), stand.bodies(topic="bills")) == ([], [])


FOREIGN = (
    "lost+found/copy",
    "orders/notes.txt",
    "orders/0/notes.txt",
    "orders/0/copy.tmp/x",
    "orders/old/00000000000000000000",
)


@pytest.mark.parametrize("foreign", FOREIGN)
@pytest.mark.parametrize("is_rebuilt", [False, True])
def test_foreign_files_among_the_queues_are_kept(stand: StoreStand, foreign: str, is_rebuilt: bool) -> None:
    path = f"/store/consumequeue/{foreign}"
    stand.send(b"old")
    stand.store.close()
    stand.disk.make_folder(posixpath.dirname(path))
    stand.files.open(path).close()
    if is_rebuilt:
        stand.disk.remove("/store/checkpoint")
    stand.open()
    assert stand.bodies() == [b"old"]
    stand.store.delete_queues("orders", "lost+found")
    assert stand.files.exists(path)
    assert not stand.files.exists(f"/store/consumequeue/orders/0/{0:020d}")
    stand.restart()
    assert [topic for topic in stand.store.topics() if stand.store.queue_ids(topic)] == []
    for body in (b"new", b"newer"):
        stand.send(body)
        stand.restart()
    assert stand.bodies() == [b"new", b"newer"]
    assert stand.files.exists(path)
