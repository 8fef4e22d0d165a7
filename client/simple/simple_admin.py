"""A simple consumer's responses to administrators.

Behaviour
- Running info gets a response: the consumer may receive from all brokers of its topics; it contains the time of its
  last request. Only the brokers know how much it has, and its positions. Direct consumption of a message is refused. A
  notification to continue at other offsets is ignored, because brokers do that.
"""

from collections.abc import Callable, Mapping

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.admin_requests import not_here
from staticfire.client.consume.membership.running_info import properties_of
from staticfire.client.consume.membership.stacks import stacks
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.permissions import readable
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.connections import ConsumedDirectly, ConsumerRunningInfo, PopQueueInfo
from staticfire.protocol.requests.locks import MessageQueue as WireQueue
from staticfire.protocol.requests.pop import ALL_QUEUES
from staticfire.protocol.times import UptimeMs


class SimpleAdmin:
    """One consumer, as administrators see it."""

    def __init__(
        self, client: ClusterClient, describe: Callable[[], ConsumerData], popped_ms: Mapping[str, UptimeMs]
    ) -> None:
        """`describe`: returns the content of heartbeats. `popped_ms`: the time of the last request for each topic."""
        self._client = client
        self._describe = describe
        self._popped_ms = popped_ms
        self._began_ms = client.machine.clock.wall_ms()

    def running_info(self, with_stacks: bool) -> ConsumerRunningInfo:
        """Return its running info."""
        data = self._describe()
        return ConsumerRunningInfo(
            properties=properties_of(self._client, data, self._began_ms),
            subscription_set=data.subscription_data_set,
            mq_pop_table={queue: self._queue_info(queue.topic) for queue in self._queues(data)},
            jstack=stacks() if with_stacks else None,
        )

    def _queue_info(self, topic: str) -> PopQueueInfo:
        clock, popped_ms = self._client.machine.clock, self._popped_ms.get(topic)
        wall_before_ms = clock.wall_ms() - clock.uptime_ms()
        return PopQueueInfo(last_pop_timestamp=0 if popped_ms is None else wall_before_ms + popped_ms)

    def _queues(self, data: ConsumerData) -> list[WireQueue]:
        routes = {one.topic: self._client.routes.known(one.topic) for one in data.subscription_data_set}
        return [
            WireQueue(topic, queues.broker_name, ALL_QUEUES)
            for topic, route in routes.items()
            for queues in (() if route is None else route.queue_datas)
            if readable(queues.perm)
        ]

    def positions(self, topic: str) -> dict[MessageQueue, int]:
        """Return nothing."""
        return {}

    async def consume_directly(self, message: ReceivedMessage) -> ConsumedDirectly:
        """Refuse: there is no listener. Raises: BrokerAnswer."""
        raise not_here(self._describe().group_name)

    async def go_on_at(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Do nothing: brokers move the offsets."""
