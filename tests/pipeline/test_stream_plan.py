"""What a stream plans while brokers come and go. No Spark."""

import pytest

from staticfire import Cluster
from staticfire.client import MessageQueue
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.link import link_to
from staticfire.pipeline.options import parse_options
from staticfire.pipeline.stream_plan import StreamPlan
from tests.pipeline.stand import send_to

FIRST = MessageQueue("orders", "broker-a", 0)


def test_a_topic_whose_only_broker_starts_again_is_waited_for() -> None:
    with Cluster(isolation="process") as cluster:
        cluster.create_topic("orders", queues=1)
        send_to(cluster.namesrv, FIRST, [b"1"])
        given = {"nameServer": cluster.namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
        options = parse_options(given | {"reconnectTimeoutMs": "300"}, {})
        plan = StreamPlan(options, link_to(options))
        start = plan.initial()
        end = plan.latest(start, None)
        cluster.broker("broker-a").kill()
        with pytest.raises(SourceUnreachable, match=r"tried for 300 ms \(reconnectTimeoutMs\)"):
            plan.latest(end, None)
        cluster.broker("broker-a").restart()
        send_to(cluster.namesrv, FIRST, [b"2"])
        assert plan.latest(end, None) == {"orders": {"broker-a": {"0": 2}}}
