"""Tables that are mirrored in files: saved soon, all or nothing, and told when they can't be."""

import pytest

from staticfire.broker.config_files import ConfigFiles
from staticfire.faults.simulation import SimulatedWorld
from staticfire.protocol.errors import StorageError


async def test_changes_of_a_moment_share_a_write(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    state, table = ConfigFiles(machine, "/config"), [0]
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
    state = ConfigFiles(machine, "/config")
    state.restore("numbers.json", lambda: b"42", lambda data: None)
    world.disk("broker").bytes_left = 0
    state.changed("numbers.json")
    with pytest.raises(StorageError, match=r"/config/numbers\.json"):
        await state.saved()
    world.disk("broker").bytes_left = None
    state.changed("numbers.json")
    await state.saved()
    assert machine.files.read_bytes("/config/numbers.json") == b"42"


async def test_a_broken_file_stops_the_start_and_stays_as_it_is(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    machine.files.replace("/config/numbers.json", b"?")
    state = ConfigFiles(machine, "/config")

    def restore(data: bytes) -> None:
        data.decode("utf-16")

    with pytest.raises(StorageError, match="move it away"):
        state.restore("numbers.json", lambda: b"42", restore)
    await state.close()
    assert machine.files.read_bytes("/config/numbers.json") == b"?"
