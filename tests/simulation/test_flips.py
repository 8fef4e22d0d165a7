"""A bit of a stopped broker's files flips: after its start all is as it was, or what is missing was told in words."""

from random import Random

import pytest

from tests.cases import first_and_slow
from tests.simulation.mixed import Mixed, with_mixed

pytestmark = pytest.mark.row("S3")

PROTECTED = ("/store/commitlog/", "/store/consumequeue/")
"""Folders whose files have checksums, or are made anew from files that have. Add `/store/config/` when it has."""
FLIPS = 6


def flipped(mixed: Mixed, folder: str, chance: Random) -> str:
    """Flip a bit in one of a broker's files; return where."""
    disk = mixed.world.disk("broker-a")
    paths = sorted(path for path, inode in disk.files.items() if folder in path and inode.content)
    path = chance.choice(paths)
    used = len(bytes(disk.files[path].content).rstrip(b"\0")) or 1
    position, mask = chance.randrange(used), 1 << chance.randrange(8)
    disk.rot(path, position, mask)
    return f"{path} at {position}, {mask:#x}"


@pytest.mark.parametrize("folder", PROTECTED)
@pytest.mark.parametrize("number", first_and_slow(range(FLIPS)))
def test_a_flipped_bit_is_repaired_or_reported(number: int, folder: str) -> None:
    async def scenario(mixed: Mixed) -> None:
        await mixed.work(12)
        before = mixed.state()
        await mixed.cluster.stop("broker-a")
        mixed.logged.clear()
        where = flipped(mixed, folder, Random(number))
        mixed.events.clear()
        await mixed.cluster.start("broker-a")
        after = mixed.state()
        missing = set(before["messages"]) - set(after["messages"])
        names = {name for _, _, name in before["messages"]}
        strange = {(place, offset) for place, offset, _ in before["messages"]} & {
            (place, offset) for place, offset, name in set(after["messages"]) - set(before["messages"])
        }
        assert not strange, f"{where}: other messages at {sorted(strange)}"
        assert not missing or mixed.logged, f"{where}: {len(missing)} of {len(names)} are missing, and nobody was told"
        assert len(missing) <= 1 or "/commitlog/" in where, where

    with_mixed(1, scenario)
