"""The cluster that the control endpoint serves, as its handlers see it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from staticfire.client import Admin, ClientSettings
from staticfire.client.admin.clock import ClusterClock
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

    @property
    def namesrv(self) -> str:
        return self.view.namesrv

    @property
    def clock(self) -> ClusterClock:
        return ClusterClock(self.pool, self.view.namesrv)

    @property
    def faults(self) -> ClusterFaults:
        return ClusterFaults(self.pool, self.view.namesrv, self.view.process_faults, self.view.addresses)

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[Admin]:
        """Open connections for one request only."""
        async with Admin(self.view.namesrv, ClientSettings.signing(self.view.credentials)) as admin:
            yield admin
