"""`RocketMQTestCase`: what pytest's fixture is, for unittest.

class OrdersTest(RocketMQTestCase):
    parameters = {"brokers": 2}                     # of Cluster; none needed

    def test_orders(self):
        self.rocketmq.create_topic("orders")
"""

import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from staticfire.testing.rocketmq import RocketMQ
    from staticfire.testing.target import RealTarget, StandTarget


class RocketMQTestCase(unittest.TestCase):
    """Tests of a class share a cluster; each of them finds it empty in `self.rocketmq`."""

    parameters: ClassVar[Mapping[str, Any]] = {}
    rocketmq: "RocketMQ"
    _target: "ClassVar[StandTarget | RealTarget]"

    @classmethod
    def setUpClass(cls) -> None:
        """Start the cluster. Raises: SkipTest (ROCKETMQ_TARGET names a real one, and it can't be as wanted)."""
        super().setUpClass()
        from staticfire.testing.target import target_of

        cls._target = target_of(cls.parameters)
        cls._target.start()
        cls.addClassCleanup(cls._target.stop)

    def setUp(self) -> None:
        """Empty the cluster."""
        super().setUp()
        self.rocketmq = self._target.begin_test()
        self.addCleanup(self.rocketmq.close)
