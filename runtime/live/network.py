"""TCP over the running event loop. Errors keep their class and name the other side as host:port.

asyncio and uvloop switch Nagle's algorithm off (TCP_NODELAY) on every connection themselves.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Any

from staticfire.runtime.live.surroundings import live_surroundings
from staticfire.runtime.reach import Surroundings

BACKLOG = 1024
# Connections that wait to be accepted. asyncio's 100 is too small for a thousand clients that reconnect at once.


class LiveListener:
    """A listening socket."""

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server
        self._host, self._port = server.sockets[0].getsockname()[:2]

    @property
    def host(self) -> str:
        return str(self._host)

    @property
    def port(self) -> int:
        return int(self._port)

    async def close(self) -> None:
        # Not wait_closed(): from Python 3.12 on it waits for the end of all connections.
        self._server.close()
        await asyncio.sleep(0)  # uvloop closes the socket in its next round


class LiveNetwork:
    """The operating system's network."""

    __slots__ = ()

    async def listen(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, sock: socket.socket | None = None
    ) -> LiveListener:
        """Accept connections at host:port, or at the listening socket `sock`, which belongs to the listener then."""
        loop = asyncio.get_running_loop()
        if sock is not None:
            return LiveListener(await loop.create_server(factory, sock=sock, backlog=BACKLOG))
        try:
            server = await loop.create_server(factory, host, port, reuse_address=True, backlog=BACKLOG)
        except OSError as error:
            raise _named(error, host, port) from None
        return LiveListener(server)

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], host: str, port: int, timeout_ms: int
    ) -> asyncio.Transport:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                connected: tuple[Any, asyncio.Protocol] = await loop.create_connection(factory, host, port)
        except TimeoutError as error:
            if error.errno is None:
                raise TimeoutError(f"{host}:{port}: no answer within {timeout_ms} ms") from None
            raise _named(error, host, port) from None
        except OSError as error:
            raise _named(error, host, port) from None
        transport: asyncio.Transport = connected[0]
        return transport

    def surroundings(self) -> Surroundings:
        return live_surroundings()


def _named(error: OSError, host: str, port: int) -> OSError:
    """Return the same error with the other side in its message. OSError picks the subclass by the number."""
    if isinstance(error, socket.gaierror):
        return socket.gaierror(error.errno, f"{host}:{port}: {error.strerror}")
    if error.errno is None:
        return OSError(f"{host}:{port}: {error}")
    return OSError(error.errno, f"{host}:{port}: {os.strerror(error.errno)}")
