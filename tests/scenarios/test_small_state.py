"""Tables that are mirrored in files: saved soon, all or nothing; who waits gets the error."""

import asyncio
import errno
import json
from collections.abc import Callable
from itertools import pairwise

import msgspec
import pytest

from staticfire.broker.config_files import ConfigFiles
from staticfire.protocol.checksums import crc32
from staticfire.protocol.errors import StorageError
from staticfire.runtime.machine import Machine
from staticfire.runtime.state_file import seal_state, unseal_state
from staticfire.simulation.world import SimulatedWorld
from tests.scenarios.logged import LogLine


async def nothing_to_sync() -> None:
    pass


def saved(machine: Machine, name: str, folder: str = "/config") -> bytes:
    return unseal_state(machine.files.read_bytes(f"{folder}/{name}"))


async def test_changes_of_a_moment_share_a_write(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    state, table = ConfigFiles(machine, "/config", nothing_to_sync), [0]
    snapshots = []

    def snapshot() -> bytes:
        snapshots.append(table[0])
        return b'{"n":%d}' % table[0]

    assert not state.restore("numbers.json", snapshot, lambda data: None)
    state.restored()
    for table[0] in range(5):
        state.changed("numbers.json")
    await state.saved()
    assert saved(machine, "numbers.json") == b'{"n":4}'
    assert snapshots == [4]


async def test_a_full_disk_is_reported_to_waiting_sends_and_recovered_from_later(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    state = ConfigFiles(machine, "/config", nothing_to_sync)
    state.restore("numbers.json", lambda: b'{"n":42}', lambda data: None)
    state.restored()
    world.disk("broker").bytes_left = 0
    state.changed("numbers.json")
    with pytest.raises(StorageError, match=r"/config/numbers\.json"):
        await state.saved()
    world.disk("broker").bytes_left = None
    state.changed("numbers.json")
    await state.saved()
    assert saved(machine, "numbers.json") == b'{"n":42}'


async def test_what_could_not_be_saved_is_tried_again_although_nothing_else_changes(world: SimulatedWorld) -> None:
    machine, disk = world.machine("broker"), world.disk("broker")
    machine.files.make_folder("/config")
    state = ConfigFiles(machine, "/config", nothing_to_sync)
    state.restore("numbers.json", lambda: b'{"n":42}', lambda data: None)
    state.restored()
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
    assert saved(machine, "numbers.json") == b'{"n":42}'
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
    state.restore("offsets.json", lambda: b'{"n":9}', lambda data: None, after_log=True)
    state.restore("topics.json", lambda: b'{"orders":1}', lambda data: None)
    state.restored()
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
    assert saved(machine, "offsets.json") == b'{"n":9}'


async def test_files_are_there_with_their_folder_after_a_loss_of_power(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/store/config")
    state = ConfigFiles(machine, "/store/config", nothing_to_sync)
    state.restore("numbers.json", lambda: b'{"n":42}', lambda data: None)
    state.restored()
    state.changed("numbers.json")
    await state.saved()
    world.kill("broker", power_loss=True)
    assert saved(world.machine("broker"), "numbers.json", "/store/config") == b'{"n":42}'


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


async def test_nothing_is_saved_before_all_is_read_and_nothing_at_all_if_that_fails(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    broken = b'{"n":'
    machine.files.replace("/config/offsets.json", broken)
    state = ConfigFiles(machine, "/config", nothing_to_sync)
    state.restore("topics.json", lambda: b'{"orders":1}', lambda data: None)
    state.changed("topics.json")
    state.changed("offsets.json")
    await world.run_for(seconds=1)
    with pytest.raises(StorageError, match=r"/config/offsets\.json"):
        state.restore("offsets.json", lambda: b"{}", msgspec.json.decode)
    await state.close()
    assert machine.files.list_folder("/config") == ["offsets.json"]
    assert machine.files.read_bytes("/config/offsets.json") == broken


async def test_a_broken_file_of_what_the_log_has_is_written_again(world: SimulatedWorld, logged: list[LogLine]) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    machine.files.replace("/config/numbers.json", seal_state(b'{"n":42}').replace(b"42", b"43"))
    state = ConfigFiles(machine, "/config", nothing_to_sync)
    is_there = state.restore("numbers.json", lambda: b'{"n":42}', lambda data: None, from_log="they are counted")
    assert not is_there
    state.restored()
    await state.saved()
    assert saved(machine, "numbers.json") == b'{"n":42}'
    assert [(line.event, line.fields["reason"]) for line in logged] == [("state_file_made_anew", "they are counted")]


def test_a_file_of_an_older_version_or_without_its_checksum_is_taken_as_it_is() -> None:
    for data in (b"{}", b'{\n "n": 42\n}', b'{"t":{"staticfire":{"perm":6}}}', b"not JSON", b""):
        assert unseal_state(data) == data
        if data.startswith(b"{"):
            sealed = seal_state(data)
            assert unseal_state(sealed) == data
            assert json.loads(sealed).pop("staticfire") == f"1 crc32:{crc32(data):08x}"


@pytest.mark.parametrize("data", [b"{}", b'{"n":42}', b'{\n "n": 42\n}'])
def test_each_flipped_bit_is_seen(data: bytes) -> None:
    """By the checksum, or because what is there now is no JSON object."""
    sealed = seal_state(data)
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((ValueError, msgspec.DecodeError)):
            msgspec.json.decode(unseal_state(bytes(flipped)))


@pytest.mark.parametrize("change", [lambda text: text.replace("42", "43"), lambda text: text.replace(":", ": ")])
def test_what_was_edited_is_refused_until_the_member_is_removed(change: Callable[[str], str]) -> None:
    edited = change(seal_state(b'{"n":42}').decode())
    with pytest.raises(ValueError, match='remove the member "staticfire"'):
        unseal_state(edited.encode())
    accepted = json.loads(edited)
    del accepted["staticfire"]
    assert unseal_state(json.dumps(accepted).encode()) == json.dumps(accepted).encode()


async def test_what_could_not_be_saved_is_passed_on_to_the_next_core(world: SimulatedWorld) -> None:
    machine = world.machine("broker")
    machine.files.make_folder("/config")
    state, n = ConfigFiles(machine, "/config", nothing_to_sync), 1
    state.restore("numbers.json", lambda: b'{"n":%d}' % n, lambda data: None)
    state.restored()
    state.changed("numbers.json")
    await state.saved()
    n, world.disk("broker").bytes_left = 2, 0
    with pytest.raises(StorageError, match="can't be written"):
        await state.close()
    found: list[bytes] = []
    following = ConfigFiles(machine, "/config", nothing_to_sync, state.unsaved)
    assert following.restore("numbers.json", lambda: found[-1], found.append)
    assert found == [b'{"n":2}']
    world.disk("broker").bytes_left = None
    following.restored()
    await following.saved()
    await world.run_for(seconds=2)
    assert saved(machine, "numbers.json") == b'{"n":2}'
    assert not following.unsaved
