"""The cluster that the control endpoint serves, as its handlers see it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from staticfire.client import Admin, ClientSettings
from staticfire.client.admin.clock import ClusterClock
from staticfire.client.admin.replicas import ReplicaAdmin
from staticfire.cluster.fault_rules import ClusterFaults
from staticfire.control.view import ClusterView
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
        return ReplicaAdmin(self.pool, self.view.namesrv)

    async def masters(self) -> dict[str, str]:
        """Return the addresses of the brokers that accept changes. Raises: ClientError, NetworkError."""
        return await self.replicas.masters() if self.view.replica_addresses else self.view.addresses

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Admin]:
        """Open connections for one request only."""
        async with Admin(self.view.namesrv, self.client_settings) as admin:
            yield admin
