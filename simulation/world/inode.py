"""Files and folders of a simulated disk: what programs see of each, and what a loss of power would leave of it.

    content, names    what a read or a listing returns
    durable           what is on the disk for good
    pending           the changes that lead from the one to the other, oldest first

A sync makes the changes durable that were pending when it began. One that fails forgets them, as Linux does: it marks
the pages clean and tells one caller, and the next sync succeeds without them. A loss of power keeps none of the pending
changes, or those that chance picks; it picks whole sectors of a file, so that what lies in one sector is never torn.
"""

from collections import deque
from random import Random
from typing import Generic, NamedTuple, TypeAlias, TypeVar, Union

from staticfire.runtime.machine import Bytes

PENDING_MAX = 200_000
# Of a file. Above that the older half is taken as written back, as a kernel does after a while.
SECTOR_BYTES = 512
_KEPT = (0.0, 0.5, 1.0)
# How likely a pending change is kept, for all of one file: nothing was written back, some of it, nearly all.

C = TypeVar("C")


class _Pending(Generic[C]):
    """Changes in their order, each with its number."""

    def __init__(self) -> None:
        self.changes: deque[tuple[int, C]] = deque()
        self.count = 0
        """How many there ever were."""

    def add(self, change: C) -> None:
        self.count += 1
        self.changes.append((self.count, change))

    def take(self, count: int) -> list[C]:
        """Remove and return those of the first `count` ever that are still pending."""
        taken = []
        while self.changes and self.changes[0][0] <= count:
            taken.append(self.changes.popleft()[1])
        return taken


class Edit(NamedTuple):
    """A write, or with `cut` a truncation at `position`; the file has at least `size` bytes afterwards."""

    position: int
    data: bytes
    size: int
    cut: bool = False


class Image:
    """Bytes of a file, and its size: what lies behind them up to there reads as zeros."""

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
    """One file, whatever its name is."""

    def __init__(self) -> None:
        super().__init__()
        self._durable = Image()
        self._pending: _Pending[Edit] = _Pending()

    @property
    def changes(self) -> int:
        """How many changes there were: a sync that begins now covers these."""
        return self._pending.count

    def growth_bytes(self, position: int, size: int) -> int:
        """Return how much space that write takes."""
        return max(0, position + size - max(len(self.content), position))

    def write(self, position: int, data: Bytes) -> None:
        self._change(Edit(position, bytes(data), position + len(data)))

    def truncate(self, size: int, keep_size: bool = False) -> None:
        self._change(Edit(size, b"", self.size if keep_size else size, cut=True))

    def grow(self, size: int) -> None:
        """Be at least that large; it takes no space."""
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
        """Take the first so many changes as on the disk."""
        for change in self._pending.take(changes):
            self._durable.apply(change)

    def sync_failed(self, changes: int, evicts: bool) -> None:
        """Forget that the first so many changes have to be written; `evicts`: programs don't see them any more."""
        self._pending.take(changes)
        if evicts:
            size = self.size  # The file is as long as it was: that isn't in its pages.
            self.become(self._durable)
            for _, change in self._pending.changes:
                self.apply(change)
            self.size = max(self.size, size)

    def lose_power(self, chance: Random | None, reorders: bool) -> None:
        """Keep what is durable; with `chance` also a prefix of the changes, or with `reorders` any of their sectors."""
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
    """Choose sectors. One is written as it is in memory: what lacks one of its changes lacks the later ones, too."""
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
        """How many changes there were: a sync that begins now covers these."""
        return self._pending.count

    def put(self, name: str, node: Node) -> None:
        self.names[name] = node
        self._pending.add((name, node))

    def drop(self, name: str) -> None:
        del self.names[name]
        self._pending.add((name, None))

    def synced(self, changes: int) -> None:
        """Take the first so many changes as on the disk."""
        for change in self._pending.take(changes):
            self._keep(*change)

    def lose_power(self, chance: Random | None) -> None:
        """Keep what is durable; with `chance` also any of the changes."""
        for change in self._pending.take(self._pending.count):
            if chance is not None and chance.random() < 0.5:
                self._keep(*change)
        self.names = dict(self._durable)

    def _keep(self, name: str, node: Node | None) -> None:
        if node is None:
            self._durable.pop(name, None)
        else:
            self._durable[name] = node
