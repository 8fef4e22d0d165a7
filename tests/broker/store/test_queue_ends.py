"""Where queues ended is noted, a line per round, whatever happens to the file or while it is written."""

import errno

import pytest

from staticfire.broker.store import queue_ends
from staticfire.simulation.world.process import ProcessKilled
from tests.broker.store.stand import BODIES, ENDS, QUEUES, StoreStand, filled, noted_ends


@pytest.fixture
def stand() -> StoreStand:
    return filled()


def test_a_round_notes_what_it_has_written_and_nothing_else(stand: StoreStand) -> None:
    assert noted_ends(stand)[0].endswith(b',{"orders":{"0":40},"bills":{"3":1}}]')
    stand.open()
    stand.send(b"new", queue_id=7)
    stand.store.flush()
    stand.store.flush()
    assert noted_ends(stand)[1:] == [b'[%d,{"orders":{"7":1}}]' % stand.store.max_position]


def test_it_is_replaced_when_it_has_grown(stand: StoreStand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_ends, "BYTES_MIN", 1_000)
    stand.open()
    sizes = []
    for _ in range(100):
        stand.send(b"new")
        stand.store.flush()
        sizes.append(len(noted_ends(stand)))
    assert max(sizes) < 40
    assert sizes.count(1) > 2
    stand.store.delete_queues("bills")
    for _ in range(100):
        stand.send(b"new")
        stand.store.flush()
    assert b"bills" not in noted_ends(stand)[0]
    stand.store.close()
    stand.disk.remove_folder(f"{QUEUES}/orders")
    assert stand.open().short_queues == 1
    assert stand.bodies() == [*BODIES, *[b"new"] * 200]


def before_the_checkpoint(stand: StoreStand) -> None:
    """Let the process end before it replaces the checkpoint."""

    def before(what: str, path: str) -> None:
        if path.endswith("/checkpoint"):
            stand.disk.before = None
            raise ProcessKilled

    stand.disk.before = before


@pytest.mark.parametrize("left_bytes", [0, 1, 30, 60])
def test_a_line_that_was_torn_is_none(stand: StoreStand, left_bytes: int) -> None:
    stand.open()
    stand.send(b"new")
    before_the_checkpoint(stand)
    with pytest.raises(ProcessKilled):
        stand.store.flush()
    stand.kill()
    stand.disk.files[ENDS].truncate(len(noted_ends(stand)[0]) + 10 + left_bytes)
    for _ in range(2):
        assert stand.open().problems == ()
        assert stand.bodies() == [*BODIES, b"new"]
        stand.store.close()
    assert b'"0":41' in noted_ends(stand)[-1]


@pytest.mark.parametrize("trouble", ["write", "sync", "killed"])
def test_a_line_that_could_not_be_written_is_written_by_the_next_round(stand: StoreStand, trouble: str) -> None:
    stand.open()
    stand.send(b"new")

    def before(what: str, path: str) -> None:
        if path == ENDS and what == (trouble if trouble != "killed" else "sync"):
            stand.disk.before = None
            raise ProcessKilled if trouble == "killed" else OSError(errno.EIO, "Input/output error")

    stand.disk.before = before
    with pytest.raises((OSError, ProcessKilled)):
        stand.store.flush()
    if trouble == "killed":
        stand.restart()
    stand.store.flush()
    assert b'"0":41' in noted_ends(stand)[-1]
    stand.lose_power()
    assert stand.open().problems == ()
    assert b'"0":41' in noted_ends(stand)[-1]


@pytest.mark.parametrize("damage", ["removed", "cut", "spoilt"])
def test_its_loss_is_reported_and_it_is_rebuilt(stand: StoreStand, damage: str) -> None:
    stand.open()
    stand.send(b"new")
    stand.store.close()
    if damage == "removed":
        stand.disk.remove(ENDS)
    elif damage == "cut":
        stand.disk.files[ENDS].truncate(len(noted_ends(stand)[0]) + 10)
    else:
        stand.disk.files[ENDS].content[20] ^= 1
    assert "queueEnds was lost, cut or damaged" in stand.open().problems[0]
    for _ in range(2):
        assert stand.bodies() == [*BODIES, b"new"]
        stand.store.close()
        stand.disk.remove_folder(f"{QUEUES}/orders")
        assert stand.open().short_queues == 1


def test_a_store_of_an_older_version_has_its_ends_noted_at_its_first_start(stand: StoreStand) -> None:
    stand.disk.remove(ENDS)
    stand.files.replace("/store/checkpoint", b"[%d,%d,1000,-1,16,0]" % ((stand.store.max_position,) * 2))
    assert stand.open().problems == ()
    stand.store.close()
    stand.disk.remove_folder(f"{QUEUES}/orders/0")
    assert stand.open().short_queues == 1
    assert stand.bodies() == BODIES
