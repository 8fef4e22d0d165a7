"""How Spark's synchronous processes reach a cluster: a client on an event loop in a thread of its own.

One per cluster and process, kept until the process ends: Spark gives a worker process one task after the other, and
tells it of neither the first nor the last. A fork has none of its parent's.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.settings import ClientSettings
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.options import Protocol, SourceOptions
from staticfire.pipeline.sink_options import SinkOptions
from staticfire.protocol.errors import StaticfireError, UsageError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.live import live_machine

T = TypeVar("T")

ROUTE_POLL_MS = 3_600_000
# Routes are fetched when a query needs them; a link without queries shouldn't ask for a cluster that is gone.


class ClusterLink:
    """One cluster. All methods may be called from any thread but the link's own."""

    def __init__(self, name_server: str, protocol: Protocol) -> None:
        self._name_server = name_server
        self._machine = live_machine()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="staticfire-link", daemon=True).start()
        settings = ClientSettings(protocol=protocol, poll_name_server_interval_ms=ROUTE_POLL_MS)
        self._client = self._wait(self._open(settings))

    async def _open(self, settings: ClientSettings) -> ClusterClient:
        return await ClusterClient(self._name_server, settings, self._machine).__aenter__()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def uptime_ms(self) -> UptimeMs:
        """Return this process's time for deadlines."""
        return self._machine.clock.uptime_ms()

    def pause(self, pause_ms: int) -> None:
        """Return after so long."""
        self._wait(self._client.pause_for(pause_ms))

    def ask(self, question: Callable[[ClusterClient], Coroutine[Any, Any, T]]) -> T:
        """Run a question on the link's loop and return what it returns.

        Raises: UsageError and what is in errors.py as they are; other failures as SourceUnreachable.
        """
        try:
            return self._wait(question(self._client))
        except StaticfireError as error:
            if isinstance(error, UsageError) or type(error).__module__ == SourceUnreachable.__module__:
                raise
            raise SourceUnreachable(f"nameServer={self._name_server}: {error}") from None


_links: dict[tuple[str, Protocol], ClusterLink] = {}
_lock = threading.Lock()


def link_to(options: SourceOptions | SinkOptions) -> ClusterLink:
    """Return this process's link to the cluster that a query reads or writes."""
    with _lock:
        key = (options.name_server, options.protocol)
        link = _links.get(key)
        if link is None:
            link = _links[key] = ClusterLink(*key)
        return link


def _forget_links() -> None:
    """Begin anew in a forked process: threads don't come along."""
    global _lock
    _links.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget_links)
