"""`Cluster.faults`: inject faults while the cluster runs. docs/faults.md describes all of them.

    cluster.faults.add(code="SEND_MESSAGE", topic="orders", answer="SYSTEM_BUSY", times=3)
    with cluster.faults.add(code="PULL_MESSAGE", group="billing", drop="answer", probability=0.1):
        ...
    cluster.faults.add(broker="broker-b", freeze="20s")
    for fault in cluster.faults.all():
        print(fault.words, fault.hits)

With `async with Cluster()` calls are awaited: `async with cluster.faults.add(...)`, `await cluster.faults.add(...)`.
"""

from collections.abc import Generator, Mapping
from typing import Any, Self

from staticfire.client.admin.faults import FaultView, FaultViews
from staticfire.cluster.cluster_calls import Face, awaiting, waiting
from staticfire.cluster.fault_rules import ClusterFaults
from staticfire.cluster.remote_cluster import RemoteCluster, RemoteRunning
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.protocol.errors import UsageError
from staticfire.runtime import failing_blocks
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.pool import ConnectionPool


class RunningFaults:
    """The fault rules of a cluster. Runs inside the cluster's event loop."""

    def __init__(self, cluster: RunningCluster | RemoteRunning) -> None:
        self._cluster = cluster

    async def add(self, words: Mapping[str, object]) -> FaultView:
        """See `ClusterFaults.add`."""
        async with self._cluster.kept_pool() as pool:
            return await self._faults(pool).add(words)

    async def all(self) -> FaultViews:
        """Return all rules, oldest first, with their hits. `.silent` has the servers that don't respond."""
        async with self._cluster.kept_pool() as pool:
            return await self._faults(pool).all()

    async def remove(self, number: int) -> None:
        """Remove a rule, which ends its fault. Raises: as `ClusterFaults.remove`."""
        async with self._cluster.kept_pool() as pool:
            await self._faults(pool).remove(number)

    async def clear(self) -> int:
        """Remove all rules but those that stay; return how many were removed. Raises: as `ClusterFaults.clear`."""
        async with self._cluster.kept_pool() as pool:
            return await self._faults(pool).clear()

    def _faults(self, pool: ConnectionPool) -> ClusterFaults:
        cluster = self._cluster.cluster
        servers = None if cluster.addresses is None else {**cluster.addresses, **(cluster.replica_addresses or {})}
        return ClusterFaults(pool, cluster.namesrv, cluster.process_faults, servers)


class ClusterFaultsFace(Face[RunningFaults]):
    """What the blocking and the awaited class share."""

    def __init__(self, cluster: Face[RunningCluster] | RemoteCluster) -> None:
        self._cluster = cluster

    def _thread_and_object(self) -> tuple[LoopThread, RunningFaults]:
        thread, running = self._cluster._thread_and_object()
        return thread, RunningFaults(running)


class BlockingFaults(ClusterFaultsFace):
    """The fault rules of one cluster. All methods block."""

    def add(self, **words: object) -> "BlockingFault":
        """Inject a fault from now on, or until the end of a `with` block over the returned object.

        The parameters are the words of `staticfire fault add`. Which requests or servers: `code`, `client`, `group`,
        `topic`, `queue`, `broker`, `address`, `language`, `direction`. Which fault: one of `delay`, `drop`, `answer`,
        `close`, `corrupt`, `bandwidth`, `duplicate`, `skew`, `partition`, `read_only`, `disk_full`, `freeze`, `kill`.
        How often: `probability`, `seed`, `after`, `times`, `lifetime`, `from_`, `until`.
        Raises: UsageError, ClientError, BrokerAnswer, NetworkError.
        """
        return BlockingFault(self, self._add(words))

    _add = waiting(RunningFaults.add)
    all = waiting(RunningFaults.all)
    remove = waiting(RunningFaults.remove)
    clear = waiting(RunningFaults.clear)


class BlockingFault:
    """A rule that was added. Used as `with`, it is removed at the end of the block."""

    def __init__(self, faults: BlockingFaults, added: FaultView) -> None:
        self._faults = faults
        self.number = added.number
        self.words = added.words
        self.notes = added.notes
        """Warnings about the rule, for example that its topic doesn't exist yet."""

    @property
    def hits(self) -> dict[str, int]:
        """How often the rule was applied, by server. Empty when the rule is gone."""
        return next((view.hits for view in self._faults.all() if view.number == self.number), {})

    def remove(self) -> None:
        """Remove the rule, which ends its fault. No error if its lifetime ended before."""
        try:
            self._faults.remove(self.number)
        except UsageError:
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *outcome: object) -> None:
        failing_blocks.notify(outcome[1])
        self.remove()


class AwaitedFaults(ClusterFaultsFace):
    """The fault rules of one cluster, for asynchronous code."""

    def add(self, **words: object) -> "AwaitedFault":
        """Inject a fault as soon as the returned object is awaited or entered. Parameters: `BlockingFaults.add`."""
        return AwaitedFault(self, words)

    add_now = awaiting(RunningFaults.add)
    all = awaiting(RunningFaults.all)
    remove = awaiting(RunningFaults.remove)
    clear = awaiting(RunningFaults.clear)


class AwaitedFault:
    """A rule that is added when this is awaited. `async with` adds it, and removes it at the end of the block."""

    def __init__(self, faults: AwaitedFaults, rule: Mapping[str, object]) -> None:
        self._faults = faults
        self._rule = rule
        self.number = 0
        self.words = ""
        self.notes: list[str] = []

    async def hits(self) -> dict[str, int]:
        """Return how often the rule was applied, by server. Empty when the rule is gone."""
        return next((view.hits for view in await self._faults.all() if view.number == self.number), {})

    async def remove(self) -> None:
        """Remove the rule, which ends its fault. No error if its lifetime ended before."""
        try:
            await self._faults.remove(self.number)
        except UsageError:
            pass

    def __await__(self) -> Generator[Any, None, Self]:
        return self._added().__await__()

    async def _added(self) -> Self:
        added = await self._faults.add_now(self._rule)
        self.number, self.words, self.notes = added.number, added.words, added.notes
        return self

    async def __aenter__(self) -> Self:
        return await self._added()

    async def __aexit__(self, *outcome: object) -> None:
        await failing_blocks.notify_in_loop(outcome[1])
        await self.remove()
