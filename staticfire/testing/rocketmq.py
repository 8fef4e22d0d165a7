"""What a test has in its hands: the fixture `rocketmq`, and `rocketmq.aio` in tests that await.

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
from staticfire.runtime.loop_thread import LoopThread
from staticfire.testing.running_rocketmq import RunningRocketMQ
from staticfire.testing.waits import WAIT_S, comes_true, not_yet, pauses

if TYPE_CHECKING:
    from staticfire.client import ClientSettings
    from staticfire.cluster.async_cluster import AsyncClock, AsyncCluster
    from staticfire.cluster.cluster import Cluster
    from staticfire.cluster.cluster_clock import BlockingClock

WAIT_S_MAX = 3_600
# What waits has a deadline of its own, which says more.


class RocketMQFacts(Face[RunningRocketMQ]):
    """What is known of a test's cluster at once."""

    def __init__(self, thread: LoopThread, running: RunningRocketMQ, stand: "Cluster | None") -> None:
        """`stand`: the cluster, unless it is a real one somewhere else."""
        self._thread = thread
        self._running = running
        self._stand = stand

    @property
    def namesrv(self) -> str:
        """The nameserver's address, what others call NAMESRV_ADDR."""
        return self._running.namesrv

    @property
    def client_settings(self) -> "ClientSettings":
        """What our own clients need here: they speak RocketMQ's protocol to a real one."""
        return self._running.client_settings

    @property
    def environment(self) -> dict[str, str]:
        """This process's environment and NAMESRV_ADDR, for programs that a test starts."""
        return {**os.environ, "NAMESRV_ADDR": self.namesrv}

    @property
    def is_real(self) -> bool:
        """Whether this is a cluster that somebody else runs (ROCKETMQ_TARGET)."""
        return self._stand is None

    def group_name(self, name: str) -> str:
        """Return the name that a consumer group of this test should have: on a real cluster one of its own."""
        return name + self._running.suffix

    def _behind(self) -> tuple[LoopThread, RunningRocketMQ]:
        return self._thread, self._running

    def _own(self, what: str) -> "Cluster":
        """Return our cluster. Raises: SkipTest, on a real one."""
        if self._stand is None:
            from unittest import SkipTest  # here: it brings all of unittest

            raise SkipTest(f"{what} needs a cluster of staticfire; {self.namesrv} is a real one")
        return self._stand


class RocketMQ(RocketMQFacts):
    """A cluster in the hands of one test. Methods block, and may be called from any thread."""

    @property
    def aio(self) -> "AsyncRocketMQ":
        """The same for a test that awaits."""
        return AsyncRocketMQ(self._thread, self._running, self._stand)

    @property
    def cluster(self) -> "Cluster":
        """The cluster: kill, freeze, restart, the control endpoint. Skips the test on a real one."""
        return self._own("rocketmq.cluster")

    @property
    def clock(self) -> "BlockingClock":
        """Message time: `rocketmq.clock.advance(hours=2)`. Skips the test on a real cluster."""
        return self._own("rocketmq.clock").clock

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
        """Wait until a function returns something true. `what`: for the error. Raises: NotYet, and what it raises."""
        if condition():
            return
        for pause in pauses(timeout_s, self._running.clock):
            self._thread.call(self._running.pause(pause))
            if condition():
                return
        raise not_yet(condition, what, timeout_s)

    def close(self) -> None:
        """End the test: whatever it opened here is closed."""
        self._thread.call(self._running.close())


class AsyncRocketMQ(RocketMQFacts):
    """The same, awaited."""

    @property
    def cluster(self) -> "AsyncCluster":
        """The cluster: kill, freeze, restart, the control endpoint. Skips the test on a real one."""
        return self._own("rocketmq.cluster").aio

    @property
    def clock(self) -> "AsyncClock":
        """Message time: `await rocketmq.aio.clock.advance(hours=2)`. Skips the test on a real cluster."""
        return self._own("rocketmq.clock").aio.clock

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
        """Wait until a function, also a coroutine function, returns something true. Raises: as `RocketMQ.wait_for`."""

        async def holds() -> bool:
            found = condition()
            return bool(await found if isinstance(found, Awaitable) else found)

        async def pause(seconds: float) -> None:
            await asyncio.wrap_future(self._thread.submit(self._running.pause(seconds)))

        if not await comes_true(holds, timeout_s, self._running.clock, pause):
            raise not_yet(condition, what, timeout_s)
