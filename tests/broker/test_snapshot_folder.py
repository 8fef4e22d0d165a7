"""A snapshot is saved over its name, and each step of that fails, or is the last one before a kill."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from staticfire.broker.snapshots.folder import SnapshotFolder
from staticfire.broker.snapshots.plan import RESTORING
from staticfire.protocol.errors import BrokerAnswer, StorageError
from staticfire.protocol.requests.snapshots import SnapshotInfo
from staticfire.runtime.state_file import seal_state
from staticfire.simulation.world.disk import Disk
from staticfire.simulation.world.files import SimulatedFiles
from staticfire.simulation.world.history import History
from staticfire.simulation.world.process import Process, ProcessKilled
from tests.broker.store.stand import STOPPED

pytestmark = pytest.mark.row("S8")

OLD, NEW, NEWER = b"old", b"newer and longer", b"the newest"
BOTH_WAYS = pytest.mark.parametrize("pending", [False, True], ids=["at once", "pending"])
DATA, TOPICS = "/store/commitlog/0", "/store/config/topics.json"


class Stand:
    """One disk; `folder` is that of the process that lives at the moment."""

    def __init__(self, pending: bool = False) -> None:
        self.disk = Disk("disk")
        self._pending = pending
        self._lives = 0
        self.begin()

    def begin(self) -> None:
        self._lives += 1
        self.process = Process("broker", "127.0.0.1", self._lives)
        self.files = SimulatedFiles(self.process, self.disk, History(STOPPED))
        self.folder = SnapshotFolder(self.files, "/store")

    def fill(self, data: bytes) -> None:
        """Let the broker have that."""
        for path, content in ((DATA, data), (TOPICS, seal_state(b'{"n":%d}' % len(data)))):
            self.files.make_folder(path.rpartition("/")[0])
            self.files.replace(path, content)
        for folder in ("/store", "/"):
            self.files.sync_folder(folder)

    def save(self, name: str = "base") -> SnapshotInfo:
        saved = self.folder.save(SnapshotInfo(name, 1, 2), self._pending)
        if self._pending:
            self.folder.keep(name, saved.saved_ms, "of all brokers")
        return saved

    def saved(self, name: str = "base") -> bytes:
        """Return what comes back when the snapshot is staged."""
        assert [info.name for info in self.folder.all()] == [name]
        assert self.folder.info(name).size_bytes > 0
        self.folder.stage(name)
        data = self.files.read_bytes(f"/store/{RESTORING}/files/commitlog/0")
        topics = self.files.read_bytes(f"/store/{RESTORING}/files/config/topics.json")
        assert topics == seal_state(b'{"n":%d}' % len(data))
        return data

    def state(self) -> tuple[bytes, bool]:
        """Return what the broker's folder contains: the log, and whether there are files of later."""
        assert not self.files.exists(f"/store/{RESTORING}/plan")
        data, topics = self.files.read_bytes(DATA), self.files.read_bytes(TOPICS)
        assert topics == seal_state(b'{"n":%d}' % len(data))
        return data, self.files.exists("/store/deletedTopics")

    def leftovers(self) -> list[str]:
        """Return all folders of the snapshot that aren't the ones that it is."""
        others = [name for name in self.files.list_folder("/store/snapshots") if name != "base"]
        return others + [name for name in self.files.list_folder("/store/snapshots/base") if name != "info"][1:]


def replaced(pending: bool = False) -> tuple[Stand, list[tuple[str, str]]]:
    """Return a broker whose snapshot is about to be replaced, and the steps of that.

    `pending`: it is saved next to the old one first, as in a cluster of several brokers.
    """
    steps: list[tuple[str, str]] = []
    for is_dry in (True, False):
        stand = Stand(pending)
        stand.fill(OLD)
        stand.save()
        stand.fill(NEW)
        if is_dry:
            stand.disk.before = lambda *step: steps.append(step)
            stand.save()
    return stand, steps


def in_step(number: int, error: Callable[[], BaseException], lasts: bool = True) -> Callable[[str, str], None]:
    """Return what fails in that step, and if it lasts, in all others behind it."""
    left = number

    def strike(*_: str) -> None:
        nonlocal left
        left -= 1
        if left == -1 or (left < 0 and lasts):
            raise error()

    return strike


