"""The object that a test gets: the fixture `rocketmq`, or `rocketmq.aio` in asynchronous tests.

def test_refunds(rocketmq):
    orders = rocketmq.create_topic("orders")
    rocketmq.send(orders, b"1", b"2")
    subprocess.run(["npm", "test"], env=rocketmq.environment, check=True)
    rocketmq.wait_consumed(orders, group="billing")
    rocketmq.clock.advance(hours=2)
    assert rocketmq.dead_letters("billing") == []
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from staticfire.cluster.cluster_calls import Face, awaiting, waiting
from staticfire.protocol.errors import StaticfireError
from staticfire.runtime.loop_thread import LoopThread
from staticfire.testing.running_rocketmq import RunningRocketMQ
from staticfire.testing.waits import WAIT_S, comes_true, not_yet, pauses

if TYPE_CHECKING:
    from staticfire.client import ClientSettings
    from staticfire.cluster.async_cluster import AsyncClock, AsyncCluster
    from staticfire.cluster.cluster import Cluster
    from staticfire.cluster.cluster_clock import BlockingClock
    from staticfire.cluster.cluster_faults import AwaitedFaults, BlockingFaults
    from staticfire.cluster.remote_cluster import RemoteCluster

# Each wait has its own, shorter deadline, whose error has more details.
WAIT_S_MAX = 3_600


class RocketMQFacts(Face[RunningRocketMQ]):
    """Properties of a test's cluster that need no request."""

    def __init__(
        self,
        thread: LoopThread,
        running: RunningRocketMQ,
        stand: "Cluster | None",
        remote: "RemoteCluster | None" = None,
    ) -> None:
        """`stand`: the cluster, if staticfire started it here. `remote`: a cluster of staticfire elsewhere."""
        self._thread = thread
        self._running = running
        self._stand = stand
        self._remote = remote

    @property
    def namesrv(self) -> str:
        """The nameserver's address, as in NAMESRV_ADDR."""
        return self._running.namesrv

    @property
    def client_settings(self) -> "ClientSettings":
        """Settings for staticfire's own clients: on a real cluster they use RocketMQ's protocol."""
        return self._running.client_settings

    @property
    def environment(self) -> dict[str, str]:
        """The environment of this process for programs that a test starts: with the addresses of this cluster.

        NAMESRV_ADDR; with `grpc=True` ROCKETMQ_ENDPOINT; STATICFIRE_CONTROL once the test has used `cluster.control`.
        """
        if self._stand is None:
            # Other addresses in this environment may be those of that cluster.
            return {**os.environ, "NAMESRV_ADDR": self.namesrv}
        from staticfire.launch.environment import environment_of

        stand, running = self._stand, self._stand._thread_and_object()[1].cluster
        return environment_of(
            os.environ,
            self.namesrv,
            control=stand._control_url,
            grpc=running.plan.grpc_endpoint or "",
            tls=running.client_tls is not None,
        )

    @property
    def is_real(self) -> bool:
        """Whether this is a cluster of Apache RocketMQ (ROCKETMQ_TARGET), which has no clock and no fault injection."""
        return self._stand is None and self._remote is None

    def group_name(self, name: str) -> str:
        """Return the name for a consumer group of this test. On a real cluster it gets a suffix unique to the test."""
        return self._running.group_name(name)

    def _thread_and_object(self) -> tuple[LoopThread, RunningRocketMQ]:
        return self._thread, self._running

    def _own(self, what: str) -> "Cluster":
        """Return the cluster that staticfire started. Raises: SkipTest, on a real one."""
        if self._stand is None:
            from unittest import SkipTest  # here: it brings all of unittest

            where = "a cluster that this test run starts" if self._remote else "a cluster of staticfire"
            raise SkipTest(f"{what} needs {where}; {self.namesrv} is {'elsewhere' if self._remote else 'a real one'}")
        return self._stand


