"""A file of a store that somebody has removed, cut or spoilt: what can be made anew is, the rest is reported."""

from collections.abc import Callable

import pytest

from staticfire.broker.store.outcomes import ReadStatus
from staticfire.broker.store.settings import StoreSettings
from staticfire.protocol.errors import StorageError
from tests.broker.store.stand import LOG, Sent, StoreStand, overwrite


@pytest.fixture
def stand() -> StoreStand:
    stand = StoreStand()
    stand.open()
    return stand


def test_damage_below_the_checkpoint_is_found_when_it_reaches_it(stand: StoreStand) -> None:
    sent = stand.send(b"a" * 50, b"b" * 50)
    other = stand.send(b"other", queue_id=1)
    stand.store.close()
    end = other[0].log_position + 200
    overwrite(stand, sent[1].log_position, bytes(end - sent[1].log_position))
    report = stand.open()
    assert report.is_damaged
    assert report.lost_synced_bytes > 0
    assert stand.bodies_with_gaps() == [b"a" * 50]
    assert stand.bodies(queue_id=1) == []
    (new,) = stand.send(b"new", queue_id=1)
    assert new.settled[0][0] == 1, "no offset is given twice"
    stand.restart()
    assert (stand.bodies_with_gaps(), stand.bodies(queue_id=1)) == ([b"a" * 50], [b"new"])
    assert not stand.restart().is_damaged


def test_a_lost_last_segment_costs_what_was_in_it(stand: StoreStand) -> None:
    sent = stand.send(*[b"%03d" % number * 200 for number in range(12)])
    stand.store.close()
    last = max(path for path in stand.disk.files if "commitlog" in path)
    stand.disk.remove(last)
    report = stand.open()
    assert report.is_damaged
    left = [one.body for one in sent if one.log_position < int(last[-20:])]
    assert stand.bodies_with_gaps() == left
    (new,) = stand.send(b"new")
    assert new.settled[0][0] == len(sent)
    stand.restart()
    assert stand.bodies_with_gaps() == [*left, b"new"]


def test_a_lost_log_costs_everything_and_offsets_continue(stand: StoreStand) -> None:
    stand.send(b"a", b"b")
    stand.store.close()
    stand.disk.remove_folder("/store/commitlog")
    report = stand.open()
    assert report.is_damaged
    assert "continues at its former end, offset 2" in report.problems[-1]
    assert stand.bodies() == []
    (new,) = stand.send(b"new")
    assert new.settled[0][0] == 2
    stand.restart()
    assert stand.bodies() == [b"new"]


def test_entries_of_a_cut_off_end_are_gone_from_queues_that_were_not_used(stand: StoreStand) -> None:
    stand.send(b"a")
    stand.send(b"b", queue_id=1)
    stand.store.close()
    stand.disk.files[LOG].truncate(130)
    assert stand.open().is_damaged
    stand.send(b"c" * 60)
    stand.store.close()
    stand.open()
    queue = stand.store.queue("orders", 1)
    assert (queue.min_offset, queue.max_offset) == (1, 1)
    assert stand.store.read(queue, 0, 32).status is ReadStatus.OFFSET_TOO_SMALL


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


def test_queue_files_of_another_size_are_rebuilt(stand: StoreStand) -> None:
    sent = stand.send(*[b"%03d" % number for number in range(20)])
    stand.store.close()
    stand.settings = StoreSettings(segment_bytes_max=4096, queue_file_entries=7)
    assert stand.open().rebuilt
    assert stand.bodies() == [one.body for one in sent]


@pytest.mark.parametrize("folder", ["/store/commitlog", "/store/consumequeue/orders/0"])
def test_a_file_whose_name_is_no_place_in_the_log_is_named(stand: StoreStand, folder: str) -> None:
    stand.send(b"a")
    stand.store.close()
    stand.files.open(f"{folder}/{'9' * 20}").close()

    def use() -> None:
        stand.open()
        stand.store.queue("orders", 0)

    with pytest.raises(StorageError, match=f"{folder}/9+ is not a .*: move it away"):
        use()


# --- files of the log below the checkpoint


def segments_of(stand: StoreStand) -> list[str]:
    return sorted(path for path in stand.disk.files if "/commitlog/" in path)


def fill(stand: StoreStand) -> list[Sent]:
    return stand.send(*[b"%03d" % number * 200 for number in range(30)])


SPOILT: dict[str, Callable[[StoreStand, str], None]] = {
    "is missing": lambda stand, path: stand.disk.remove(path),
    "is cut short": lambda stand, path: stand.disk.files[path].truncate(10),
    "begins with nothing but zeros": lambda stand, path: overwrite(stand, 0, bytes(4096), path),
    "doesn't begin with the record": lambda stand, path: overwrite(
        stand, 0, bytes(stand.disk.files[segments_of(stand)[2]].content), path
    ),
}


