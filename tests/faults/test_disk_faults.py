"""Disks that lose power, fill up, fail or are slow."""

import asyncio
import errno

import pytest

from staticfire.runtime.machine import File
from staticfire.simulation.world import SimulatedWorld, simulate

SEEDS = [{"seed": seed} for seed in range(8)]


def open_for_good(world: SimulatedWorld, path: str, map_bytes: int = 0) -> File:
    """Open a file of machine a whose name survives."""
    files = world.machine("a").files
    file = files.open(path, map_bytes)
    files.sync_folder("/")
    return file


async def test_a_kill_keeps_every_byte(world: SimulatedWorld) -> None:
    file = world.machine("a").files.open("/log")
    file.write(0, b"written, not synced")
    world.kill("a")
    assert world.machine("a").files.read_bytes("/log") == b"written, not synced"


async def test_a_loss_of_power_keeps_what_was_synced(world: SimulatedWorld) -> None:
    file = open_for_good(world, "/log")
    file.write(0, b"synced")
    file.sync()
    file.write(6, b" and not")
    file.write(0, b"S")
    world.kill("a", power_loss=True)
    assert world.machine("a").files.read_bytes("/log") == b"synced"


async def test_a_loss_of_power_gives_a_mapped_file_its_zeros_back(world: SimulatedWorld) -> None:
    file = open_for_good(world, "/log", 4096)
    file.write(0, b"one")
    file.sync()
    file.write(3, b"two")
    file.truncate(1)
    assert file.read(0, 6) == b"o" + bytes(5)
    world.kill("a", power_loss=True)
    again = world.machine("a").files.open("/log", 4096)
    assert (again.size(), again.read(0, 6)) == (4096, b"one" + bytes(3))


async def test_a_name_needs_the_sync_of_its_folder(world: SimulatedWorld) -> None:
    files = world.machine("a").files
    files.make_folder("/x/forgotten")
    files.sync_folder("/")
    files.replace("/x/replaced", b"old")
    files.replace("/x/replaced", b"new")
    files.replace("/x/back", b"is back")
    files.replace("/x/removed", b"")
    files.remove("/x/removed")
    files.sync_folder("/x")
    files.replace("/x/forgotten/file", b"safe in a folder that is not")
    files.remove("/x/back")
    nameless = files.open("/x/nameless")
    nameless.write(0, b"x")
    nameless.sync()
    files.make_folder("/x/new")
    world.kill("a", power_loss=True)
    files = world.machine("a").files
    assert files.list_folder("/x") == ["back", "forgotten", "replaced"]
    assert (files.read_bytes("/x/back"), files.read_bytes("/x/replaced")) == (b"is back", b"new")
    assert files.list_folder("/x/forgotten") == ["file"]


async def test_what_lies_in_a_folder_goes_with_its_name(world: SimulatedWorld) -> None:
    files = world.machine("a").files
    files.make_folder("/x/y")
    files.replace("/x/y/safe", b"in vain")
    files.sync_folder("/x")
    world.kill("a", power_loss=True)
    assert not world.machine("a").files.exists("/x")


async def test_a_folder_that_was_removed_may_come_back_with_what_was_in_it(world: SimulatedWorld) -> None:
    files = world.machine("a").files
    files.make_folder("/x")
    files.sync_folder("/")
    files.replace("/x/file", b"old")
    files.remove_folder("/x")
    files.make_folder("/x")
    files.replace("/x/other", b"new")
    world.kill("a", power_loss=True)
    assert world.machine("a").files.list_folder("/x") == ["file"]


@pytest.mark.parametrize("evicts", [False, True])
async def test_a_failed_sync_forgets_what_it_covered_and_the_next_one_succeeds(
    world: SimulatedWorld, evicts: bool
) -> None:
    file = open_for_good(world, "/log")
    file.write(0, b"safe lost")
    file.truncate(5)
    file.sync()
    file.write(5, b"lost")
    disk = world.disk("a")
    disk.evicts = evicts
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    assert file.read(0, 9) == (b"safe \0\0\0\0" if evicts else b"safe lost")
    file.write(9, b" later")
    file.sync()
    world.kill("a", power_loss=True)
    assert world.machine("a").files.read_bytes("/log") == b"safe \0\0\0\0 later"


async def test_of_two_syncs_at_one_time_only_one_hears_of_the_error(world: SimulatedWorld) -> None:
    machine, disk = world.machine("a"), world.disk("a")
    file = open_for_good(world, "/log")
    disk.sync_ms = 20
    file.write(0, b"lost")
    disk.fail_sync(2)
    first = asyncio.create_task(machine.workers.run(file.sync))
    await world.run_for(ms=10)
    with pytest.raises(OSError, match="Input/output error"):
        await machine.workers.run(file.sync)
    await first
    world.kill("a", power_loss=True)
    assert world.machine("a").files.read_bytes("/log") == b""


def test_a_disk_that_reorders_keeps_any_sectors_but_never_a_part_of_one() -> None:
    async def scenario(world: SimulatedWorld) -> bytes:
        file = open_for_good(world, "/log")
        for number in range(4):
            file.write(number * 700, bytes([number + 1]) * 700)
        world.disk("a").reorders = True
        world.kill("a", power_loss=True, torn=True)
        return world.machine("a").files.read_bytes("/log")

    written = b"".join(bytes([number + 1]) * 700 for number in range(4))
    images = [simulate(scenario, seed) for seed in range(20)]
    assert {b"", written} < set(images)
    gaps = 0
    for image in images:
        gaps += b"\0" in image
        for at in range(len(image)):
            assert image[at] in (0, written[at])
    assert gaps > 3
    assert images == [simulate(scenario, seed) for seed in range(20)]


