"""What producers, consumers and admins are: something that works through a `ClusterClient`, its own or a shared one."""

from collections.abc import Sequence

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.settings import ClientSettings
from staticfire.protocol.errors import ClientError
from staticfire.runtime.machine import Machine
from staticfire.runtime.service import Service


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
        self._is_shared = client is not None
        self.client = client or ClusterClient(namesrv or "", settings, machine)

    async def _join(self) -> None:
        """Begin to work; the client is open."""

    async def _part(self) -> None:
        """Stop working; the client is still open. Runs also when `_join` failed."""

    async def _start(self) -> None:
        if not self._is_shared:
            await self.client.__aenter__()
        elif not self.client.is_open:
            raise ClientError("the shared client isn't open: enter it first, `async with ClusterClient(...) as client`")
        await self._join()

    async def _stop(self) -> None:
        try:
            if self.client.is_open:
                await self._part()
        finally:
            if not self._is_shared:
                await self.client.__aexit__(None, None, None)
