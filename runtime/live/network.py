"""TCP in the running event loop. Errors keep their class, and their message names the peer as host:port.

Nagle's algorithm is off (TCP_NODELAY) on every connection: asyncio does this for connections that it opens.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

from staticfire.runtime.live.listener import LiveListener
from staticfire.runtime.live.surroundings import live_surroundings
from staticfire.runtime.pending_answers import deadline
from staticfire.runtime.reach import Surroundings, ip_of

# asyncio allocates a buffer of this size for each read from a socket.
RECEIVED_BYTES_MAX = 256 * 1024

# A host name may have several addresses. If one doesn't respond for this time, the next is tried, too (RFC 8305).
NEXT_ADDRESS_S = 0.25


class LiveNetwork:
    """The operating system's network."""

    __slots__ = ()

    def __init__(self) -> None:
        # glibc maps and unmaps each block of 128 KiB and more with a system call, until a larger block was freed once.
        # Until then, reading a small frame takes 20 us instead of 4. Whether another block was freed before is a matter
        # of luck, so one is freed here.
        bytes(2 * RECEIVED_BYTES_MAX)

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, sock: socket.socket | None = None
    ) -> LiveListener:
        """Accept connections at host:port, or at the listening socket `sock`, which the listener then owns."""
        if sock is not None:
            return LiveListener(factory, [sock])
        try:
            socks = _bound(await _addresses(host, port))
        except (OSError, ValueError) as error:
            raise _named(error, host, port) from None
        return LiveListener(factory, socks)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_ms: int
    ) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        race: dict[str, Any] = {"happy_eyeballs_delay": NEXT_ADDRESS_S} if _may_race(loop, host) else {}
        connected: tuple[Any, asyncio.Protocol]
        try:
            async with deadline(timeout_ms / 1000):
                connected = await loop.create_connection(factory, host, port, **race)
        except TimeoutError as error:
            if error.errno is None:
                raise TimeoutError(f"{host}:{port}: no response within {timeout_ms} ms") from None
            raise _named(error, host, port) from None
        except (OSError, ValueError) as error:
            raise _named(error, host, port) from None
        transport: asyncio.Transport = connected[0]
        return transport

    def surroundings(self) -> Surroundings:
        return live_surroundings()


def _may_race(loop: asyncio.AbstractEventLoop, host: str) -> bool:
    """Return whether several addresses of a host may be tried at once.

    Not for an IP address: the tasks of a race would halve the number of connections per second. Not with other loops,
    as uvloop, which can't do it, nor with eager tasks, with which it fails in Python 3.12 and 3.13.
    """
    return isinstance(loop, asyncio.BaseEventLoop) and loop.get_task_factory() is None and ip_of(host) is None


async def _addresses(host: str, port: int) -> list[tuple[int, Any]]:
    """Return the families and socket addresses of a host to listen at. Raises: OSError."""
    kind = socket.SOCK_STREAM
    # An IP address needs no name lookup and no thread. As bytes, it isn't treated as an internationalized name.
    try:
        address = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_PASSIVE | socket.AI_NUMERICHOST)
    except socket.gaierror:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=kind, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))


def _bound(addresses: list[tuple[int, Any]]) -> list[socket.socket]:
    """Return a bound socket for each address. Raises: OSError; no socket is left open then."""
    socks: list[socket.socket] = []
    try:
        for family, address in addresses:
            sock = socket.socket(family, socket.SOCK_STREAM)
            socks.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                # IPv4 has its own socket.
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind(address)
    except BaseException:
        for sock in socks:
            sock.close()
        raise
    return socks


def _named(error: OSError | ValueError, host: str, port: int) -> OSError:
    """Return the same error with host:port in its message. OSError chooses the subclass by the number.

    Python raises ValueError for a host that it doesn't even look up, for example a name with an empty part.
    """
    if isinstance(error, ValueError):
        return OSError(f"{host!r}:{port}: not a host: {error}")
    if isinstance(error, socket.gaierror):
        return socket.gaierror(error.errno, f"{host}:{port}: {error.strerror}")
    if error.errno is None:
        return OSError(f"{host}:{port}: {error}")
    return OSError(error.errno, f"{host}:{port}: {os.strerror(error.errno)}")
