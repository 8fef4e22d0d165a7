"""Integration tests against a cluster of their own: a pytest plugin without any configuration, and a unittest mixin.

    def test_orders_are_billed(rocketmq):
        rocketmq.create_topic("orders")
        ...                                       # any RocketMQ client, on rocketmq.namesrv
        rocketmq.wait_consumed("orders", group="billing")

- `plugin.py`: the fixture `rocketmq`, its marker and its options; `cases.py`: `RocketMQTestCase` for unittest
- `rocketmq.py`: what tests have in their hands, blocking and awaited; `running_rocketmq.py`: what both can do
- `target.py`: the cluster that tests share, started here or a real one somewhere else
- `waits.py`: until when; `progress.py`: how far a group has come; `report.py`: what a failed test should show
"""

from staticfire.protocol.lazy_names import lazy_names

TYPE_CHECKING = False  # To type checkers it is true. pytest loads this in each of its runs, wanted or not.

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
