"""`--failover auto`: the program that owns a cluster lets slaves take over from masters that are gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from staticfire.client.admin.failover_watch import FailoverWatch
from staticfire.client.admin.replicas import ReplicaAdmin
from staticfire.runtime.live import live_machine
from staticfire.runtime.pool import ConnectionPool


@asynccontextmanager
async def failing_over(namesrv: str) -> AsyncIterator[None]:
    """Watch the masters of a cluster in the background."""
    machine = live_machine()
    pool = ConnectionPool(machine)

    async def pause(pause_ms: int) -> None:
        await asyncio.sleep(pause_ms / 1000)  # house: the owner of a live cluster has no service to pause

    watch = FailoverWatch(ReplicaAdmin(pool, namesrv), machine.clock.uptime_ms, pause)
    task = asyncio.get_running_loop().create_task(watch.loop(), name="failover")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await pool.close()
        await machine.workers.close()
