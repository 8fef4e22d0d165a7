"""What producers, consumers and admins are: something that works through a `ClusterClient`, its own or a shared one.

Entered with `async with` it lives in the event loop that runs there; with `with`, in one of its own thread, and a
subclass's `__enter__` returns its blocking face (blocking.py).
"""

from collections.abc import Sequence
from typing import Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.settings import ClientSettings
from staticfire.protocol.errors import ClientError
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Service


class EnteredFace(Protocol):
    """A blocking face, as far as the service itself knows of it."""

    def leave(self) -> None:
        """End the service."""


class ClientService(Service):
    """Enters and leaves its own client; a shared one belongs to who entered it. Subclasses write `_join`, `_part`."""

    def __init__(
        self,
        namesrv: str | Sequence[str] | None,
        settings: ClientSettings,
        machine: Machine | None,
        client: ClusterClient | None,
    ) -> None:
        """Raises: UsageError, ClientError (neither nameservers nor a client)."""
        super().__init__()
        if client is None and not namesrv:
            raise ClientError('no nameserver: write namesrv="host:port", for example "127.0.0.1:9876"')
        self.is_client_shared = client is not None
        self.client = client or ClusterClient(namesrv or "", settings, machine)
        self._faces: list[EnteredFace] = []
        """The blocking face, while there is one."""

    @property
    def own_name(self) -> str:
        """Its class, and its group where it has one."""
        group = getattr(self, "group", None)
        return f"{type(self).__name__} {group}" if isinstance(group, str) else type(self).__name__

    async def _join(self) -> None:
        """Begin to work; the client is open."""

    async def _part(self) -> None:
        """Stop working; the client is still open. Runs also when `_join` failed."""

    def shared_thread(self) -> LoopThread | None:
        """Return the thread of a shared client, None for a client of its own. Raises: ClientError."""
        if not self.is_client_shared:
            return None
        if not self.client.is_open:
            raise ClientError("the shared client isn't open: enter it first, `with ClusterClient(...) as client`")
        if self.client.thread is None:
            raise ClientError("the shared client was entered with `async with`: enter what uses it so, too")
        return self.client.thread

    def entered_as(self, face: EnteredFace) -> None:
        """Have `__exit__` leave through a blocking face."""
        self._faces.append(face)

    def __exit__(self, *_: object) -> None:
        while self._faces:
            self._faces.pop().leave()

    async def _start(self) -> None:
        if not self.is_client_shared:
            await self.client.__aenter__()
        elif not self.client.is_open:
            raise ClientError("the shared client isn't open: enter it first, `async with ClusterClient(...) as client`")
        elif self.client.thread is not None and not self.client.thread.is_current:
            raise ClientError("the shared client was entered with `with`: enter what uses it so, too")
        await self._join()

    async def _stop(self) -> None:
        try:
            if self.client.is_open:
                await self._part()
        finally:
            if not self.is_client_shared:
                await self.client.__aexit__(None, None, None)
