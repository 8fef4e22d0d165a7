"""Files and folders of a simulated disk: what programs see, and what would survive a power loss.

    content, names    what a read or a listing returns
    durable           what survives
    pending           the changes between the two, oldest first

A sync makes those changes durable that were pending when it began. A failed sync discards them, as Linux does: it marks
the pages clean and reports the error to one caller, and the next sync succeeds without them. A power loss keeps none of
the pending changes, or a random selection. Of a file, the selection consists of whole sectors, so what is within one
sector is never torn.
"""

from collections import deque
from random import Random
from typing import Generic, NamedTuple, TypeAlias, TypeVar, Union

from staticfire.runtime.machine import Bytes

# The maximum for a file. Above it the older half becomes durable, as a kernel writes data back after a while.
PENDING_MAX = 200_000
SECTOR_BYTES = 512
# The probability that a pending change of a file is kept: nothing was written back, some of it, or everything.
_KEPT = (0.0, 0.5, 1.0)

C = TypeVar("C")


class _Pending(Generic[C]):
    """Changes in order, each with its number."""

    def __init__(self) -> None:
        self.changes: deque[tuple[int, C]] = deque()
        self.count = 0
        """How many changes there ever were."""

    def add(self, change: C) -> None:
        self.count += 1
        self.changes.append((self.count, change))

    def take(self, count: int) -> list[C]:
        """Remove and return the pending changes among the first `count` ever."""
        taken = []
        while self.changes and self.changes[0][0] <= count:
            taken.append(self.changes.popleft()[1])
        return taken


class Edit(NamedTuple):
    """A write, or with `cut` a truncation at `position`. The file has at least `size` bytes afterwards."""

    position: int
    data: bytes
    size: int
    cut: bool = False


class Image:
    """The bytes of a file, and its size: the range between the end of the bytes and the size reads as zeros."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.size = 0

    def apply(self, change: Edit) -> None:
        position, data, size, cut = change
        if cut:
            del self.content[position:]
            self.size = size
            return
        if position > len(self.content) and data:
            self.content.extend(bytes(position - len(self.content)))
        if data:
            self.content[position : position + len(data)] = data
        self.size = max(self.size, size)

    def become(self, other: "Image") -> None:
        self.content[:] = other.content
        self.size = other.size


class Inode(Image):
    """One file, independent of its name."""

    def __init__(self) -> None:
        super().__init__()
        self._durable = Image()
        self._pending: _Pending[Edit] = _Pending()

    @property
    def changes(self) -> int:
        """The number of all changes: a sync that begins now covers these."""
        return self._pending.count

    def growth_bytes(self, position: int, size: int) -> int:
        """Return how much space a write needs."""
        return max(0, position + size - max(len(self.content), position))

    def write(self, position: int, data: Bytes) -> None:
        self._change(Edit(position, bytes(data), position + len(data)))

    def truncate(self, size: int, keep_size: bool = False) -> None:
        self._change(Edit(size, b"", self.size if keep_size else size, cut=True))

    def grow(self, size: int) -> None:
        """Enlarge the file to at least this size, without using space."""
        if size > self.size:
            self._change(Edit(0, b"", size))

    def read(self, position: int, size: int) -> bytes:
        end = min(position + size, self.size)
        found = bytes(self.content[position:end])
        missing = end - position - len(found)
        return found + bytes(missing) if missing > 0 else found

    def _change(self, change: Edit) -> None:
        self.apply(change)
        self._pending.add(change)
        if len(self._pending.changes) > PENDING_MAX:
            self.synced(self._pending.changes[PENDING_MAX // 2][0])

    def rot(self, position: int, mask: int) -> None:
        """Flip bits of a byte, in what programs see and in what is durable."""
        for image in (self, self._durable):
            if position < len(image.content):
                image.content[position] ^= mask

    def synced(self, changes: int) -> None:
        """Make the first `changes` changes durable."""
        for change in self._pending.take(changes):
            self._durable.apply(change)

    def sync_failed(self, changes: int, evicts: bool) -> None:
        """Discard the first `changes` changes, which will never be written; `evicts`: programs can't see them
        either."""
        self._pending.take(changes)
        if evicts:
            size = self.size  # The size is kept, because it isn't stored in the file's pages.
            self.become(self._durable)
            for _, change in self._pending.changes:
                self.apply(change)
            self.size = max(self.size, size)

    def lose_power(self, chance: Random | None, reorders: bool) -> None:
        """Keep what is durable; with `chance` also a random prefix of the changes, with `reorders` random sectors."""
        pending = self._pending.take(self._pending.count)
        if chance is not None and pending:
            for change in _any_sectors(pending, chance) if reorders else _torn_prefix(pending, chance):
                self._durable.apply(change)
        self.become(self._durable)


def _torn_prefix(pending: list[Edit], chance: Random) -> list[Edit]:
    kept = chance.randint(0, len(pending))
    part = pending[:kept]
    if kept < len(pending) and pending[kept].data:
        position, data, _, _ = pending[kept]
        torn = data[: chance.randint(0, len(data))]
        part.append(Edit(position, torn, position + len(torn)))
    return part


def _any_sectors(pending: list[Edit], chance: Random) -> list[Edit]:
    """Choose sectors at random. If a change of a sector is lost, so are the later changes of the same sector."""
    likely = chance.choice(_KEPT)
    lost: set[int] = set()
    part = []
    for change in pending:
        if not change.data:
            part += [change] if chance.random() < likely else []
            continue
        at = 0
        while at < len(change.data):
            position = change.position + at
            piece = change.data[at : at + SECTOR_BYTES - position % SECTOR_BYTES]
            is_written = chance.random() < likely
            if is_written and position // SECTOR_BYTES not in lost:
                part.append(Edit(position, piece, position + len(piece)))
            else:
                lost.add(position // SECTOR_BYTES)
            at += len(piece)
    return part


Node: TypeAlias = Union[Inode, "Folder"]


class Folder:
    """The names in one folder. Adding, replacing and removing a name is pending until the folder is synced."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self._durable: dict[str, Node] = {}
        self._pending: _Pending[tuple[str, Node | None]] = _Pending()

    @property
    def changes(self) -> int:
        """The number of all changes: a sync that begins now covers these."""
        return self._pending.count

    def put(self, name: str, node: Node) -> None:
        self.names[name] = node
        self._pending.add((name, node))

    def drop(self, name: str) -> None:
        del self.names[name]
        self._pending.add((name, None))

    def synced(self, changes: int) -> None:
        """Make the first `changes` changes durable."""
        for change in self._pending.take(changes):
            self._keep(*change)

    def lose_power(self, chance: Random | None) -> None:
        """Keep what is durable; with `chance` also a random selection of the changes."""
        for change in self._pending.take(self._pending.count):
            if chance is not None and chance.random() < 0.5:
                self._keep(*change)
        self.names = dict(self._durable)

    def _keep(self, name: str, node: Node | None) -> None:
        if node is None:
            self._durable.pop(name, None)
        else:
            self._durable[name] = node
