"""`RocketMQTestCase`: for unittest what the fixture `rocketmq` is for pytest.

class OrdersTest(RocketMQTestCase):
    parameters = {"brokers": 2}                     # parameters of Cluster; optional

    def test_orders(self):
        self.rocketmq.create_topic("orders")
"""

import unittest
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from staticfire.testing.real_target import RealTarget
    from staticfire.testing.rocketmq import RocketMQ
    from staticfire.testing.target import StandTarget


class RocketMQTestCase(unittest.TestCase):
    """The tests of a class share a cluster. It is empty at the start of each test, as `self.rocketmq`."""

    parameters: ClassVar[Mapping[str, Any]] = {}
    rocketmq: "RocketMQ"
    _target: "ClassVar[StandTarget | RealTarget]"

    @classmethod
    def setUpClass(cls) -> None:
        """Start the cluster. Raises: SkipTest (ROCKETMQ_TARGET names a real one, which can't have `parameters`)."""
        super().setUpClass()
        from staticfire.testing.target import target_of

        cls._target = target_of(cls.parameters)
        cls._target.start()
        cls.addClassCleanup(cls._target.stop)

    def setUp(self) -> None:
        """Empty the cluster for the next test."""
        super().setUp()
        self.rocketmq = self._target.begin_test()
        self.addCleanup(self.rocketmq.close)
