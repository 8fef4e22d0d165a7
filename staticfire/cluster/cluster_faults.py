"""`Cluster.faults`: what goes wrong on purpose, while the cluster runs. docs/faults.md has all of it.

    cluster.faults.add(code="SEND_MESSAGE", topic="orders", answer="SYSTEM_BUSY", times=3)
    with cluster.faults.add(code="PULL_MESSAGE", group="billing", drop="answer", probability=0.1):
        ...
    cluster.faults.add(broker="broker-b", freeze="20s")
    for fault in cluster.faults.all():
        print(fault.words, fault.hits)

With `async with Cluster()` the same is awaited: `async with cluster.faults.add(...)`, `await cluster.faults.add(...)`.
"""

from collections.abc import Generator, Mapping
from typing import Any, Self

from staticfire.client.admin.faults import FaultView, FaultViews
from staticfire.cluster.cluster_calls import Face, awaiting, waiting
from staticfire.cluster.fault_rules import ClusterFaults
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.protocol.errors import UsageError
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.pool import ConnectionPool


class RunningFaults:
    """The rules of a cluster, from within the event loop that it lives in."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster

    async def add(self, words: Mapping[str, object]) -> FaultView:
        """See `ClusterFaults.add`."""
        async with self._cluster.pool() as pool:
            return await self._faults(pool).add(words)

    async def all(self) -> FaultViews:
        """Return all rules, oldest first, with their hits; servers that don't answer are in `.silent`."""
        async with self._cluster.pool() as pool:
            return await self._faults(pool).all()

    async def remove(self, number: int) -> None:
        """Let it go right again. Raises: UsageError (there is no such rule), NetworkError."""
        async with self._cluster.pool() as pool:
            await self._faults(pool).remove(number)

    async def clear(self) -> int:
        """Let all go right again; return how many rules there were. Raises: NetworkError."""
        async with self._cluster.pool() as pool:
            return await self._faults(pool).clear()

    def _faults(self, pool: ConnectionPool) -> ClusterFaults:
        cluster = self._cluster.cluster
        return ClusterFaults(pool, cluster.namesrv, cluster.process_faults, cluster.addresses)


class ClusterFaultsFace(Face[RunningFaults]):
    """What both faces share."""

    def __init__(self, cluster: Face[RunningCluster]) -> None:
        self._cluster = cluster

    def _behind(self) -> tuple[LoopThread, RunningFaults]:
        thread, running = self._cluster._behind()
        return thread, RunningFaults(running)


class BlockingFaults(ClusterFaultsFace):
    """The rules of one cluster; all methods block."""

    def add(self, **words: object) -> "BlockingFault":
        """Let something go wrong from now on, or until the `with` of what this returns is left.

        The words are those of `staticfire fault add`: whom (`code`, `client`, `group`, `topic`, `queue`, `broker`,
        `address`, `language`, `direction`), what (one of `delay`, `drop`, `answer`, `close`, `corrupt`, `bandwidth`,
        `duplicate`, `skew`, `partition`, `read_only`, `disk_full`, `freeze`, `kill`), how often (`probability`, `seed`,
        `times`, `lifetime`, `from_`, `until`). Raises: UsageError, ClientError, BrokerAnswer, NetworkError.
        """
        return BlockingFault(self, self._add(words))

    _add = waiting(RunningFaults.add)
    all = waiting(RunningFaults.all)
    remove = waiting(RunningFaults.remove)
    clear = waiting(RunningFaults.clear)


class BlockingFault:
    """A rule that was added; `with` removes it in the end."""

    def __init__(self, faults: BlockingFaults, added: FaultView) -> None:
        self._faults = faults
        self.number = added.number
        self.words = added.words
        self.notes = added.notes
        """What should be known about it, like a topic that isn't there yet."""

    @property
    def hits(self) -> dict[str, int]:
        """How often it has hit, by server; nothing when it is gone."""
        return next((view.hits for view in self._faults.all() if view.number == self.number), {})

    def remove(self) -> None:
        """Let it go right again; fine when its lifetime was over first."""
        try:
            self._faults.remove(self.number)
        except UsageError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class AwaitedFaults(ClusterFaultsFace):
    """The rules of one cluster, awaited."""

    def add(self, **words: object) -> "AwaitedFault":
        """Let something go wrong, once what this returns is awaited or entered. The words: `BlockingFaults.add`."""
        return AwaitedFault(self, words)

    add_now = awaiting(RunningFaults.add)
    all = awaiting(RunningFaults.all)
    remove = awaiting(RunningFaults.remove)
    clear = awaiting(RunningFaults.clear)


class AwaitedFault:
    """A rule that is added when this is awaited; `async with` removes it in the end, too."""

    def __init__(self, faults: AwaitedFaults, said: Mapping[str, object]) -> None:
        self._faults = faults
        self._said = said
        self.number = 0
        self.words = ""
        self.notes: list[str] = []

    async def hits(self) -> dict[str, int]:
        """Return how often it has hit, by server; nothing when it is gone."""
        return next((view.hits for view in await self._faults.all() if view.number == self.number), {})

    async def remove(self) -> None:
        """Let it go right again; fine when its lifetime was over first."""
        try:
            await self._faults.remove(self.number)
        except UsageError:
            pass

    def __await__(self) -> Generator[Any, None, Self]:
        return self._added().__await__()

    async def _added(self) -> Self:
        added = await self._faults.add_now(self._said)
        self.number, self.words, self.notes = added.number, added.words, added.notes
        return self

    async def __aenter__(self) -> Self:
        return await self._added()

    async def __aexit__(self, *_: object) -> None:
        await self.remove()
