"""A cluster for tests and programs, in one line.

    with Cluster(brokers=2, settings={"autoCreateTopicEnable": "false"}) as cluster:
        cluster.create_topic("orders", queues=4)
        ... any RocketMQ client, connected to cluster.namesrv

    async with Cluster() as cluster:
        await cluster.create_topic("orders")
        await cluster.clock.advance(hours=2)

The cluster runs in its own thread with its own event loop, on free ports, with its data in a temporary folder. All of
it is removed at the end. So a test may block, and the test's own event loop, if there is one, isn't affected. With
`isolation="process"` the nameserver and the brokers are processes, which can be killed and frozen.
"""

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from os import PathLike
from typing import TYPE_CHECKING, Literal, Self

from staticfire.cluster.cluster_calls import waiting
from staticfire.cluster.cluster_facts import ClusterFacts, ProcessFacts
from staticfire.cluster.running_cluster import RunningCluster
from staticfire.launch.places import FAILOVERS, PARAMETERS, WantedCluster, check_failover
from staticfire.launch.plan import NAMESERVER
from staticfire.launch.processes import ProcessCluster, programs_of
from staticfire.protocol.errors import ClientError, UsageError
from staticfire.protocol.lazy_names import CollectionPaused
from staticfire.runtime.loop_thread import LoopThread
from staticfire.runtime.spawning import EarlyStart

if TYPE_CHECKING:
    from staticfire.cluster.async_cluster import AsyncCluster
    from staticfire.cluster.cluster_clock import BlockingClock
    from staticfire.cluster.cluster_dead_letters import BlockingDeadLetters
    from staticfire.cluster.cluster_faults import BlockingFaults
    from staticfire.cluster.cluster_users import BlockingUsers
    from staticfire.launch.embedded import EmbeddedCluster

Isolation = Literal["thread", "process"]
COPY_TIMEOUT_S = 3_600
NOT_RUNNING = "this cluster isn't running: use it inside `with cluster:`"


