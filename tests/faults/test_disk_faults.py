"""Disks that lose power, fill up, fail or are slow."""

import asyncio
import errno

import pytest

from staticfire.faults.simulation import SimulatedWorld, simulate

SEEDS = [{"seed": seed} for seed in range(8)]


async def test_a_kill_keeps_every_byte(world: SimulatedWorld) -> None:
    file = world.machine("a").files.open("/log")
    file.write(0, b"written, not synced")
    world.kill("a")
    assert world.machine("a").files.read_bytes("/log") == b"written, not synced"


async def test_a_loss_of_power_keeps_what_was_synced(world: SimulatedWorld) -> None:
    file = world.machine("a").files.open("/log")
    file.write(0, b"synced")
    file.sync()
    file.write(6, b" and not")
    file.write(0, b"S")
    world.kill("a", power_loss=True)
    assert world.machine("a").files.read_bytes("/log") == b"synced"


async def test_a_loss_of_power_gives_a_mapped_file_its_zeros_back(world: SimulatedWorld) -> None:
    file = world.machine("a").files.open("/log", 4096)
    file.write(0, b"one")
    file.sync()
    file.write(3, b"two")
    file.truncate(1)
    assert file.read(0, 6) == b"o" + bytes(5)
    world.kill("a", power_loss=True)
    again = world.machine("a").files.open("/log", 4096)
    assert (again.size(), again.read(0, 6)) == (4096, b"one" + bytes(3))


async def test_a_file_that_was_never_synced_is_gone(world: SimulatedWorld) -> None:
    files = world.machine("a").files
    files.make_folder("/x")
    files.open("/x/new").write(0, b"x")
    files.replace("/x/replaced", b"old")
    files.replace("/x/replaced", b"new")
    files.replace("/x/removed", b"")
    files.remove("/x/removed")
    world.kill("a", power_loss=True)
    assert world.machine("a").files.list_folder("/x") == ["replaced"]
    assert world.machine("a").files.read_bytes("/x/replaced") == b"new"


@pytest.mark.parametrize("world", SEEDS, indirect=True, ids=str)
async def test_a_torn_loss_keeps_a_prefix_of_the_writes(world: SimulatedWorld) -> None:
    file = world.machine("a").files.open("/log")
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
        file = world.machine("a").files.open("/log")
        file.sync()
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


async def test_a_slow_sync_takes_virtual_time_and_nobody_elses(world: SimulatedWorld) -> None:
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
    file = machine.files.open("/log")
    file.sync()
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
    file = machine.files.open("/log")
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
