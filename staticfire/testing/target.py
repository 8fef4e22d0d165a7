"""The cluster that tests share: one that is started here, or a real one elsewhere (ROCKETMQ_TARGET).

On a real cluster each test adds a suffix to its topics and groups, since others use it, too. There is no reset, and
tests can't control its clock or its processes: those that need to are skipped, with the reason.
"""

import os
from collections.abc import Mapping
from typing import Any

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.errors import UsageError
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.live import live_machine
from staticfire.runtime.loop_thread import LoopThread
from staticfire.testing.rocketmq import RocketMQ
from staticfire.testing.running_rocketmq import RunningRocketMQ

TARGET = "ROCKETMQ_TARGET"


class StandTarget:
    """A cluster that staticfire starts. It is reset before each test that uses it."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """`parameters`: those of `Cluster`. Raises: UsageError, ClientError."""
        try:
            self._cluster = Cluster(**parameters)
        except TypeError as error:  # A marker has an unknown parameter.
            raise UsageError(f"a RocketMQ for tests takes the parameters of Cluster: {error}") from None
        self._is_fresh = True

    def start(self) -> None:
        self._cluster.__enter__()

    def begin_test(self) -> RocketMQ:
        """Return the cluster for one test: empty, with running message time."""
        if not self._is_fresh:
            self._mend()
            self._cluster.reset()
        self._is_fresh = False
        thread, running = self._cluster._behind()
        core = RunningRocketMQ(running.cluster.namesrv, "staticfire", "", self._cluster.deaths)
        return RocketMQ(thread, core, self._cluster)

    def _mend(self) -> None:
        """Resume or restart the processes that the last test suspended or killed."""
        if self._cluster.isolation == "thread":
            return
        for name in (*self._cluster.nameserver_addresses, *self._cluster.addresses):
            if name in self._cluster.pids:
                self._cluster.thaw(name)
            else:
                self._cluster.restart(name)

    def stop(self) -> None:
        self._cluster.__exit__(None, None, None)


class RealTarget:
    """A cluster of Apache RocketMQ, or one of staticfire that runs elsewhere."""

    def __init__(self, namesrv: str) -> None:
        """Check the addresses. Raises: UsageError."""
        for address in namesrv.split(";"):
            parse_address(address)
        self._namesrv = namesrv
        self._thread: LoopThread | None = None

    def start(self) -> None:
        self._thread = LoopThread(f"the RocketMQ at {self._namesrv}")

    def begin_test(self) -> RocketMQ:
        assert self._thread is not None
        ending = f"-{live_machine().identity.random.getrandbits(32):08x}"
        return RocketMQ(self._thread, RunningRocketMQ(self._namesrv, "rocketmq", ending, ()), None)

    def stop(self) -> None:
        assert self._thread is not None
        self._thread.close()


def target_of(parameters: Mapping[str, Any], wanted: str | None = None) -> StandTarget | RealTarget:
    """Return a cluster for tests with these parameters. `wanted`: HOST:PORT of a real one.

    Raises: UsageError; SkipTest when a real one is wanted and can't have these parameters.
    """
    real = wanted or os.environ.get(TARGET)
    if not real:
        return StandTarget(parameters)
    if parameters:
        from unittest import SkipTest  # here: it brings all of unittest

        raise SkipTest(f"it wants a cluster with {', '.join(parameters)}, and {TARGET} is {real}")
    return RealTarget(real)
