"""How Spark's synchronous processes access a cluster: a client on an event loop in its own thread.

There is one link per cluster and process, which is kept until the process ends: Spark gives a worker process one task
after another, without marking the first or the last. A forked process starts without links.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.settings import ClientSettings
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.options import GivenTls, Protocol, SourceOptions
from staticfire.pipeline.sink_options import SinkOptions
from staticfire.protocol.errors import StaticfireError, UsageError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.client_machine import client_machine

T = TypeVar("T")

# Queries fetch routes when they need them. A link without queries must not poll a cluster that may be gone.
ROUTE_POLL_MS = 3_600_000


class ClusterLink:
    """A client for one cluster. Any thread but the link's own may call the methods."""

    def __init__(
        self,
        name_server: str,
        protocol: Protocol,
        tls: GivenTls = None,
        access_key: str = "",
        secret_key: str = "",
    ) -> None:
        self._name_server = name_server
        self._machine = client_machine(tls)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="staticfire-link", daemon=True).start()
        settings = ClientSettings(
            protocol=protocol,
            poll_name_server_interval_ms=ROUTE_POLL_MS,
            access_key=access_key,
            secret_key=secret_key,
        )
        self._client = self._wait(self._open(settings))

    async def _open(self, settings: ClientSettings) -> ClusterClient:
        return await ClusterClient(self._name_server, settings, self._machine).__aenter__()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def uptime_ms(self) -> UptimeMs:
        """Return this process's uptime, for deadlines."""
        return self._machine.clock.uptime_ms()

    def pause(self, pause_ms: int) -> None:
        """Sleep for that long."""
        self._wait(self._client.pause_for(pause_ms))

    def ask(self, question: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine function on the link's event loop; return its result.

        Raises: UsageError and the errors of errors.py unchanged; other failures as SourceUnreachable.
        """
        try:
            return self._wait(question(self._client))
        except StaticfireError as error:
            if isinstance(error, UsageError) or type(error).__module__ == SourceUnreachable.__module__:
                raise
            raise SourceUnreachable(f"nameServer={self._name_server}: {error}") from None


_links: dict[tuple[str, Protocol, GivenTls, str, str], ClusterLink] = {}
_lock = threading.Lock()


def link_to(options: SourceOptions | SinkOptions) -> ClusterLink:
    """Return this process's link to the cluster of a query."""
    with _lock:
        key = (options.name_server, options.protocol, options.tls, options.access_key, options.secret_key)
        link = _links.get(key)
        if link is None:
            link = _links[key] = ClusterLink(*key)
        return link


def _forget_links() -> None:
    """Start without links in a forked process, since threads aren't inherited."""
    global _lock
    _links.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_links)
