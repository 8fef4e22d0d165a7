"""Connections to a cluster's brokers as a client with its settings has them: with an access key, through TLS or not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from staticfire.client import ClientSettings
from staticfire.runtime.client_machine import client_machine
from staticfire.runtime.pool import ConnectionPool
from staticfire.runtime.tls.settings import tls_client


@asynccontextmanager
async def connections(settings: ClientSettings | None = None) -> AsyncIterator[ConnectionPool]:
    """Open connections while the block runs. `settings`: None means those of the environment."""
    chosen = settings or ClientSettings()
    machine = client_machine(tls_client(chosen.tls))
    pool = ConnectionPool(machine, credentials=chosen.credentials)
    try:
        yield pool
    finally:
        await pool.close()
        await machine.workers.close()