def restored() -> tuple[Stand, list[tuple[str, str]]]:
    """Return a broker whose snapshot is about to be restored, and the steps of that."""
    steps: list[tuple[str, str]] = []
    for is_dry in (True, False):
        stand = Stand()
        stand.fill(OLD)
        stand.save()
        stand.fill(NEW)
        stand.files.replace("/store/deletedTopics", b"later")
        stand.folder.stage("base")
        if is_dry:
            stand.disk.before = lambda *step: steps.append(step)
            stand.folder.restoring.put_back()
    return stand, steps


def disk_failure() -> OSError:
    return OSError(errno.EIO, "Input/output error")


@BOTH_WAYS
@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from then on"])
def test_an_error_in_any_step_leaves_the_old_or_the_new_one(lasts: bool, pending: bool) -> None:
    _, steps = replaced(pending)
    outcomes = []
    for at in range(len(steps)):
        stand, _ = replaced(pending)
        stand.disk.before = in_step(at, disk_failure, lasts)
        try:
            stand.save()
            is_reported = False
        except StorageError:
            is_reported = True
        stand.disk.before = None
        found = stand.saved()
        assert found in ((OLD, NEW) if is_reported else (NEW,)), (at, steps[at])
        outcomes.append(found)
        stand.fill(NEWER)
        stand.save()
        assert stand.saved() == NEWER
        assert stand.leftovers() == []
    assert {OLD, NEW} >= set(outcomes)
    assert OLD in outcomes


@BOTH_WAYS
@pytest.mark.parametrize("end", ["killed", "without power", "torn"])
def test_a_kill_at_any_step_leaves_the_old_or_the_new_one(end: str, pending: bool) -> None:
    _, steps = replaced(pending)
    outcomes = []
    for at in range(len(steps)):
        for seed in range(8 if end == "torn" else 1):
            stand, _ = replaced(pending)
            stand.disk.before = in_step(at, ProcessKilled)
            with pytest.raises(ProcessKilled):
                stand.save()
            stand.disk.before = None
            stand.process.die([])
            if end != "killed":
                stand.disk.lose_power(Random(seed) if end == "torn" else None)
            stand.begin()
            found = stand.saved()
            assert found in (OLD, NEW), (at, steps[at], seed)
            outcomes.append(found)
            stand.fill(NEWER)
            stand.save()
            assert stand.saved() == NEWER
            assert stand.leftovers() == []
    assert set(outcomes) == {OLD, NEW}


def test_a_snapshot_of_an_older_version_is_read_and_replaced() -> None:
    """It has its files in `files`, and says neither where they are nor a checksum."""
    stand = Stand()
    stand.fill(OLD)
    stand.save()
    info = stand.folder.info("base")
    bare = b'{"name":"base","savedMs":1,"messageMs":2,"sizeBytes":%d}' % info.size_bytes
    stand.files.replace("/store/snapshots/base/info", bare)
    assert stand.saved() == OLD
    stand.fill(NEW)
    stand.save()
    assert stand.saved() == NEW


def test_a_flipped_bit_in_what_a_snapshot_says_is_seen_before_anything_is_replaced() -> None:
    stand = Stand()
    stand.fill(OLD)
    stand.save()
    for path in ("/store/snapshots/base/info", "/store/snapshots/base/files/config/topics.json"):
        for at in range(0, stand.disk.files[path].size, 3):
            stand.disk.rot(path, at, 1 << at % 8)
            with pytest.raises((StorageError, BrokerAnswer), match=path.rpartition("/")[2]):
                stand.folder.stage("base")
            stand.disk.rot(path, at, 1 << at % 8)
    assert stand.saved() == OLD


