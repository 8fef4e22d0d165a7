"""A cluster elsewhere that tests use: ROCKETMQ_TARGET.

Each test adds a suffix to its topics and groups, since others use it, too, and they are deleted
at its end. There is no reset, and tests can't control its processes. If it is a cluster of staticfire, they can control
its clock and inject faults; if it is one of Apache RocketMQ, tests that need to are skipped, with the reason.
"""

from staticfire.client import ClientSettings, ClusterClient
from staticfire.cluster.cluster_clock import BlockingClock
from staticfire.cluster.cluster_faults import BlockingFaults
from staticfire.cluster.remote_cluster import RemoteCluster
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.requests.clock import READ, REAL, Clock
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.live import live_machine
from staticfire.runtime.loop_thread import LoopThread
from staticfire.testing.rocketmq import RocketMQ
from staticfire.testing.running_rocketmq import RunningRocketMQ

PROBE_MS = 3_000


class RealTarget:
    """A cluster that runs elsewhere: one of Apache RocketMQ, or one of staticfire, which has a clock and faults."""

    def __init__(self, namesrv: str) -> None:
        """Check the addresses. Raises: UsageError."""
        for address in namesrv.split(";"):
            parse_address(address)
        self._namesrv = namesrv
        self._thread: LoopThread | None = None
        self._remote: RemoteCluster | None = None

    def start(self) -> None:
        """Connect, and find out which of the two it is. Raises: NetworkError (it doesn't respond)."""
        thread = LoopThread(f"the RocketMQ at {self._namesrv}")
        try:
            is_ours = thread.call(has_clock(self._namesrv))
        except NetworkError as error:
            thread.close()
            raise NetworkError(
                f"the cluster that tests must use (ROCKETMQ_TARGET or --rocketmq-target): {error}; without them, tests "
                "start their own"
            ) from None
        except BaseException:
            thread.close()
            raise
        self._thread = thread
        if is_ours:
            self._remote = RemoteCluster(thread, self._namesrv)

    def begin_test(self) -> RocketMQ:
        """Return the cluster for one test. A cluster of staticfire has no fault rules then, and its time runs."""
        assert self._thread is not None
        if self._remote is not None:
            BlockingFaults(self._remote).clear()
            self._let_time_run()
        ending = f"-{live_machine().identity.random.getrandbits(32):08x}"
        settings = ClientSettings(protocol="rocketmq" if self._remote is None else "staticfire", tls=False)
        core = RunningRocketMQ(self._namesrv, settings, ending, ())
        return RocketMQ(self._thread, core, None, self._remote)

    def stop(self) -> None:
        assert self._thread is not None
        if self._remote is not None:
            BlockingFaults(self._remote).clear()
            self._let_time_run()
        self._thread.close()

    def _let_time_run(self) -> None:
        assert self._remote is not None
        clock = BlockingClock(self._remote)
        if clock.now().mode != REAL:
            clock.run()


async def has_clock(namesrv: str) -> bool:
    """Return whether a nameserver has a clock for message time, which only staticfire's have. Raises: NetworkError."""
    async with ClusterClient(namesrv, ClientSettings(protocol="rocketmq")) as client:
        answer = await client.nameservers.ask(Clock(READ), PROBE_MS)
    return answer.code == SUCCESS
