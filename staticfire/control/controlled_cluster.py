"""The cluster that the control endpoint serves, as its handlers see it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from staticfire.client import Admin, ClientSettings, ClusterClient
from staticfire.client.admin.clock import ClusterClock
from staticfire.cluster.fault_rules import ClusterFaults
from staticfire.control.view import ClusterView
from staticfire.control.whole_cluster import KnownBrokers, masters_of
from staticfire.failover.replicas import ReplicaAdmin
from staticfire.runtime.pool import ConnectionPool


@dataclass(frozen=True, slots=True)
class ControlledCluster:
    """A running cluster, and connections to it."""

    view: ClusterView
    pool: ConnectionPool
    url: str
    """The URL of the endpoint."""
    needs_token: bool
    client_settings: ClientSettings = field(default_factory=ClientSettings)
    """How clients of it connect: with which protocol, through TLS or not."""
    why_read_only: str = ""
    """Why only reading is allowed; empty: everything is."""

    @property
    def namesrv(self) -> str:
        return self.view.namesrv

    @property
    def clock(self) -> ClusterClock:
        return ClusterClock(self.pool, self.view.namesrv)

    @property
    def faults(self) -> ClusterFaults:
        servers = {**self.view.addresses, **self.view.replica_addresses}
        return ClusterFaults(self.pool, self.view.namesrv, self.view.process_faults, servers)

    @property
    def replicas(self) -> ReplicaAdmin:
        return ReplicaAdmin.at_nameservers(self.pool, self.view.namesrv)

    @property
    def known_brokers(self) -> KnownBrokers:
        """Its brokers, for what changes all of them."""
        return KnownBrokers(self.view.addresses, bool(self.view.replica_addresses))

    async def masters(self) -> dict[str, str]:
        """Return the addresses of the brokers that accept changes. Raises: ClientError, NetworkError."""
        return await masters_of(self.pool, self.namesrv, self.known_brokers)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[ClusterClient]:
        """Open connections for one request only, or use those of `sharing`."""
        shared = _SHARED.get()
        if shared is not None and shared.namesrv == self.view.namesrv:
            yield await shared.client()
            return
        async with ClusterClient(self.view.namesrv, self.client_settings) as client:
            yield client

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Admin]:
        """Administer the cluster for one request."""
        async with self.connected() as client, Admin(client=client) as admin:
            yield admin

    @asynccontextmanager
    async def sharing(self) -> AsyncIterator[None]:
        """Let all requests of this task use the same connections: one page consists of several requests.

        They are opened when first needed, and closed at the end. So no route is older than the page.
        """
        if _SHARED.get() is not None:
            yield
            return
        shared = _SharedClient(self.view.namesrv, self.client_settings)
        token = _SHARED.set(shared)
        try:
            yield
        finally:
            _SHARED.reset(token)
            await shared.close()


class _SharedClient:
    """A client that is opened when first needed."""

    def __init__(self, namesrv: str, settings: ClientSettings) -> None:
        self.namesrv = namesrv
        self._settings = settings
        self._client: ClusterClient | None = None
        self._turn = asyncio.Lock()

    async def client(self) -> ClusterClient:
        """Return it, opened."""
        async with self._turn:
            if self._client is None:
                client = ClusterClient(self.namesrv, self._settings)
                await client.__aenter__()
                self._client = client
            return self._client

    async def close(self) -> None:
        """Close it if it was opened."""
        if self._client is not None:
            await self._client.__aexit__(None, None, None)


_SHARED: ContextVar[_SharedClient | None] = ContextVar("shared client", default=None)
