"""The machine that a process runs on, as five seams: clock, network, files, workers, identity.

All code above `runtime/` reaches the outside world through a `Machine` that was handed to it, never through
the standard library. `runtime.live` has the real one; `faults.simulated` has one on virtual time, with which a
test runs a whole cluster in one event loop. Both pass the same contract tests (tests/faults/test_contract_*.py).

Times of `Clock.uptime_ms` and of the running loop are one clock: `loop.call_at(uptime_ms / 1000, ...)` is a deadline.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.reach import Surroundings

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview


class Clock(Protocol):  # house: the seam; protocol/requests/clock.py has the request that moves message time
    """What the machine knows of time."""

    def uptime_ms(self) -> UptimeMs:
        """Return the event loop's monotonic time: liveness."""

    def uptime_ns(self) -> int:
        """Return the same in nanoseconds, in half the time: for who notes when something was."""

    def wall_ms(self) -> MessageMs:
        """Return milliseconds since 1970: where message time starts from."""


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def host(self) -> str:
        """The address that it is bound to."""

    @property
    def port(self) -> int:
        """The port in use, also when 0 was asked for."""

    async def close(self) -> None:
        """Stop accepting; the port is free when it returns. Connections that exist stay."""


class Network(Protocol):
    """Where connections come from."""

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, sock: socket.socket | None = None
    ) -> Listener:
        """Accept connections; each gets a protocol from `factory`. `sock`: a listening socket to take over.

        Raises: OSError (port in use, no such address), naming host:port.
        """

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_ms: int
    ) -> asyncio.Transport:
        """Connect to a listener and return the transport; the protocol knew it by `connection_made` before.

        The transport answers `get_extra_info("peername")` and `("sockname")` with `(host, port, ...)`; `("socket")`
        is None where there is no socket.

        Raises: OSError (ConnectionRefusedError, unreachable ...) and TimeoutError, naming host:port.
        """

    def surroundings(self) -> Surroundings:
        """Return the networks that the machine is in at the moment, and their gateways."""


