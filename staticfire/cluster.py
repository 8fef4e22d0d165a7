"""A cluster for tests and programs, in one line.

    with Cluster(brokers=2, settings={"autoCreateTopicEnable": "false"}) as cluster:
        cluster.create_topic("orders", queues=4)
        ... any RocketMQ client, on cluster.namesrv

The cluster lives in a thread of its own with a loop of its own, on free ports and in a temporary folder; all of it is
gone afterwards. So a test may block, and its own event loop, if it has one, is left alone. With
`isolation="process"` the nameserver and the brokers are processes, which can be killed.
"""

import asyncio
import subprocess
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from staticfire.control.port import ControlPort
from staticfire.places import PORTS_WAY_OUT, url_of
from staticfire.plan import HOST
from staticfire.processes import ProcessCluster
from staticfire.protocol.errors import ClientError
from staticfire.runtime.ports import listen_on, port_of

if TYPE_CHECKING:
    from staticfire.client.admin.clock import ClockReport
    from staticfire.cluster_clock import BlockingClock, Move
    from staticfire.embedded import EmbeddedCluster
    from staticfire.runtime.pool import ConnectionPool

T = TypeVar("T")
Isolation = Literal["thread", "process"]

CALL_TIMEOUT_S = 60
# For what is asked of the cluster's thread: a test that hangs should say where.


