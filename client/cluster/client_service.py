"""The base class of producers, consumers and admins: they work with a `ClusterClient`, their own or a shared one.

With `async with` it runs in the current event loop. With `with` it runs in an event loop in its own thread, and a
subclass's `__enter__` returns its blocking form (blocking.py).
"""

from collections.abc import Sequence
from typing import Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.logged_service import LoggedService
from staticfire.client.cluster.settings import ClientSettings
from staticfire.protocol.errors import ClientError
from staticfire.runtime import failing_blocks
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.machine import Machine


class EnteredFace(Protocol):
    """The part of a blocking object that the service uses."""

    def leave(self) -> None:
        """Stop the service."""


class ClientService(LoggedService):
    """Opens and closes its own client; a shared client is left open. Subclasses implement `_join` and `_part`."""

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
        if isinstance(namesrv, int):
            raise ClientError(f'namesrv={namesrv} is not an address; write namesrv="127.0.0.1:{namesrv}"')
        self.is_client_shared = client is not None
        self.client = client or ClusterClient(namesrv or "", settings, machine)
        self._faces: list[EnteredFace] = []
        """The blocking object, while there is one."""

    @property
    def own_name(self) -> str:
        """Its class, and its group if it has one."""
        group = getattr(self, "group", None)
        return f"{type(self).__name__} {group}" if isinstance(group, str) else type(self).__name__

    async def _join(self) -> None:
        """Start to work; the client is open."""

    async def _part(self) -> None:
        """Stop working; the client is still open. Called even if `_join` failed."""

    def shared_thread(self) -> LoopThread | None:
        """Return the thread of a shared client; None if the client is its own. Raises: ClientError."""
        if not self.is_client_shared:
            return None
        if not self.client.is_open:
            raise ClientError("the shared client isn't open: open it first, `with ClusterClient(...) as client`")
        if self.client.thread is None:
            raise ClientError(
                "the shared client was opened with `async with`: also open its producers and consumers "
                "with `async with`"
            )
        return self.client.thread

    def entered_as(self, face: EnteredFace) -> None:
        """Let `__exit__` leave through a blocking object."""
        self._faces.append(face)

    async def __aexit__(self, kind: type[BaseException] | None = None, *others: object) -> None:
        await failing_blocks.notify_in_loop(others[0] if others else None)
        await super().__aexit__(kind, *others)

    def __exit__(self, *outcome: object) -> None:
        failing_blocks.notify(outcome[1] if len(outcome) > 1 else None)
        while self._faces:
            self._faces.pop().leave()

    async def _start(self) -> None:
        if not self.is_client_shared:
            await self.client.__aenter__()
        elif not self.client.is_open:
            raise ClientError("the shared client isn't open: open it first, `async with ClusterClient(...) as client`")
        elif self.client.thread is not None and not self.client.thread.is_current:
            raise ClientError(
                "the shared client was opened with `with`: also open its producers and consumers with `with`"
            )
        await self._join()

    async def _stop(self) -> None:
        try:
            if self.client.is_open:
                await self._part()
        finally:
            if not self.is_client_shared:
                await self.client.__aexit__(None, None, None)
