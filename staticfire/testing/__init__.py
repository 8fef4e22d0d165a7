"""Integration tests with a cluster: a pytest plugin that needs no configuration, and a mixin for unittest.

    def test_orders_are_billed(rocketmq):
        rocketmq.create_topic("orders")
        ...                                       # any RocketMQ client, connected to rocketmq.namesrv
        rocketmq.wait_consumed("orders", group="billing")

- `plugin.py`: the fixture `rocketmq`, its marker and its options; `cases.py`: `RocketMQTestCase` for unittest
- `rocketmq.py`: the object that a test gets, blocking and awaited; `running_rocketmq.py`: its operations
- `target.py`: the cluster that tests share: one that is started here, or one elsewhere: `real_target.py`
- `waits.py`: polling a condition; `progress.py`: what a group has left
- `sent.py`: which messages of a test must be in their queues before it reads them
- `weather.py`: a test that is repeated under the faults of seeds
- `failures.py`: what pytest shows of a failed test; `report.py`: the description of its cluster
"""

from staticfire.protocol.lazy_names import lazy_names

# Type checkers treat this as true. pytest loads this module in every run, so it doesn't import `typing`.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from staticfire.testing.cases import RocketMQTestCase
    from staticfire.testing.rocketmq import AsyncRocketMQ, RocketMQ

__all__ = ["AsyncRocketMQ", "RocketMQ", "RocketMQTestCase"]

_HOMES = {
    "AsyncRocketMQ": "staticfire.testing.rocketmq",
    "RocketMQ": "staticfire.testing.rocketmq",
    "RocketMQTestCase": "staticfire.testing.cases",
}

__getattr__, __dir__ = lazy_names(__name__, __all__, _HOMES)