def test_only_the_brokers_own_files_are_saved_and_restored() -> None:
    stand = Stand()
    stand.fill(OLD)
    for path in ("/store/application.yml", "/store/mine/notes", "/store/lost+found/1"):
        stand.files.make_folder(path.rpartition("/")[0])
        stand.files.replace(path, b"first")
    assert stand.save().size_bytes == len(OLD) + stand.disk.files[TOPICS].size
    stand.fill(NEW)
    stand.files.make_folder("/store/broker-b/commitlog")
    stand.files.replace("/store/broker-b/commitlog/0", b"another broker's")
    stand.files.replace("/store/application.yml", b"edited")
    stand.files.remove_folder("/store/mine")
    stand.folder.stage("base")
    stand.folder.restoring.put_back()
    assert stand.state() == (OLD, False)
    assert stand.files.read_bytes("/store/broker-b/commitlog/0") == b"another broker's"
    assert stand.files.read_bytes("/store/application.yml") == b"edited"
    assert stand.files.list_folder("/store/mine") == []
    assert stand.files.read_bytes("/store/lost+found/1") == b"first"


def test_a_snapshot_of_an_older_version_with_other_files_is_restored_without_them() -> None:
    stand = Stand()
    stand.fill(OLD)
    stand.save()
    stand.files.replace("/store/snapshots/base/files/application.yml", b"first")
    stand.files.replace("/store/application.yml", b"edited")
    stand.folder.stage("base")
    stand.folder.restoring.put_back()
    assert stand.files.read_bytes("/store/application.yml") == b"edited"


def test_a_plan_that_an_older_version_began_loses_no_file() -> None:
    """It had removed a user's file, whose only copy is the one in the snapshot, and not another one."""
    stand = Stand()
    stand.fill(OLD)
    for name in ("mine", "kept"):
        stand.files.make_folder(f"/store/{RESTORING}/files")
        stand.files.replace(f"/store/{RESTORING}/files/{name}", b"first")
    stand.files.replace("/store/kept", b"edited")
    stand.files.replace(f"/store/{RESTORING}/plan", b'["commitlog","config","kept","mine"]')
    assert stand.folder.restoring.finish()
    assert stand.state() == (OLD, False)
    assert (stand.files.read_bytes("/store/mine"), stand.files.read_bytes("/store/kept")) == (b"first", b"edited")


@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from then on"])
def test_an_error_in_any_step_of_a_restore_leaves_one_whole_state(lasts: bool) -> None:
    _, steps = restored()
    outcomes = []
    for at in range(len(steps)):
        stand, _ = restored()
        stand.disk.before = in_step(at, disk_failure, lasts)
        outcome, reported = "restored", ""
        try:
            stand.folder.restoring.put_back()
        except StorageError as error:
            outcome = "partly" if stand.folder.restoring.is_partly_restored() else "unchanged"
            reported = str(error)
        stand.disk.before = None
        words = {"restored": "", "partly": "only partly restored in /store", "unchanged": "nothing was changed"}
        assert words[outcome] in reported
        if outcome == "partly":
            for refused in (stand.save, lambda stand=stand: stand.folder.stage("base")):
                with pytest.raises(StorageError, match="only partly restored in /store: restart the broker"):
                    refused()
            assert stand.folder.restoring.finish()
        assert stand.state() == ((NEW, True) if outcome == "unchanged" else (OLD, False)), (at, steps[at])
        outcomes.append(outcome)
        stand.folder.stage("base")
        stand.folder.restoring.put_back()
        assert stand.state() == (OLD, False)
        assert not stand.files.exists(f"/store/{RESTORING}")
    assert set(outcomes) == {"unchanged", "partly", "restored"}


@pytest.mark.parametrize("power_loss", [False, True])
def test_a_kill_at_any_step_of_a_restore_leaves_one_whole_state(power_loss: bool) -> None:
    _, steps = restored()
    outcomes = []
    for at in range(len(steps)):
        stand, _ = restored()
        stand.disk.before = in_step(at, ProcessKilled)
        with pytest.raises(ProcessKilled):
            stand.folder.restoring.put_back()
        stand.disk.before = None
        stand.process.die([])
        if power_loss:
            stand.disk.lose_power(None)
        stand.begin()
        is_finished = stand.folder.restoring.finish()
        outcomes.append(stand.state())
        assert outcomes[-1] in ([(OLD, False)] if is_finished else [(OLD, False), (NEW, True)]), (at, steps[at])
    assert outcomes == sorted(outcomes)  # Up to one step the state before it, then the snapshot.
    assert set(outcomes) == {(OLD, False), (NEW, True)}
