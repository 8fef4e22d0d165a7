"""A cluster of staticfire that another process started, such as `staticfire up`: its clock and its faults.

It has the attributes of `RunningCluster` that these two use. Its processes belong to another program, so they can't be
killed or suspended from here.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from staticfire.cluster.cluster_calls import Face
from staticfire.runtime.client_machine import client_machine
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.pool import ConnectionPool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from staticfire.launch.process_faults import ProcessFaults
    from staticfire.runtime.credentials import Credentials


class RemotePlace:
    """Where a cluster is."""

    process_faults: "ProcessFaults | None" = None
    addresses: "Mapping[str, str] | None" = None
    replica_addresses: "Mapping[str, str] | None" = None
    credentials: "Credentials | None" = None
    """None: those of the environment."""

    def __init__(self, namesrv: str) -> None:
        self.namesrv = namesrv


class RemoteRunning:
    """The part of a running cluster that its clock and its faults use. Runs in an event loop."""

    def __init__(self, namesrv: str) -> None:
        self.cluster = RemotePlace(namesrv)

    @asynccontextmanager
    async def pool(self) -> AsyncIterator[ConnectionPool]:
        """Open connections for one call only."""
        machine = client_machine()
        pool = ConnectionPool(machine)
        try:
            yield pool
        finally:
            await pool.close()
            await machine.workers.close()

    kept_pool = pool


class RemoteCluster(Face[RemoteRunning]):
    """A cluster that another process started."""

    def __init__(self, thread: LoopThread, namesrv: str) -> None:
        """`thread`: runs the requests."""
        self._thread = thread
        self._running = RemoteRunning(namesrv)

    def _thread_and_object(self) -> tuple[LoopThread, RemoteRunning]:
        return self._thread, self._running