class RocketMQ(RocketMQFacts):
    """A cluster for one test. Methods block. Any thread may call them."""

    @property
    def aio(self) -> "AsyncRocketMQ":
        """The same cluster for asynchronous tests."""
        return AsyncRocketMQ(self._thread, self._running, self._stand, self._remote)

    @property
    def cluster(self) -> "Cluster":
        """The cluster: kill, freeze, restart, the control endpoint. Skips the test on a real cluster."""
        return self._own("rocketmq.cluster")

    @property
    def clock(self) -> "BlockingClock":
        """Message time: `rocketmq.clock.advance(hours=2)`. Skips the test on a real cluster."""
        if self._remote is not None:
            from staticfire.cluster.cluster_clock import BlockingClock

            return BlockingClock(self._remote)
        return self._own("rocketmq.clock").clock

    @property
    def faults(self) -> "BlockingFaults":
        """Fault injection: `rocketmq.faults.add(group="billing", drop="answer")`. Skips the test on a real cluster."""
        if self._remote is not None:
            from staticfire.cluster.cluster_faults import BlockingFaults

            return BlockingFaults(self._remote)
        return self._own("rocketmq.faults").faults

    create_topic = waiting(RunningRocketMQ.create_topic)
    send = waiting(RunningRocketMQ.send)
    messages = waiting(RunningRocketMQ.messages)
    wait_consumed = waiting(RunningRocketMQ.wait_consumed, WAIT_S_MAX)
    wait_dead = waiting(RunningRocketMQ.wait_dead, WAIT_S_MAX)
    dead_letters = waiting(RunningRocketMQ.dead_letters)
    group = waiting(RunningRocketMQ.group)
    journal = waiting(RunningRocketMQ.journal)
    requests = waiting(RunningRocketMQ.requests)
    explain = waiting(RunningRocketMQ.explain)

    def wait_for(self, condition: Callable[[], object], timeout_s: float = WAIT_S, what: str = "") -> None:
        """Wait until a function returns a true value. `what`: a description for the error.

        Raises: NotYet, with the last value and the state of all groups, and whatever the function raises.
        """
        if last := condition():
            return
        for pause in pauses(timeout_s, self._running.clock):
            self._thread.call(self._running.pause(pause))
            if last := condition():
                return
        raise not_yet(condition, what, timeout_s, last).with_more(self._explained())

    def _explained(self) -> str:
        try:
            return self.explain()
        except StaticfireError as error:
            return f"the consumer groups can't be described: {error}"

    def close(self) -> None:
        """Close everything that the test opened here."""
        self._thread.call(self._running.close())


class AsyncRocketMQ(RocketMQFacts):
    """A cluster for one test, for asynchronous code."""

    @property
    def cluster(self) -> "AsyncCluster":
        """The cluster: kill, freeze, restart, the control endpoint. Skips the test on a real cluster."""
        return self._own("rocketmq.cluster").aio

    @property
    def clock(self) -> "AsyncClock":
        """Message time: `await rocketmq.aio.clock.advance(hours=2)`. Skips the test on a real cluster."""
        if self._remote is not None:
            from staticfire.cluster.async_cluster import AsyncClock

            return AsyncClock(self._remote)
        return self._own("rocketmq.clock").aio.clock

    @property
    def faults(self) -> "AwaitedFaults":
        """Fault injection: `async with rocketmq.aio.faults.add(...)`. Skips the test on a real cluster."""
        if self._remote is not None:
            from staticfire.cluster.cluster_faults import AwaitedFaults

            return AwaitedFaults(self._remote)
        return self._own("rocketmq.faults").aio.faults

    create_topic = awaiting(RunningRocketMQ.create_topic)
    send = awaiting(RunningRocketMQ.send)
    messages = awaiting(RunningRocketMQ.messages)
    wait_consumed = awaiting(RunningRocketMQ.wait_consumed)
    wait_dead = awaiting(RunningRocketMQ.wait_dead)
    dead_letters = awaiting(RunningRocketMQ.dead_letters)
    group = awaiting(RunningRocketMQ.group)
    journal = awaiting(RunningRocketMQ.journal)
    requests = awaiting(RunningRocketMQ.requests)
    explain = awaiting(RunningRocketMQ.explain)

    async def wait_for(self, condition: Callable[[], object], timeout_s: float = WAIT_S, what: str = "") -> None:
        """Wait until a function or coroutine function returns a true value. Raises: as `RocketMQ.wait_for`."""

        last: object = None

        async def holds() -> bool:
            nonlocal last
            found = condition()
            last = await found if isinstance(found, Awaitable) else found
            return bool(last)

        async def pause(seconds: float) -> None:
            await asyncio.wrap_future(self._thread.submit(self._running.pause(seconds)))

        if not await comes_true(holds, timeout_s, self._running.clock, pause):
            raise not_yet(condition, what, timeout_s, last).with_more(await self._explained())

    async def _explained(self) -> str:
        try:
            return await self.explain()
        except StaticfireError as error:
            return f"the consumer groups can't be described: {error}"
