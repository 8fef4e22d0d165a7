"""Tables that are mirrored in files: saved soon, all or nothing; who waits gets the error."""

import asyncio
import errno
from itertools import pairwise

import pytest

from staticfire.broker.config_files import ConfigFiles
from staticfire.protocol.errors import StorageError
from staticfire.simulation.world import SimulatedWorld


async def nothing_to_sync() -> None:
    pass


async def test_changes_of_a_moment_share_a_write(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    state, table = ConfigFiles(machine, "/config", nothing_to_sync), [0]
    snapshots = []

    def snapshot() -> bytes:
        snapshots.append(table[0])
        return b"%d" % table[0]

    assert not state.restore("numbers.json", snapshot, lambda data: None)
    for table[0] in range(5):
        state.changed("numbers.json")
    await state.saved()
    assert machine.files.read_bytes("/config/numbers.json") == b"4"
    assert snapshots == [4]


async def test_a_full_disk_is_told_to_who_waits_and_made_good_later(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    state = ConfigFiles(machine, "/config", nothing_to_sync)
    state.restore("numbers.json", lambda: b"42", lambda data: None)
    world.disk("broker").bytes_left = 0
    state.changed("numbers.json")
    with pytest.raises(StorageError, match=r"/config/numbers\.json"):
        await state.saved()
    world.disk("broker").bytes_left = None
    state.changed("numbers.json")
    await state.saved()
    assert machine.files.read_bytes("/config/numbers.json") == b"42"


async def test_what_could_not_be_saved_is_tried_again_although_nothing_else_changes(world: SimulatedWorld) -> None:
    machine, disk = world.machine("broker"), world.disk("broker")
    machine.files.make_folder("/config")
    state = ConfigFiles(machine, "/config", nothing_to_sync)
    state.restore("numbers.json", lambda: b"42", lambda data: None)
    tries: list[float] = []

    def fail(what: str, path: str) -> None:
        if what == "sync":
            tries.append(world.uptime_ms)
            raise OSError(errno.EIO, "Input/output error")

    disk.before = fail
    state.changed("numbers.json")
    await world.run_for(minutes=2)
    assert [round((later - sooner) / 1000) for sooner, later in pairwise(tries)] == [1, 2, 4, 8, 16, 30, 30]
    disk.before = None
    await world.run_for(seconds=31)
    assert machine.files.read_bytes("/config/numbers.json") == b"42"
    await state.saved()
    disk.fail_sync()
    state.changed("numbers.json")
    await world.run_for(seconds=2)
    await state.saved()


async def test_a_file_that_follows_the_log_waits_for_it_and_the_others_do_not(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    is_safe = asyncio.Event()

    async def sync_log() -> None:
        if not is_safe.is_set():
            raise StorageError("the log can't be synced")

    state = ConfigFiles(machine, "/config", sync_log)
    state.restore("offsets.json", lambda: b"9", lambda data: None, after_log=True)
    state.restore("topics.json", lambda: b"orders", lambda data: None)
    state.changed("offsets.json")
    state.changed("topics.json")
    await state.saved("topics.json")
    with pytest.raises(StorageError, match="the log can't be synced"):
        await state.saved()
    assert machine.files.list_folder("/config") == ["topics.json"]
    with pytest.raises(StorageError, match="the log can't be synced"):
        await state.close()
    assert machine.files.list_folder("/config") == ["topics.json"]
    is_safe.set()
    await state.close()
    assert machine.files.read_bytes("/config/offsets.json") == b"9"


async def test_files_are_there_with_their_folder_after_a_loss_of_power(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/store/config")
    state = ConfigFiles(machine, "/store/config", nothing_to_sync)
    state.restore("numbers.json", lambda: b"42", lambda data: None)
    state.changed("numbers.json")
    await state.saved()
    world.kill("broker", power_loss=True)
    assert world.machine("broker").files.read_bytes("/store/config/numbers.json") == b"42"


async def test_a_broken_file_stops_the_start_and_stays_as_it_is(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    machine.files.replace("/config/numbers.json", b"?")
    state = ConfigFiles(machine, "/config", nothing_to_sync)

    def restore(data: bytes) -> None:
        data.decode("utf-16")

    with pytest.raises(StorageError, match="move it away"):
        state.restore("numbers.json", lambda: b"42", restore)
    await state.close()
    assert machine.files.read_bytes("/config/numbers.json") == b"?"
