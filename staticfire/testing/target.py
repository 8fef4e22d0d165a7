"""The cluster that tests share: one that is started here, or one elsewhere (ROCKETMQ_TARGET)."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from staticfire.cluster.cluster import Cluster
from staticfire.protocol.errors import ClientError, StaticfireError, UsageError
from staticfire.runtime.live import live_machine
from staticfire.runtime.log import logger
from staticfire.testing.rocketmq import RocketMQ
from staticfire.testing.running_rocketmq import RunningRocketMQ

if TYPE_CHECKING:
    from staticfire.testing.real_target import RealTarget

log = logger("testing")

TARGET = "ROCKETMQ_TARGET"


class StandTarget:
    """A cluster that staticfire starts. It is reset before each test that uses it."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        """`parameters`: those of `Cluster`. Raises: UsageError, ClientError."""
        self._parameters = parameters
        try:
            self._cluster = Cluster(**parameters)
        except TypeError as error:  # A marker has an unknown parameter.
            raise UsageError(f"a RocketMQ for tests takes the parameters of Cluster: {error}") from None
        self._is_fresh = True
        self._access: object = None
        """Users and policies at the start."""

    def start(self) -> None:
        self._cluster.__enter__()
        self._access = self._cluster._access_copy()

    def begin_test(self) -> RocketMQ:
        """Return the cluster for one test: empty, with running message time."""
        if not self._is_fresh:
            self._empty_or_replace()
        self._is_fresh = False
        cluster = self._cluster
        thread, running = cluster._thread_and_object()
        began_ms = live_machine().clock.uptime_ms()
        core = RunningRocketMQ(
            running.cluster.namesrv, running.client_settings, "", cluster.deaths, began_ms, cluster.addresses
        )
        return RocketMQ(thread, core, cluster)

    def stop(self) -> None:
        with suppress(ClientError):  # It couldn't be started again.
            self._cluster.__exit__(None, None, None)

    def _empty_or_replace(self) -> None:
        """Empty the cluster. If one test has broken it, start another: the next ones don't depend on that test."""
        cluster = self._cluster
        try:
            if cluster.isolation == "thread" and cluster.deaths:
                raise ClientError(cluster.deaths[0])  # Only processes can be restarted.
            cluster._end_hooks()
            cluster._run_all()
            cluster.reset()
            if cluster._access_copy() != self._access:
                # A reset keeps them, and after the first policy brokers check permissions even without one.
                raise ClientError("a test has changed users or policies")
            cluster.deaths.clear()
        except StaticfireError as error:
            log.warning("cluster_replaced", reason=str(error))
            self.stop()
            self._cluster = Cluster(**self._parameters)
            self.start()
            self._cluster.reset()  # Its folder may be that of the other.


def target_of(parameters: Mapping[str, Any], wanted: str | None = None) -> "StandTarget | RealTarget":
    """Return a cluster for tests with these parameters. `wanted`: HOST:PORT of a real one.

    Raises: UsageError; SkipTest when a real one is wanted and can't have these parameters.
    """
    real = wanted or os.environ.get(TARGET)
    if not real:
        return StandTarget(parameters)
    if parameters:
        from unittest import SkipTest  # here: it brings all of unittest

        raise SkipTest(f"it needs a cluster of its own with {', '.join(parameters)}; {TARGET} is {real}")
    from staticfire.testing.real_target import RealTarget  # here, since most test runs start their own

    return RealTarget(real)
