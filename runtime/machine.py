"""The machine that a process runs on, as five seams: clock, network, files, workers, identity.

All code above `runtime/` reaches the outside world through a `Machine` that was passed to it, never through the
standard library. `runtime.live` has the real one; `simulation.world` has one on virtual time, with which a test runs a
whole cluster in one event loop. Both pass the same contract tests (tests/faults/test_contract_*.py).

`Clock.uptime_ms` and the running loop use the same clock: `loop.call_at(uptime_ms / 1000, ...)` is a deadline.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from staticfire.protocol.times import MessageMs, UptimeMs
from staticfire.runtime.reach import Surroundings

if TYPE_CHECKING:
    from staticfire.runtime.credentials import Credentials

T = TypeVar("T")
Bytes = bytes | bytearray | memoryview


class Clock(Protocol):  # house: the seam; protocol/requests/clock.py has the request that moves message time
    """The clocks of the machine."""

    def uptime_ms(self) -> UptimeMs:
        """Return the event loop's monotonic time. It is used for liveness."""

    def uptime_ns(self) -> int:
        """Return the same time in nanoseconds. It takes half as long, for callers that record many times."""

    def wall_ms(self) -> MessageMs:
        """Return the milliseconds since 1970. Message time starts from it."""


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def host(self) -> str:
        """The address that it is bound to."""

    @property
    def port(self) -> int:
        """The port in use, also if port 0 was requested."""

    async def close(self) -> None:
        """Stop accepting; the port is free on return. Existing connections stay open."""


class Network(Protocol):
    """The network: it makes connections."""

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, sock: socket.socket | None = None
    ) -> Listener:
        """Accept connections; each gets a protocol from `factory`. `sock`: a listening socket to use.

        Raises: OSError (port in use, no such address), naming host:port.
        """

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_ms: int
    ) -> asyncio.Transport:
        """Connect to a listener and return the transport. The protocol's `connection_made` was called with it before.

        The transport's `get_extra_info("peername")` and `("sockname")` return `(host, port, ...)`; `("socket")` returns
        None if there is no socket.

        Raises: OSError (ConnectionRefusedError, unreachable ...) and TimeoutError, naming host:port.
        """

    def surroundings(self) -> Surroundings:
        """Return the current networks of the machine, and their gateways."""


