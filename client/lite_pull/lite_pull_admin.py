"""A lite pull consumer's responses to administrators. RocketMQ: DefaultLitePullConsumerImpl.consumerRunningInfo.

Behaviour
- Running info gets a response, positions an empty table. Direct consumption of a message is refused, as in RocketMQ's
  client. A notification to continue at other offsets is ignored: the broker's next pull response contains it.
"""

from collections.abc import Callable, Mapping

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.admin_requests import not_here
from staticfire.client.consume.membership.running_info import properties_of, queue_table
from staticfire.client.consume.membership.stacks import stacks
from staticfire.client.lite_pull.pulling import LitePulling
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.connections import LAST_POLL, ConsumedDirectly, ConsumerRunningInfo


class LitePullAdmin:
    """One consumer, as administrators see it."""

    def __init__(self, client: ClusterClient, describe: Callable[[], ConsumerData], pulling: LitePulling) -> None:
        """`describe`: returns the content of heartbeats."""
        self._client = client
        self._describe = describe
        self._pulling = pulling
        self._began_ms = client.machine.clock.wall_ms()

    def running_info(self, with_stacks: bool) -> ConsumerRunningInfo:
        """Return its running info."""
        data, pulling = self._describe(), self._pulling
        settings, clock = pulling.state.settings, self._client.machine.clock
        idle_ms = 0 if pulling.is_polling else clock.uptime_ms() - pulling.last_poll_ms
        properties = properties_of(self._client, data, self._began_ms) | {
            LAST_POLL: str(clock.wall_ms() - idle_ms),
            "pullBatchSize": str(settings.pull_batch_size),
            "pullThresholdForQueue": str(settings.pull_threshold_for_queue),
        }
        return ConsumerRunningInfo(
            properties=properties,
            subscription_set=data.subscription_data_set,
            mq_table=queue_table(pulling.held, pulling.offsets, clock),
            status_table={topic: pulling.state.statistics.consumption(topic) for topic in pulling.state.wanted},
            jstack=stacks() if with_stacks else None,
        )

    def positions(self, topic: str) -> dict[MessageQueue, int]:
        """Return nothing, as RocketMQ's client."""
        return {}

    async def consume_directly(self, message: ReceivedMessage) -> ConsumedDirectly:
        """Refuse: there is no listener. Raises: BrokerAnswer."""
        raise not_here(self._pulling.state.group)

    async def go_on_at(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Do nothing: the broker's next pull response contains the new offset."""