class Cluster(ClusterFacts):  # house: a few lines for each operation of a cluster
    """A nameserver and brokers. They run inside `with` (or `async with`). Any thread may call the methods."""

    def __init__(  # house: what people give a cluster are its parameters
        self,
        brokers: int = 1,
        settings: Mapping[str, object] | None = None,
        *,
        isolation: Isolation = "thread",
        directory: str | PathLike[str] | None = None,
        namesrv_port: int = 0,
        broker_port: int = 0,
        grpc: bool = False,
        control_hosts: Sequence[str] = (),
        nameservers: int = 1,
        compat: str | None = None,
        users: Mapping[str, str] | None = None,
        replicas: int = 0,
        failover: str = "manual",
    ) -> None:
        """Define a cluster; `with` starts it.

        `settings`: RocketMQ's names and their values; every process that has such a setting gets it.

        `isolation`: "thread" runs everything in a thread of this process. "process" starts one process for each
        nameserver and broker, which can be killed and frozen.

        `namesrv_port`, `broker_port`: 0 means any free port.

        `grpc`: also start an endpoint for RocketMQ 5 clients, at `grpc_endpoint`. It is off by default because it
        needs the extra staticfire[grpc] and adds 0.1 s to the start.

        `control_hosts`: host names under which the control endpoint accepts requests, in addition to the loopback
        names of this machine.

        `nameservers`: how many to start. Clients get all addresses; one running nameserver is enough for brokers and
        clients.

        `compat`: "rocketmq-5.3.3" turns off every difference from that version that can be turned off
        (docs/compatibility.md).

        `users`: names and secrets of users; the first may do everything, the others what `.users.allow` allows. With
        users, brokers check the signature of each request (docs/access.md).

        `replicas`: the number of slaves of each broker, which copy its log. They are `broker(name).replica(1)` and so
        on; docs/replication.md describes them.

        `failover`: "auto" lets a slave take over by itself when its master is gone.

        Raises: UsageError, ClientError.
        """
        if isolation not in ("thread", "process"):
            raise ClientError(f"isolation={isolation!r} is unknown; use 'thread' or 'process'")
        self.isolation = isolation
        ports = namesrv_port, broker_port
        wanted = WantedCluster.of_parameters(brokers, settings, directory, *ports, grpc, nameservers, replicas)
        if compat is not None:
            from staticfire.launch.compat import check_target

            check_target(compat)
        if users is not None:
            from staticfire.cluster.cluster_users import wanted_users

            wanted = wanted._replace(users=wanted_users(users))
        if failover not in FAILOVERS:
            raise UsageError(f"failover={failover!r} is unknown; use {' or '.join(map(repr, FAILOVERS))}")
        check_failover(failover, wanted.replicas, PARAMETERS)
        self._wanted = wanted._replace(compat=compat, failover=failover)
        self._control_hosts = (control_hosts,) if isinstance(control_hosts, str) else tuple(control_hosts)
        self._thread: LoopThread | None = None
        self._stack = AsyncExitStack()
        self._running: RunningCluster | None = None
        self._control_url = ""
        self.deaths: list[str] = []
        """One sentence for each process, or service of the thread, that ended unexpectedly."""

    # -- properties ----------------------------------------------------------------------------------------------

    @property
    def control(self) -> str:
        """The URL of the control endpoint. The first access starts it."""
        if not self._control_url:
            self._control_url = self._open_control(self._control_hosts)
        return self._control_url

    @property
    def clock(self) -> "BlockingClock":
        """Message time: `cluster.clock.advance(hours=2)`, `.freeze()`, `.run()`, `.scale(60)`, `.skip()`, `.now()`."""
        from staticfire.cluster.cluster_clock import BlockingClock

        return BlockingClock(self)

    def dlq(self, group: str) -> "BlockingDeadLetters":
        """The dead letters of a group: `.letters()`, `.count()`, `.find(id)`, `.resend()`, `.on_death(hook)`."""
        from staticfire.cluster.cluster_dead_letters import BlockingDeadLetters

        return BlockingDeadLetters(self, group)

    @property
    def faults(self) -> "BlockingFaults":
        """Fault injection: `.add(code="SEND_MESSAGE", answer="SYSTEM_BUSY")`, `.all()`, `.clear()`."""
        from staticfire.cluster.cluster_faults import BlockingFaults

        return BlockingFaults(self)

    @property
    def users(self) -> "BlockingUsers":
        """Users: `.add("shop", "s3cret")`, `.allow("shop", "Topic:orders", "Pub,Sub")`, `.deny(...)`, `.all()`."""
        from staticfire.cluster.cluster_users import BlockingUsers

        return BlockingUsers(self)

    @property
    def aio(self) -> "AsyncCluster":
        """The same cluster for asynchronous code: the object that `async with` returns."""
        from staticfire.cluster.async_cluster import AsyncCluster

        return AsyncCluster(self)

    @property
    def nameserver(self) -> "ClusterProcess":
        """The nameserver, for example to kill or freeze it. With several nameservers: the first."""
        return ClusterProcess(self, NAMESERVER)

    @property
    def nameservers(self) -> "list[ClusterProcess]":
        """All nameservers."""
        return [ClusterProcess(self, name) for name in self.nameserver_addresses]

    def broker(self, name: str) -> "ClusterProcess":
        """Return one broker. Raises: ClientError (unknown name)."""
        self.check_broker(name)
        return ClusterProcess(self, name)

    def check_broker(self, name: str) -> None:
        """Check that there is such a broker or slave. Raises: ClientError."""
        self._thread_and_object()[1].check_broker(name)

    # -- operations ----------------------------------------------------------------------------------------------

    create_topic = waiting(RunningCluster.create_topic)
    members = waiting(RunningCluster.members)
    dead_letters = waiting(RunningCluster.dead_letters)
    group = waiting(RunningCluster.group)
    explain = waiting(RunningCluster.explain)
    journal = waiting(RunningCluster.journal)
    requests = waiting(RunningCluster.requests)
    on_sent_back = waiting(RunningCluster.on_sent_back)
    reset = waiting(RunningCluster.reset)
    copy = waiting(RunningCluster.copy, COPY_TIMEOUT_S)
    snapshot = waiting(RunningCluster.snapshot)
    restore = waiting(RunningCluster.restore)
    snapshots = waiting(RunningCluster.snapshots)
    kill = waiting(RunningCluster.kill)
    restart = waiting(RunningCluster.restart)
    freeze = waiting(RunningCluster.freeze)
    thaw = waiting(RunningCluster.thaw)
    failover = waiting(RunningCluster.failover)
    replication = waiting(RunningCluster.replication)
    hold_copy = waiting(RunningCluster.hold_copy)
    release_copy = waiting(RunningCluster.release_copy)
    delay_copy = waiting(RunningCluster.delay_copy)
    _run_all = waiting(RunningCluster.run_all)
    _end_hooks = waiting(RunningCluster.end_hooks)
    _access_copy = waiting(RunningCluster.access_copy)
    _open_control = waiting(RunningCluster.open_control)

    # -- start and stop ------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        thread = self._make_thread()
        try:
            thread.call(self._start())
        except BaseException:
            try:
                if thread.error is None:
                    thread.call(self._stop_started())
            finally:
                thread.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        thread = self._thread
        assert thread is not None
        if thread.is_copy:
            return
        try:
            if thread.error is None:
                thread.call(self._stop())
        finally:
            thread.close()

    async def __aenter__(self) -> "AsyncCluster":
        thread = self._make_thread()
        try:
            await asyncio.wrap_future(thread.submit(self._start()))
        except BaseException:
            try:
                if thread.error is None:
                    await asyncio.wrap_future(thread.submit(self._stop_started()))
            finally:
                thread.close()
            raise
        return self.aio

    async def __aexit__(self, *_: object) -> None:
        thread = self._thread
        assert thread is not None
        try:
            if thread.error is None:
                await asyncio.wrap_future(thread.submit(self._stop()))
        finally:
            thread.close()

    def _thread_and_object(self) -> tuple[LoopThread, RunningCluster]:
        if self._running is None or self._thread is None:
            raise ClientError(NOT_RUNNING)
        return self._thread, self._running

    def _make_thread(self) -> LoopThread:
        if self._thread is not None:
            raise ClientError("a Cluster can be started only once; create a new one")
        self._thread = LoopThread("this cluster")
        return self._thread

    async def _start(self) -> None:
        """Start the cluster. If that fails, remove everything that was started."""
        try:
            running = RunningCluster(await self._start_servers(), self._stack)
            if self._wanted.failover == "auto":
                from staticfire.launch.failover_loop import failing_over  # here, since few clusters need it

                await self._stack.enter_async_context(failing_over(running.cluster))
        except BaseException:
            await self._stack.aclose()
            raise
        self._running = running

    async def _stop_started(self) -> None:
        """Stop the cluster whose start was interrupted. Processes start without a pause in which it could be cancelled.

        The caller is interrupted, but this runs only when that step of the start is over.
        """
        if self._running is not None:
            await self._stop()

    async def _stop(self) -> None:
        self._running = None
        await self._stack.aclose()

    async def _start_servers(self) -> "EmbeddedCluster | ProcessCluster":
        if self.isolation == "process":
            return self._start_processes()
        with CollectionPaused():
            from staticfire.launch.embedded import (
                EmbeddedCluster,  # here: it loads a whole broker, as processes do themselves
            )

        cluster = EmbeddedCluster(self._wanted)
        self._stack.push_async_callback(cluster.stop)
        await cluster.start(self.deaths.append)
        return cluster

    def _start_processes(self) -> ProcessCluster:
        early = EarlyStart(programs_of(self._wanted), subprocess.DEVNULL)
        try:
            cluster = ProcessCluster.prepare(self._wanted, stdout=subprocess.DEVNULL, early=early)
            self._stack.callback(cluster.stop)
            cluster.on_death(lambda child: self.deaths.append(child.how_it_ended() + child.last_words()))
            cluster.start()
        finally:
            early.close()
        loop = asyncio.get_running_loop()
        loop.add_reader(cluster.children, cluster.children.pump)
        self._stack.callback(loop.remove_reader, cluster.children)
        return cluster


