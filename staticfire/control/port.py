"""The port of the control endpoint.

aiohttp takes longer to load than the whole cluster takes to start, so the first connection loads it.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, Self

from staticfire.control.view import ClusterView
from staticfire.launch.places import WantedControl

if TYPE_CHECKING:
    from staticfire.control.site import ControlSite


class ControlPort:
    """Waits at a listening socket. The first connection loads the endpoint, and waits in the backlog meanwhile."""

    def __init__(self, cluster: ClusterView, sock: socket.socket, wanted: WantedControl) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._sock = sock
        self._opening: asyncio.Task[ControlSite] | None = None
        self._watching = False

    async def __aenter__(self) -> Self:
        self._sock.setblocking(False)
        asyncio.get_running_loop().add_reader(self._sock, self._knocked)
        self._watching = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop_watching()
        if self._opening is not None:
            site = (await asyncio.gather(self._opening, return_exceptions=True))[0]
            if not isinstance(site, BaseException):
                await site.close()
        self._sock.close()

    def _knocked(self) -> None:
        self._stop_watching()
        self._opening = asyncio.get_running_loop().create_task(self._open(), name="control")

    def _stop_watching(self) -> None:
        if self._watching:
            asyncio.get_running_loop().remove_reader(self._sock)
            self._watching = False

    async def _open(self) -> "ControlSite":
        from staticfire.control.access import Access
        from staticfire.control.hosts import KnownHosts
        from staticfire.control.site import ControlSite

        site = ControlSite(self._cluster, Access(KnownHosts(self._wanted.names), self._wanted.token))
        await site.open(self._sock)
        return site