class Cluster:
    """A nameserver and brokers, from `with` (or `async with`) to its end. All methods may be called from any thread."""

    def __init__(
        self,
        brokers: int = 1,
        settings: Mapping[str, object] | None = None,
        *,
        isolation: Isolation = "thread",
        directory: str | None = None,
        namesrv_port: int = 0,
        broker_port: int = 0,
    ) -> None:
        """`settings`: under RocketMQ's names, for every process that knows them. Port 0: any free one."""
        if isolation not in ("thread", "process"):
            raise ClientError(f"isolation={isolation!r} is unknown; there are 'thread' and 'process'")
        self.isolation = isolation
        self._brokers = brokers
        self._settings = {key: _as_text(value) for key, value in (settings or {}).items()}
        self._places = (namesrv_port, broker_port, directory)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._running: EmbeddedCluster | ProcessCluster | None = None
        self._control_url = ""
        self._ending = False
        self.deaths: list[str] = []
        """Processes, or services of the thread, that ended unasked: in words."""

    # -- what there is -------------------------------------------------------------------------------------------

    @property
    def namesrv(self) -> str:
        """The nameserver's address, what others call NAMESRV_ADDR."""
        return self._cluster.namesrv

    @property
    def addresses(self) -> dict[str, str]:
        """Where each broker is, by its name."""
        return self._cluster.addresses

    @property
    def directory(self) -> str:
        """Where the data is."""
        return self._cluster.folder.path

    @property
    def control(self) -> str:
        """The URL of the control endpoint, which starts when this is first asked for."""
        if not self._control_url:
            self._control_url = self._call(self._open_control())
        return self._control_url

    @property
    def clock(self) -> "BlockingClock":
        """Message time: `cluster.clock.advance(hours=2)`, `.freeze()`, `.run()`, `.scale(60)`, `.skip()`, `.now()`."""
        from staticfire.client.admin.clock import ClusterClock
        from staticfire.cluster_clock import TIMEOUT_S, BlockingClock

        async def make(move: "Move") -> "ClockReport":
            async with self._pool() as pool:
                return await move(ClusterClock(pool, self.namesrv))

        return BlockingClock(lambda move: self._call(make(move), TIMEOUT_S))

    def broker(self, name: str) -> "BrokerHandle":
        """Return one broker. Raises: ClientError."""
        if name not in self.addresses:
            raise ClientError(f"this cluster has no {name}; it has {', '.join(self.addresses)}")
        return BrokerHandle(self, name)

    # -- what can be done ----------------------------------------------------------------------------------------

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """Create a topic on every broker; its route is known when this returns. Raises: BrokerAnswer, NetworkError."""
        from staticfire.client import Admin

        async def create() -> None:
            async with Admin(self.namesrv) as admin:
                await admin.create_topic(topic, queues)

        self._call(create())

    def reset(self) -> dict[str, Any]:
        """Forget all messages, topics, groups and offsets; return which. Raises: BrokerAnswer, NetworkError."""
        return self._call(self._reset())

    # -- from start to end ---------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        started = self._begin()
        try:
            started.result()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._leave()
        self._ended.result()

    async def __aenter__(self) -> Self:
        await asyncio.wrap_future(self._begin())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._finish()
        await asyncio.wrap_future(self._ended)
        self._leave()

    @property
    def _cluster(self) -> "EmbeddedCluster | ProcessCluster":
        if self._running is None:
            raise ClientError("this cluster isn't running: use it inside `with cluster:`")
        return self._running

    def _begin(self) -> "Future[None]":
        """Start the thread; the future is done when clients can use the cluster."""
        if self._thread is not None:
            raise ClientError("a Cluster is used once: make another one")
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._thread = threading.Thread(target=self._run_thread, name="staticfire-cluster", daemon=True)
        self._thread.start()
        return self._started

    def _run_thread(self) -> None:
        try:
            asyncio.run(self._live())
            self._ended.set_result(None)
        except BaseException as error:  # noqa: BLE001 (whatever it is, the thread that waits has to hear of it)
            waiting = self._ended if self._started.done() else self._started
            waiting.set_exception(error)

    async def _live(self) -> None:
        """Bring the cluster up, wait for its end, take it down."""
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        if self._ending:
            self._end.set()
        async with AsyncExitStack() as stack:
            self._running = await self._start(stack)
            self._stack = stack
            self._started.set_result(None)
            await self._end.wait()
            self._running = None

    async def _start(self, stack: AsyncExitStack) -> "EmbeddedCluster | ProcessCluster":
        namesrv_port, broker_port, directory = self._places
        if self.isolation == "process":
            return self._start_processes(stack, namesrv_port, broker_port, directory)
        from staticfire.embedded import EmbeddedCluster  # here: it loads all of a broker, which processes do themselves

        cluster = EmbeddedCluster(self._brokers, namesrv_port, broker_port, directory, self._settings)
        stack.push_async_callback(cluster.stop)
        await cluster.start(self.deaths.append)
        return cluster

    def _start_processes(
        self, stack: AsyncExitStack, namesrv_port: int, broker_port: int, directory: str | None
    ) -> ProcessCluster:
        cluster = ProcessCluster.prepare(
            self._brokers, namesrv_port, broker_port, directory, self._settings, stdout=subprocess.DEVNULL
        )
        stack.callback(cluster.stop)
        cluster.on_death(lambda child: self.deaths.append(child.how_it_ended() + child.last_words()))
        cluster.start()
        loop = asyncio.get_running_loop()
        loop.add_reader(cluster.children, cluster.children.pump)
        stack.callback(loop.remove_reader, cluster.children)
        return cluster

    def _finish(self) -> None:
        """Let the thread end, now or as soon as it has started everything."""
        self._ending = True
        if self._loop is not None and self._end is not None:
            with suppress(RuntimeError):  # The loop is closed: the start has failed, and the thread is ending.
                self._loop.call_soon_threadsafe(self._end.set)

    def _leave(self) -> None:
        """End the thread and wait for it."""
        self._finish()
        assert self._thread is not None
        self._thread.join()

    # -- calls into the thread -----------------------------------------------------------------------------------

    def _call(self, coroutine: Coroutine[Any, Any, T], timeout_s: float = CALL_TIMEOUT_S) -> T:
        """Run a coroutine on the cluster's loop and wait for its result."""
        try:
            if self._running is None or self._loop is None:
                raise ClientError("this cluster isn't running: use it inside `with cluster:`")
            if self._thread is threading.current_thread():
                raise ClientError("a cluster's own thread can't wait for itself")
        except ClientError:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(timeout_s)

    async def _open_control(self) -> str:
        sock = listen_on(HOST, 0, PORTS_WAY_OUT)
        await self._stack.enter_async_context(ControlPort(self._cluster, sock))
        return url_of(port_of(sock))

    async def _reset(self) -> dict[str, Any]:
        from staticfire.control.reset import reset

        async with self._pool() as pool:
            return await reset(pool, self.namesrv, self.addresses.values())

    @asynccontextmanager
    async def _pool(self) -> "AsyncIterator[ConnectionPool]":
        """Connections of this call alone."""
        from staticfire.runtime.live import live_machine
        from staticfire.runtime.pool import ConnectionPool

        machine = live_machine()
        pool = ConnectionPool(machine)
        try:
            yield pool
        finally:
            await pool.close()
            await machine.workers.close()

    async def _processes(self, do: Callable[[ProcessCluster], None]) -> None:
        """Do something to processes. Raises: ClientError when this cluster has none."""
        cluster = self._cluster
        if not isinstance(cluster, ProcessCluster):
            raise ClientError("brokers in a thread can't be killed; Cluster(isolation='process') has real processes")
        do(cluster)


class BrokerHandle:
    """One broker of a cluster."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.name = name

    @property
    def address(self) -> str:
        return self._cluster.addresses[self.name]

    def kill(self) -> None:
        """Kill its process with SIGKILL, as a power cut would; return when it is gone. Raises: ClientError."""
        self._cluster._call(self._cluster._processes(lambda processes: processes.kill(self.name)))

    def restart(self) -> None:
        """Start its process anew on its port and folder, stopping it first where it runs; return when it is ready.

        Raises: ClientError, UsageError, ChildFailed.
        """
        self._cluster._call(self._cluster._processes(lambda processes: processes.restart(self.name)))


def _as_text(value: object) -> str:
    """Return a setting as it is written: Python's True is RocketMQ's true."""
    return str(value).lower() if isinstance(value, bool) else str(value)