class ClusterProcess(ProcessFacts[Cluster]):
    """The nameserver or one broker of a cluster."""

    def kill(self) -> None:
        """Kill the process with SIGKILL, like a power cut. Return when it has ended. Raises: ClientError."""
        self._cluster.kill(self.name)

    def restart(self) -> None:
        """Restart the process with the same port and folder: stop it if it runs, start it, return when it is ready.

        Raises: ClientError, UsageError, ChildFailed.
        """
        self._cluster.restart(self.name)

    def freeze(self) -> None:
        """Suspend the process (SIGSTOP) until `thaw`. Raises: ClientError."""
        self._cluster.freeze(self.name)

    def thaw(self) -> None:
        """Resume the suspended process. Raises: ClientError."""
        self._cluster.thaw(self.name)

    def replica(self, number: int) -> "ClusterProcess":
        """Return a slave of this broker: 1 is the first. It keeps this name after a failover. Raises: ClientError."""
        name = f"{self.name}-{number}"
        self._cluster.check_broker(name)
        return ClusterProcess(self._cluster, name)

    def hold(self) -> None:
        """Let this slave copy nothing more, until `release`. Raises: ClientError (it isn't a slave), NetworkError."""
        self._cluster.hold_copy(self.address)

    def release(self) -> None:
        """Let this slave copy again, without a lag. Raises: ClientError (it isn't a slave), NetworkError."""
        self._cluster.release_copy(self.address)

    def lag(self, lag_ms: int) -> None:
        """Let this slave store each message that much later than its master. Raises: ClientError, NetworkError."""
        self._cluster.delay_copy(self.address, lag_ms)
