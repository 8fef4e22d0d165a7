"""What a lite pull consumer answers to administrators. RocketMQ: DefaultLitePullConsumerImpl.consumerRunningInfo.

Behaviour
- What it is doing: answered. Where it stands in a topic: an empty table, and a message that it should consume now:
  refused, as RocketMQ's says. An order to go on elsewhere is ignored: its broker tells it when it pulls.
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
        """`describe`: what heartbeats say of it."""
        self._client = client
        self._describe = describe
        self._pulling = pulling
        self._began_ms = client.machine.clock.wall_ms()

    def running_info(self, with_stacks: bool) -> ConsumerRunningInfo:
        """Return what it is doing."""
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
        """Return nothing, as RocketMQ's."""
        return {}

    async def consume_directly(self, message: ReceivedMessage) -> ConsumedDirectly:
        """Refuse: there is no listener. Raises: BrokerAnswer."""
        raise not_here(self._pulling.state.group)

    async def go_on_at(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Do nothing: the broker says so in its answer to the next pull."""
