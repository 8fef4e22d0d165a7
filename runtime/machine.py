"""The machine that a process runs on, as five seams: clock, network, files, workers, identity.

All code above `runtime/` reaches the outside world through a `Machine` that was handed to it, never through
the standard library. `runtime.live` has the real one; `faults` has a simulated one on virtual time, with which
a test runs a whole cluster in one event loop.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from staticfire.protocol.times import MessageMs, UptimeMs

T = TypeVar("T")


class Clock(Protocol):
    """What the machine knows of time."""

    def uptime_ms(self) -> UptimeMs:
        """Return the event loop's monotonic time: liveness."""

    def wall_ms(self) -> MessageMs:
        """Return milliseconds since 1970: where message time starts from."""


class Listener(Protocol):
    """A port that accepts connections."""

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int:
        """The port in use, also when 0 was asked for."""

    async def close(self) -> None:
        """Stop accepting. Connections that exist stay."""


class Network(Protocol):
    """Where connections come from."""

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, sock: socket.socket | None = None
    ) -> Listener:
        """Accept connections; each gets a protocol from `factory`. `sock`: a listening socket to take over.

        Raises: OSError (port in use, no such address).
        """

    async def connect(self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_ms: int) -> asyncio.Transport:
        """Connect to a listener and return the transport; the protocol knows it by `connection_made`.

        The transport answers `get_extra_info("peername")` and `("sockname")` with `(host, port, ...)`.

        Raises: OSError (refused, unreachable), TimeoutError.
        """


class File(Protocol):
    """Random access to one file."""

    def size(self) -> int: ...

    def write(self, position: int, data: bytes) -> None:
        """Write all of `data` at `position`; nothing counts as written when it raises. Raises: OSError."""

    def read(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes at `position`; fewer at the file's end."""

    def sync(self) -> None:
        """Return when all that was written is on the disk. Blocks: call it in a worker. Raises: OSError."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class FolderLock(Protocol):
    """The right to be the only process that uses a folder."""

    def release(self) -> None: ...


class Files(Protocol):
    """The file system below paths given as `str`."""

    def make_folder(self, path: str) -> None:
        """Create the folder and its parents; fine when it exists. Raises: OSError."""

    def list_folder(self, path: str) -> list[str]:
        """Return the names in it, sorted; empty when there is no such folder."""

    def exists(self, path: str) -> bool: ...

    def open(self, path: str, map_bytes: int = 0) -> File:
        """Open for reading and writing, creating it when missing.

        `map_bytes` > 0: the file is never larger than that, reads of it are frequent (the live one maps it).
        Its `size()` may then be `map_bytes` with zeros behind what was written.
        """

    def read_bytes(self, path: str) -> bytes:
        """Return a whole file. Raises: FileNotFoundError, OSError."""

    def replace(self, path: str, data: bytes) -> None:
        """Put `data` in place of the file at once or not at all (temporary file, fsync, rename). Raises: OSError."""

    def remove(self, path: str) -> None:
        """Remove a file; fine when it is missing."""

    def remove_folder(self, path: str) -> None:
        """Remove a folder with all in it; fine when it is missing."""

    def lock_folder(self, path: str) -> FolderLock:
        """Become the only user of a folder. Raises: BlockingIOError when another process is."""


class Workers(Protocol):
    """Threads for what blocks."""

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Run `function(*arguments)` off the event loop and return its result."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this process is, and its source of chance."""

    pid: int
    host_name: str
    host_ip: str
    random: random.Random


@dataclass(frozen=True, slots=True)
class Machine:
    """The five seams of one process."""

    clock: Clock
    network: Network
    files: Files
    workers: Workers
    identity: Identity
