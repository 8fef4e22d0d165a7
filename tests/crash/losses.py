"""What somebody does to the files of a broker's queues while it is down. The log stays, so nothing may be missing."""

from collections.abc import Callable
from random import Random

from staticfire.simulation.world.disk import Disk

FOLDER = "/store/consumequeue/"
ENTRY_BYTES = 20


def lose_files(disk: Disk, random: Random) -> list[str]:
    """Lose, cut or zero a few files or folders; return what was done, in words."""
    return [random.choice(_LOSSES)(disk, random) for _ in range(random.choice((1, 1, 2, 5)))]


def _files(disk: Disk) -> list[str]:
    return sorted(path for path in disk.files if path.startswith(FOLDER))


def _remove_file(disk: Disk, random: Random) -> str:
    if not (files := _files(disk)):
        return "nothing is left"
    disk.remove(path := random.choice(files))
    return f"{path} is removed"


def _remove_folder(disk: Disk, random: Random) -> str:
    folders = sorted(path for path in disk.folders if path.startswith(FOLDER))
    if not folders:
        return "nothing is left"
    disk.remove_folder(path := random.choice(folders))
    return f"{path} is removed"


def _cut(disk: Disk, random: Random) -> str:
    if not (files := _files(disk)):
        return "nothing is left"
    file = disk.files[path := random.choice(files)]
    file.truncate(size := random.randrange(file.size + 1))
    return f"{path} is cut to {size} bytes"


def _zero(disk: Disk, random: Random) -> str:
    if not (files := _files(disk)):
        return "nothing is left"
    file = disk.files[path := random.choice(files)]
    start, end = sorted(random.choice((0, random.randrange(file.size + 1), file.size)) for _ in range(2))
    file.write(start, bytes(end - start))
    return f"{path} is zeroed from {start} to {end}"


_LOSSES: tuple[Callable[[Disk, Random], str], ...] = (_remove_file, _remove_folder, _cut, _zero)