def test_a_sector_that_lacks_a_write_lacks_the_later_ones() -> None:
    async def scenario(world: SimulatedWorld) -> bytes:
        file = open_for_good(world, "/log")
        for number in range(50):
            file.write(number * 10, bytes([number + 1]) * 10)
        world.disk("a").reorders = True
        world.kill("a", power_loss=True, torn=True)
        return world.machine("a").files.read_bytes("/log")

    written = b"".join(bytes([number + 1]) * 10 for number in range(50))
    images = [simulate(scenario, seed) for seed in range(20)]
    assert all(written.startswith(image) for image in images)
    assert len(set(images)) > 3


@pytest.mark.parametrize("world", SEEDS, indirect=True, ids=str)
async def test_a_torn_loss_keeps_a_prefix_of_the_writes(world: SimulatedWorld) -> None:
    file = open_for_good(world, "/log")
    file.write(0, b"0123456789")
    file.sync()
    written = b"0123456789"
    for _ in range(20):
        data = world.random.randbytes(10)
        file.write(len(written), data)
        written += data
    world.kill("a", power_loss=True, torn=True)
    left = world.machine("a").files.read_bytes("/log")
    assert written.startswith(left)
    assert len(left) >= 10


def test_torn_losses_differ_by_seed_and_end_inside_of_writes() -> None:
    async def scenario(world: SimulatedWorld) -> int:
        file = open_for_good(world, "/log")
        for number in range(20):
            file.write(number * 100, bytes(100))
        world.kill("a", power_loss=True, torn=True)
        return len(world.machine("a").files.read_bytes("/log"))

    lengths = [simulate(scenario, seed) for seed in range(20)]
    assert len(set(lengths)) > 10
    assert any(length % 100 for length in lengths)
    assert lengths == [simulate(scenario, seed) for seed in range(20)]


async def test_a_full_disk_takes_nothing_of_a_write(world: SimulatedWorld) -> None:
    files, disk = world.machine("a").files, world.disk("a")
    file = files.open("/log", 1 << 20)
    disk.bytes_left = 10
    file.write(0, b"01234567")
    with pytest.raises(OSError, match="No space left on device: '/log'") as caught:
        file.write(8, b"89a")
    assert caught.value.errno == errno.ENOSPC
    assert file.read(0, 12) == b"01234567" + bytes(4)
    file.write(0, b"overwriting needs no space"[:8])
    file.write(8, b"89")
    with pytest.raises(OSError, match="No space left"):
        files.replace("/state", b"x")
    assert not files.exists("/state")
    files.remove("/log")
    assert disk.bytes_left == 10
    files.replace("/state", b"x" * 10)


async def test_the_nth_write_and_the_nth_sync_fail_once(world: SimulatedWorld) -> None:
    files, disk = world.machine("a").files, world.disk("a")
    file = files.open("/log")
    disk.fail_write(2)
    file.write(0, b"a")
    with pytest.raises(OSError, match="Input/output error: '/log'"):
        file.write(1, b"b")
    file.write(1, b"c")
    assert file.read(0, 5) == b"ac"
    disk.fail_sync()
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    disk.fail_write()
    with pytest.raises(OSError, match="Input/output error"):
        files.replace("/log", b"new")
    assert files.read_bytes("/log") == b"ac"


async def test_a_slow_sync_takes_virtual_time_of_its_own_process_only(world: SimulatedWorld) -> None:
    machine = world.machine("a")
    world.disk("a").sync_ms = 20
    file = machine.files.open("/log")
    file.write(0, b"x")
    syncing = asyncio.create_task(machine.workers.run(file.sync))
    await world.run_for(ms=10)
    assert not syncing.done()
    await syncing
    assert world.loop.uptime_ns == 20_050_000


async def test_power_lost_during_a_slow_sync_loses_what_it_was_for(world: SimulatedWorld) -> None:
    machine = world.machine("a")
    world.disk("a").sync_ms = 20
    file = open_for_good(world, "/log")
    file.write(0, b"x")
    syncing = asyncio.create_task(machine.workers.run(file.sync))
    await world.run_for(ms=10)
    world.kill("a", power_loss=True)
    file = world.machine("a").files.open("/log")
    assert file.size() == 0
    file.write(0, b"of the next life")
    await syncing
    world.kill("a", power_loss=True)
    assert world.machine("a").files.read_bytes("/log") == b""


async def test_a_sync_is_for_what_was_written_before_it(world: SimulatedWorld) -> None:
    machine = world.machine("a")
    world.disk("a").sync_ms = 20
    file = open_for_good(world, "/log")
    file.write(0, b"before ")
    syncing = asyncio.create_task(machine.workers.run(file.sync))
    await world.run_for(ms=10)
    file.write(7, b"meanwhile")
    await syncing
    world.kill("a", power_loss=True)
    assert world.machine("a").files.read_bytes("/log") == b"before "


async def test_machines_have_disks_of_their_own_unless_they_share(world: SimulatedWorld) -> None:
    world.machine("a").files.replace("/x", b"a's")
    assert not world.machine("b").files.exists("/x")
    assert world.machine("c", disk_of="a").files.read_bytes("/x") == b"a's"