@pytest.mark.parametrize("fault", SPOILT)
@pytest.mark.parametrize("closed", [True, False])
def test_a_lost_first_segment_is_reported_and_may_be_put_back(stand: StoreStand, fault: str, closed: bool) -> None:
    sent = fill(stand)
    stand.store.close()
    if not closed:
        stand.open()
        stand.kill()
    kept = bytes(stand.disk.files[LOG].content)
    SPOILT[fault](stand, LOG)
    report = stand.open()
    assert (report.lost_files, report.is_damaged) == (1, True)
    assert f"{LOG} {fault}" in report.problems[0]
    assert stand.bodies_with_gaps() == [one.body for one in sent if one.log_position >= 4096]
    stand.store.close()
    assert stand.open().lost_files == (fault not in ("is missing", "is cut short")), "these were told"
    stand.store.close()
    stand.files.open(LOG, 4096).write(0, kept)
    assert stand.open().lost_files == 0
    assert stand.bodies() == [one.body for one in sent]


def test_a_missing_segment_below_the_checkpoint_is_reported(stand: StoreStand) -> None:
    sent = fill(stand)
    stand.store.close()
    stand.disk.remove(segments_of(stand)[2])
    report = stand.open()
    assert report.lost_files == 1
    assert "is cut short, or the files after it are missing" in report.problems[0]
    assert stand.bodies_with_gaps() == [one.body for one in sent if one.log_position // 4096 != 2]


def test_what_retention_has_removed_is_not_missed(stand: StoreStand) -> None:
    fill(stand)
    stand.store.flush()
    assert stand.store.remove_segments_before(9_000) == 2
    for _ in range(2):
        assert stand.restart().lost_files == 0
    stand.kill()
    stand.disk.remove(segments_of(stand)[0])
    assert f"{segments_of(stand)[0][:-20]}{8192:020d} is missing" in stand.open().problems[0]


def test_a_store_of_an_older_version_may_begin_anywhere(stand: StoreStand) -> None:
    fill(stand)
    stand.store.close()
    end = stand.store.max_position
    stand.disk.remove(LOG)
    stand.files.replace("/store/checkpoint", b"[%d,%d,1000,-1,16,0]" % (end, end))
    assert stand.open().lost_files == 0
    stand.store.close()
    stand.disk.remove(segments_of(stand)[0])
    assert stand.open().lost_files == 1


def test_an_unreadable_start_of_the_log_is_reported_once(stand: StoreStand) -> None:
    fill(stand)
    stand.store.flush()
    stand.store.remove_segments_before(9_000)
    stand.store.close()
    stand.disk.files["/store/logStart"].content[3] ^= 1
    assert "logStart can't be read" in stand.open().problems[0]
    stand.store.close()
    assert stand.open().lost_files == 0


@pytest.mark.parametrize("name", ["checkpoint", "deletedTopics"])
def test_a_flipped_bit_of_a_small_file_is_noticed(stand: StoreStand, name: str) -> None:
    stand.send(b"old", topic="bills")
    stand.store.delete_queues("bills")
    stand.send(b"a", b"b")
    stand.store.close()
    content = stand.disk.files[f"/store/{name}"].content
    for at in range(len(content)):
        image = stand.disk.image()
        stand.disk.files[f"/store/{name}"].content[at] ^= 1
        if name == "checkpoint":
            assert stand.open().rebuilt
            assert stand.bodies() == [b"a", b"b"]
        else:
            with pytest.raises(StorageError, match="deletedTopics"):
                stand.open()
        stand.kill()
        stand.disk.put_back(image)


@pytest.mark.parametrize("stray", ["README", "orders/notes.txt", "orders/7", "orders/99999999999999999999", "new/08"])
def test_what_lies_among_the_queues_and_is_none_is_passed_over_in_words(stand: StoreStand, stray: str) -> None:
    stand.send(b"a")
    stand.store.close()
    stand.disk.make_folder("/store/consumequeue/new")
    stand.files.open(f"/store/consumequeue/{stray}").close()
    for _ in range(2):
        stand.open()
        assert [stand.store.queue_ids(topic) for topic in ("README", "orders", "new")] in (
            [[], [0], []],
            [[], [0, 7], []],
        )
        assert stand.store.strays == ([f"/store/consumequeue/{stray}"] if stray != "orders/7" else [])
        for topic, queue_id in (("README", 0), ("orders", 7)):
            if stray.startswith(topic) and stray in ("README", "orders/7"):
                with pytest.raises(StorageError, match=f"{topic}/{queue_id} can't be a queue's folder.*move it away"):
                    stand.store.queue(topic, queue_id)
        stand.send(b"b")
        stand.store.close()
    stand.open()
    assert stand.bodies() == [b"a", b"b", b"b"]