class File(Protocol):
    """Random access to one file. What was written is read at once, and survives a kill; a power loss takes what
    wasn't synced. One owner at a time: nobody else writes or cuts the file."""

    def size(self) -> int: ...

    def write(self, position: int, data: Bytes) -> None:
        """Write all of `data` at `position`; a gap before it reads as zeros.

        Nothing counts as written when it raises: a file that grew by a part of `data` is cut back, in a mapped one
        that part reads as zeros again. Raises: OSError with the path in `filename`.
        """

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes at `position`; fewer at the file's end.

        Of a mapped file only what was written lately: what the disk can't give back, and a hole on a full tmpfs, is the
        end of the process (SIGBUS).
        """

    def read_unmapped(self, position: int, size: int) -> bytes:
        """As `read`, for whatever may be there: a call, not the map. Raises: OSError with the path in `filename`."""

    def sync(self) -> None:
        """Return when all that was written is on the disk; a new file's name is with `Files.sync_folder`.

        Blocks: call it in a worker, and one call at a time for a file: an error of the disk is told to one caller.
        After one, what was written since the last success may be lost, although it can perhaps still be read: it has
        to be written again. Raises: OSError.
        """

    def truncate(self, size: int) -> None:
        """Cut the file; a mapped one keeps its size and reads as zeros from there. Nobody may read meanwhile."""

    def close(self) -> None:
        """Give it back; fine when done twice. Everything else raises OSError (or ValueError) from then on."""


class DiskUse(NamedTuple):
    """How full a disk is, for programs that may not have what is reserved for root: as `df` counts."""

    used_bytes: int
    total_bytes: int

    @property
    def percent(self) -> int:
        """How much of it is used, rounded up. RocketMQ: UtilAll.getDiskPartitionSpaceUsedPercent."""
        return -(-self.used_bytes * 100 // self.total_bytes) if self.total_bytes else 0


class FolderLock(Protocol):
    """The right to be the only one that uses a folder. It ends with the process, however that ends."""

    def release(self) -> None:
        """Give it back; fine when done twice."""


class Files(Protocol):
    """The file system below paths given as `str`. All of it may block for a moment, `replace` for two syncs."""

    def make_folder(self, path: str) -> None:
        """Create the folder and its parents; fine when it exists. A new one needs a `sync_folder` of that above it.

        Raises: OSError.
        """

    def list_folder(self, path: str) -> list[str]:
        """Return the names in it, sorted; empty when there is no such folder. Half-done replacements aren't there.

        Raises: NotADirectoryError (it is a file), OSError.
        """

    def sync_folder(self, path: str) -> None:
        """Return when the names in a folder are on the disk: new, replaced and removed ones. Blocks.

        Raises: OSError.
        """

    @property
    def syncs_together(self) -> bool:
        """Whether there is `sync_together` here."""

    def sync_together(self, folder: str, write: Callable[[], None]) -> None:
        """Have many files written, and return when all that is new in the file system of a folder is on the disk.

        One sync instead of one for each file: of a thousand files it is a twentieth of the CPU time. Blocks. Raises:
        OSError, also when something couldn't be brought to the disk that `write` has written.
        """

    def exists(self, path: str) -> bool: ...

    def open(self, path: str, map_bytes: int = 0) -> File:
        """Open for reading and writing, creating it (not its folder) when missing.

        `map_bytes` > 0: the file is never larger than that, reads of it are frequent (the live one maps it).
        Its `size()` is then at least `map_bytes`, with zeros behind what was written; they take no space. Writing
        past it is a ValueError. Raises: OSError.
        """

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file. Raises: FileNotFoundError, OSError."""

    def read_part(self, path: str, position: int, size: int) -> bytes:
        """Return up to `size` bytes at `position` of a file; nothing where there is none. Raises: OSError."""

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` in place of the file at once or not at all (temporary file, fsync, rename), safe from power loss.

        Blocks: call it in a worker. Raises: OSError; the file is then as before, or perhaps as wanted: nobody knows
        which of them is there after a loss of power.
        """

    def copy(self, path: str, target: str) -> int:
        """Copy a file, or a folder with all in it, to a place where there is nothing; return how many bytes that were.

        Holes stay holes. All of it is safe from power loss when this returns, but for the name `target` itself.
        Blocks. Raises: FileNotFoundError, OSError.
        """

    def move(self, path: str, target: str) -> None:
        """Give a file or a folder another name on the same disk, where there is nothing; both names need a
        `sync_folder`. Raises: OSError."""

    def remove(self, path: str) -> None:
        """Remove a file; fine when it is missing. After a loss of power it may be back, until `sync_folder`."""

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all in it; fine when it is missing. It may come back as a file may, or parts of it."""

    def boot_id(self) -> str:
        """Return what stands for this run of the machine, empty where that isn't known.

        As long as it is the same, all that was written is there, synced or not.
        """

    def disk_usage(self, path: str) -> DiskUse:
        """Return how full the disk is on which a folder lies. Raises: OSError with the path in `filename`."""

    @property
    def is_durable(self) -> bool:
        """Whether what was synced is to survive the machine; else nobody waits for a disk."""

    def database_path(self, path: str) -> str:
        """Return what sqlite3 is to be given for a database of that path. Derived data only: it may start empty.

        Live that is the path. Where there are no real files it is ":memory:", which nobody else sees and which ends
        with the process.
        """

    def lock_folder(self, path: str) -> FolderLock:
        """Become the only user of a folder that exists, by the file `lock` in it.

        Raises: BlockingIOError when somebody else is, naming the folder and the process.
        """


class Workers(Protocol):
    """Threads for what blocks."""

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run `function(*arguments)` off the event loop and return its result."""

    async def run_foreign(self, function: Callable[..., T], *arguments: object) -> T:
        """The same for a function of the program, which may never end: neither `close` nor the process waits for it."""

    async def close(self) -> None:
        """Wait for what `run` runs and end the threads. Nothing can be run after that."""


class Identity(NamedTuple):
    """Who this process is, and its source of chance."""

    pid: int
    host_name: str
    host_ip: str
    random: random.Random
    utc_offset_ms: int = 0
    """Of the zone that the machine is in, when the process began."""


class Machine(NamedTuple):
    """The five seams of one process."""

    clock: Clock
    network: Network
    files: Files
    workers: Workers
    identity: Identity
