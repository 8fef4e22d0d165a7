"""`async with Cluster(...) as cluster`: a cluster for asynchronous code, whose own event loop keeps running meanwhile.

    async with Cluster() as cluster, PushConsumer(...):
        await cluster.clock.advance(hours=2)        # consumers in this event loop consume during this call

Also available as `cluster.aio` after a plain `with`, for asynchronous tests that share one fixture.
"""

from typing import TYPE_CHECKING

from staticfire.cluster.cluster_calls import Face, awaiting
from staticfire.cluster.cluster_clock import RunningClock
from staticfire.cluster.cluster_facts import ClusterFacts, ProcessFacts
from staticfire.cluster.remote_cluster import RemoteCluster
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.launch.plan import NAMESERVER
from staticfire.runtime.loop_thread import LoopThread

if TYPE_CHECKING:
    from staticfire.cluster.cluster import Cluster
    from staticfire.cluster.cluster_dead_letters import AwaitedDeadLetters
    from staticfire.cluster.cluster_faults import AwaitedFaults
    from staticfire.cluster.cluster_users import AwaitedUsers


class AsyncClock(Face[RunningClock]):
    """The message time of one cluster, for asynchronous code."""

    def __init__(self, cluster: Face[RunningCluster] | RemoteCluster) -> None:
        self._cluster = cluster

    now = awaiting(RunningClock.now)
    freeze = awaiting(RunningClock.freeze)
    run = awaiting(RunningClock.run)
    scale = awaiting(RunningClock.scale)
    skip = awaiting(RunningClock.skip)
    advance = awaiting(RunningClock.advance)

    def _thread_and_object(self) -> tuple[LoopThread, RunningClock]:
        thread, running = self._cluster._thread_and_object()
        return thread, RunningClock(running)


class AsyncCluster(ClusterFacts):
    """A running cluster, for asynchronous code. Properties return at once, methods are awaited."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster

    @property
    def deaths(self) -> list[str]:
        """One sentence for each process, or service of the thread, that ended unexpectedly."""
        return self._cluster.deaths

    @property
    def control(self) -> str:
        """The URL of the control endpoint. The first access starts it, which blocks for about a millisecond."""
        return self._cluster.control

    @property
    def clock(self) -> AsyncClock:
        """Message time: `await cluster.clock.advance(hours=2)`, `.freeze()`, `.run()`, `.scale(60)`, `.skip()` ..."""
        return AsyncClock(self)

    def dlq(self, group: str) -> "AwaitedDeadLetters":
        """The dead letters of a group: `.letters()`, `.count()`, `.find(id)`, `.resend()`, `.on_death(hook)`."""
        from staticfire.cluster.cluster_dead_letters import AwaitedDeadLetters

        return AwaitedDeadLetters(self, group)

    @property
    def faults(self) -> "AwaitedFaults":
        """Fault injection: `async with cluster.faults.add(...)`, `await cluster.faults.all()`."""
        from staticfire.cluster.cluster_faults import AwaitedFaults

        return AwaitedFaults(self)

    @property
    def users(self) -> "AwaitedUsers":
        """Users: `await cluster.users.add("shop", "s3cret")`, `.allow("shop", "Topic:orders", "Pub,Sub")`, `.all()`."""
        from staticfire.cluster.cluster_users import AwaitedUsers

        return AwaitedUsers(self)

    @property
    def nameserver(self) -> "AsyncClusterProcess":
        """The nameserver, for example to kill or freeze it. With several nameservers: the first."""
        return AsyncClusterProcess(self, NAMESERVER)

    @property
    def nameservers(self) -> "list[AsyncClusterProcess]":
        """All nameservers."""
        return [AsyncClusterProcess(self, name) for name in self.nameserver_addresses]

    def broker(self, name: str) -> "AsyncClusterProcess":
        """Return one broker. Raises: ClientError (unknown name)."""
        self._thread_and_object()[1].check_broker(name)
        return AsyncClusterProcess(self, name)

    create_topic = awaiting(RunningCluster.create_topic)
    members = awaiting(RunningCluster.members)
    dead_letters = awaiting(RunningCluster.dead_letters)
    group = awaiting(RunningCluster.group)
    explain = awaiting(RunningCluster.explain)
    journal = awaiting(RunningCluster.journal)
    requests = awaiting(RunningCluster.requests)
    on_sent_back = awaiting(RunningCluster.on_sent_back)
    reset = awaiting(RunningCluster.reset)
    copy = awaiting(RunningCluster.copy)
    snapshot = awaiting(RunningCluster.snapshot)
    restore = awaiting(RunningCluster.restore)
    snapshots = awaiting(RunningCluster.snapshots)
    kill = awaiting(RunningCluster.kill)
    restart = awaiting(RunningCluster.restart)
    freeze = awaiting(RunningCluster.freeze)
    thaw = awaiting(RunningCluster.thaw)
    failover = awaiting(RunningCluster.failover)
    replication = awaiting(RunningCluster.replication)
    hold_copy = awaiting(RunningCluster.hold_copy)
    release_copy = awaiting(RunningCluster.release_copy)
    delay_copy = awaiting(RunningCluster.delay_copy)

    def _thread_and_object(self) -> tuple[LoopThread, RunningCluster]:
        return self._cluster._thread_and_object()


class AsyncClusterProcess(ProcessFacts[AsyncCluster]):
    """The nameserver or one broker of a cluster."""

    async def kill(self) -> None:
        """Kill the process with SIGKILL, like a power cut. Return when it has ended. Raises: ClientError."""
        await self._cluster.kill(self.name)

    async def restart(self) -> None:
        """Restart the process with the same port and folder. Return when it is ready. Raises: as `Cluster.restart`."""
        await self._cluster.restart(self.name)

    async def freeze(self) -> None:
        """Suspend the process (SIGSTOP) until `thaw`. Raises: ClientError."""
        await self._cluster.freeze(self.name)

    async def thaw(self) -> None:
        """Resume the suspended process. Raises: ClientError."""
        await self._cluster.thaw(self.name)

    def replica(self, number: int) -> "AsyncClusterProcess":
        """Return a slave of this broker: 1 is the first. It keeps this name after a failover. Raises: ClientError."""
        return self._cluster.broker(f"{self.name}-{number}")

    async def hold(self) -> None:
        """Let this slave copy nothing more, until `release`. Raises: ClientError (it isn't a slave), NetworkError."""
        await self._cluster.hold_copy(self.address)

    async def release(self) -> None:
        """Let this slave copy again, without a lag. Raises: ClientError (it isn't a slave), NetworkError."""
        await self._cluster.release_copy(self.address)

    async def lag(self, lag_ms: int) -> None:
        """Let this slave store each message that much later than its master. Raises: ClientError, NetworkError."""
        await self._cluster.delay_copy(self.address, lag_ms)
