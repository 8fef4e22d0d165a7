"""A cluster that another program has started, for the control endpoint: its brokers are those that are registered.

It looks for them every LOOK_S. A broker that was seen once stays listed when it is gone, so that its absence is shown.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Self

from staticfire.client import Admin, ClientSettings
from staticfire.protocol.errors import ClientError, StaticfireError
from staticfire.runtime.tls.settings import TlsClient, TlsSettings, tls_client

if TYPE_CHECKING:
    from staticfire.launch.process_faults import ProcessFaults
    from staticfire.runtime.credentials import Credentials

LOOK_S = 5.0


class RemoteView:
    """The cluster at a nameserver's address."""

    process_faults: "ProcessFaults | None" = None

    def __init__(self, namesrv: str, settings: ClientSettings) -> None:
        self._namesrv = namesrv
        self._settings = settings
        self._addresses: dict[str, str] = {}
        self._ended = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._look_loop(), name="brokers")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ended.set()
        if self._task is not None:
            await self._task

    @property
    def namesrv(self) -> str:
        """The nameserver's address."""
        return self._namesrv

    @property
    def credentials(self) -> "Credentials | None":
        """The access key with which requests are signed, if there is one."""
        return self._settings.credentials

    @property
    def client_tls(self) -> TlsClient | None:
        """How clients must speak TLS; None: they may speak plain text."""
        return tls_client(self._settings.tls)

    @property
    def tls(self) -> TlsSettings:
        """The settings of TLS at the port of the control endpoint."""
        return TlsSettings()

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each broker that was seen."""
        return dict(self._addresses)

    @property
    def replica_addresses(self) -> dict[str, str]:
        """The address of each slave by the name of its process: its processes are unknown here."""
        return {}

    def describe(self) -> dict[str, Any]:
        """Return the addresses, ready for JSON. Processes and folders are unknown."""
        brokers = [{"name": name, "address": address} for name, address in sorted(self._addresses.items())]
        return {"namesrv": self._namesrv, "processes": brokers}

    async def look(self) -> None:
        """Look which brokers are registered. Raises: NetworkError, BrokerAnswer."""
        async with Admin(self._namesrv, self._settings) as admin:
            try:
                self._addresses |= await admin.masters()
            except ClientError:
                pass  # No broker is registered yet.

    async def _look_loop(self) -> None:
        while not self._ended.is_set():
            try:
                await self.look()
            except StaticfireError:
                pass  # The nameserver is gone; its pages say so.
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._ended.wait()
            except TimeoutError:
                pass  # It's time to look again.