class File(Protocol):
    """Random access to one file. Written data can be read at once and survives a kill; a loss of power may lose data
    that wasn't synced. A file has one owner at a time: nothing else writes or truncates it.
    """

    def size(self) -> int: ...

    def write(self, position: int, data: Bytes) -> None:
        """Write all of `data` at `position`; a gap before it reads as zeros.

        If it raises, nothing was written: a file that grew by a part of `data` is truncated again; in a mapped file,
        that part reads as zeros again. Raises: OSError with the path in `filename`.
        """

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes at `position`; fewer at the file's end.

        In a mapped file, read only what was written recently. Reading a bad sector, or a hole on a full tmpfs, kills
        the process (SIGBUS).
        """

    def read_unmapped(self, position: int, size: int) -> bytes:
        """Like `read`, but with a call, so it is safe for any content. Raises: OSError with the path in `filename`."""

    def view(self, position: int, size: int) -> memoryview:
        """Do `read_unmapped` without a copy, if possible. Only system calls may read the view, which then fail at what
        can't be read. It must be released before anything else is done with the file. Raises: as `read_unmapped`.
        """

    def data_end(self) -> int:
        """Return a position from which on the file is known to read as zeros; at most its size. It reads nothing."""

    def sync(self) -> None:
        """Sync all written data to the disk; the name of a new file needs `Files.sync_folder`.

        It blocks: call it in a worker, and only one call at a time per file, because an error of the disk is reported
        to only one caller. After an error, everything written since the last success may be lost, even if it can still
        be read: it must be written again. Raises: OSError.
        """

    def truncate(self, size: int) -> None:
        """Truncate the file. A mapped file keeps its size and reads as zeros from there. No reads may run meanwhile."""

    def close(self) -> None:
        """Close the file; may be called twice. Everything else raises OSError (or ValueError) from then on."""


class DiskUse(NamedTuple):
    """How full a disk is for programs that can't use the space reserved for root, as `df` counts it."""

    used_bytes: int
    total_bytes: int

    @property
    def percent(self) -> int:
        """The used part, rounded up. RocketMQ: UtilAll.getDiskPartitionSpaceUsedPercent."""
        return -(-self.used_bytes * 100 // self.total_bytes) if self.total_bytes else 0


class FolderLock(Protocol):
    """An exclusive lock on a folder. It ends with the process, however the process ends."""

    def release(self) -> None:
        """Release it; may be called twice."""


class Files(Protocol):
    """The file system. Paths are `str`. Every call may block for a moment, `replace` for two syncs."""

    def make_folder(self, path: str) -> None:
        """Create the folder and its parents, unless it exists. A new one needs a `sync_folder` of the folder above it.

        Raises: OSError.
        """

    def list_folder(self, path: str) -> list[str]:
        """Return the names in the folder, sorted; empty if it doesn't exist. Unfinished replacements aren't listed.

        Raises: NotADirectoryError (it is a file), OSError.
        """

    def sync_folder(self, path: str) -> None:
        """Sync the names in a folder to the disk: new, replaced and removed ones. Blocks.

        Raises: OSError.
        """

    @property
    def syncs_together(self) -> bool:
        """Whether `sync_together` is available."""

    def sync_together(self, folder: str, write: Callable[[], None]) -> None:
        """Call `write`, which writes many files, then sync everything new in the folder's file system to the disk.

        It needs one sync instead of one per file: for a thousand files, a twentieth of the CPU time. Blocks. Raises:
        OSError, also if some of the data of `write` couldn't be written to the disk.
        """

    def exists(self, path: str) -> bool: ...

    def open(self, path: str, map_bytes: int = 0) -> File:
        """Open a file for reading and writing; create it (not its folder) if it is missing.

        `map_bytes` > 0: the file is never larger than that and is read often (the live one maps it). Its `size()` is
        then at least `map_bytes`, with zeros after the written data, which take no space. Writing past it is a
        ValueError. Raises: OSError.
        """

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file. Raises: FileNotFoundError, OSError."""

    def read_part(self, path: str, position: int, size: int) -> bytes:
        """Return up to `size` bytes at `position` of a file; empty if there is no file. Raises: OSError."""

    def replace(self, path: str, data: bytes, is_private: bool = False) -> None:
        """Replace the file by `data` atomically (temporary file, fsync, rename), safe from power loss.

        `is_private`: only the owner may read it, because it contains secrets.

        It blocks: call it in a worker. Raises: OSError; the file then has the old content or perhaps the new one. Which
        of them is there after a loss of power is unknown.
        """

    def copy(self, path: str, target: str) -> int:
        """Copy a file, or a folder with its content, to a new place; return the number of bytes copied.

        Holes stay holes, and what only its owner may read stays so. On return, everything is safe from power loss
        except the name `target` itself. Blocks. Raises: FileNotFoundError, OSError.
        """

    def move(self, path: str, target: str) -> None:
        """Rename a file or folder on the same disk, to a new name. Both names need a `sync_folder`. Raises: OSError."""

    def remove(self, path: str) -> None:
        """Remove a file; fine if it is missing. Until `sync_folder`, it may reappear after a loss of power."""

    def remove_folder(self, path: str) -> None:
        """Remove a folder with its content; fine if it is missing. It, or parts of it, may reappear as a file may."""

    def remove_empty_folder(self, path: str) -> bool:
        """Remove a folder if it is empty, without unfinished replacements, too; return False if it isn't.

        It is fine if it is missing. Raises: OSError.
        """

    def boot_id(self) -> str:
        """Return an id of the current boot of the machine; empty if it is unknown.

        As long as the id is the same, all written data is there, synced or not.
        """

    def disk_usage(self, path: str) -> DiskUse:
        """Return how full the disk of a folder is. Raises: OSError with the path in `filename`."""

    @property
    def is_durable(self) -> bool:
        """Whether synced data must survive a crash of the machine. If not, nothing waits for the disk."""

    def database_path(self, path: str) -> str:
        """Return the path to open with sqlite3 for this database. Only for derived data: it may start empty.

        On the live machine, it is the path itself. Without real files, it is ":memory:", a database that only its
        connection can use and that ends with the process.
        """

    def lock_folder(self, path: str) -> FolderLock:
        """Lock an existing folder for this process, with the file `lock` in it.

        Raises: BlockingIOError if another process has locked it, naming the folder and the process.
        """


class ForeignThreads(Protocol):
    """Threads for the functions of one part of a user's program, which may never end."""

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run `function(*arguments)` in one of them. If the caller is cancelled, the function runs to its end."""

    def resize(self, threads_max: int) -> None:
        """Change how many functions may run at the same time. Running ones aren't stopped."""

    def close(self) -> object:
        """Let the threads end, each after its current function. Nothing can be run after that."""


class Workers(Protocol):
    """Threads for blocking functions."""

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run `function(*arguments)` outside of the event loop and return its result."""

    async def run_foreign(self, function: Callable[..., T], *arguments: object) -> T:
        """Like `run`, for a user's function that may never end: neither `close` nor the process waits for it."""

    def foreign_threads(self, threads_max: int) -> ForeignThreads:
        """Return threads of its own for a part that runs many such functions. None is started before it is needed.

        `close` closes them, too.
        """

    async def close(self) -> None:
        """Wait for the functions of `run` and end the threads. Nothing can be run after that."""


KEY_VARIABLES = ("ROCKETMQ_ACCESS_KEY", "ROCKETMQ_SECRET_KEY", "ROCKETMQ_SECURITY_TOKEN")
"""The environment variables of a process's own access key: the key, its secret, a token."""


class Identity(NamedTuple):
    """The identity of this process, and its random generator."""

    pid: int
    host_name: str
    host_ip: str
    random: random.Random
    utc_offset_ms: int = 0
    """The offset of the machine's time zone when the process started."""
    credentials: "Credentials | None" = None
    """The access key for connections that have no other one."""
    memory_bytes: int = 16 * 1024**3
    """The machine's memory."""


class Machine(NamedTuple):
    """The five seams of one process."""

    clock: Clock
    network: Network
    files: Files
    workers: Workers
    identity: Identity
