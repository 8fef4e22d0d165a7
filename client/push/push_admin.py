"""A push consumer's responses to administrators. RocketMQ: DefaultMQPushConsumerImpl.consumerRunningInfo, resetOffset,
ConsumeMessageService.consumeMessageDirectly.
"""

from collections.abc import Callable, Mapping
from typing import Any

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.program_errors import ends_consumer, is_async, words_of
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.membership.running_info import pop_table, properties_of, queue_table
from staticfire.client.consume.membership.stacks import stacks
from staticfire.client.consume.results.consume_results import ConsumeContext, ConsumeStatus
from staticfire.client.consume.results.ordered_results import OrderedContext, OrderedStatus
from staticfire.client.push.push_parts import PushParts
from staticfire.client.settings.push_settings import PushSettings
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import RETRY_TOPIC
from staticfire.protocol.requests.clients import ConsumerData
from staticfire.protocol.requests.connections import (
    ConsumedDirectly,
    ConsumerRunningInfo,
)

# RocketMQ: CMResult. Anything that isn't a status is CR_RETURN_NULL.
_RESULTS: dict[Any, str] = {
    ConsumeStatus.CONSUME_SUCCESS: "CR_SUCCESS",
    ConsumeStatus.RECONSUME_LATER: "CR_LATER",
    OrderedStatus.SUCCESS: "CR_SUCCESS",
    OrderedStatus.COMMIT: "CR_COMMIT",
    OrderedStatus.ROLLBACK: "CR_ROLLBACK",
    OrderedStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT: "CR_LATER",
}


class ConsumerAdmin:
    """One consumer, as administrators see it."""

    def __init__(
        self,
        client: ClusterClient,
        settings: PushSettings,
        describe: Callable[[], ConsumerData],
        parts: PushParts,
        listener: Any,
        is_ordered: bool,
    ) -> None:
        """`describe`: returns the content of heartbeats."""
        self._client = client
        self._settings = settings
        self._describe = describe
        self._parts = parts
        self._statistics = parts.state.statistics
        self._listener = listener
        self._is_ordered = is_ordered
        self._clock = client.machine.clock
        self._began_ms = self._clock.wall_ms()

    # -- looking -------------------------------------------------------------------------------------------------

    def running_info(self, with_stacks: bool) -> ConsumerRunningInfo:
        """Return its running info."""
        data = self._describe()
        return ConsumerRunningInfo(
            properties=self._properties(data),
            subscription_set=data.subscription_data_set,
            mq_table=queue_table(self._parts.held, self._parts.offsets, self._clock, has_listener=True),
            mq_pop_table=pop_table(self._parts.popped, self._clock),
            status_table={one.topic: self._statistics.consumption(one.topic) for one in data.subscription_data_set},
            jstack=stacks() if with_stacks else None,
        )

    def _properties(self, data: ConsumerData) -> dict[str, str]:
        settings, threads = self._settings, str(self._parts.listening.threads)
        return properties_of(self._client, data, self._began_ms) | {
            "PROP_CONSUMEORDERLY": "true" if self._is_ordered else "false",
            "PROP_THREADPOOL_CORE_SIZE": threads,
            "consumeThreadMin": threads,
            "consumeThreadMax": threads,
            "consumeMessageBatchMaxSize": str(settings.consume_message_batch_max_size),
            "maxReconsumeTimes": str(settings.max_reconsume_times),
            "pullBatchSize": str(settings.pull_batch_size),
            "pullInterval": str(settings.pull_interval_ms),
            "pullThresholdForQueue": str(settings.pull_threshold_for_queue),
        }

    def positions(self, topic: str) -> dict[MessageQueue, int]:
        """Return its positions in a topic, from memory."""
        offsets = {
            queue: self._parts.offsets.memory(queue) for queue in self._parts.held.queues if queue.topic == topic
        }
        return {queue: offset for queue, offset in offsets.items() if offset >= 0}

    # -- acting --------------------------------------------------------------------------------------------------

    async def consume_directly(self, message: ReceivedMessage) -> ConsumedDirectly:
        """Call the listener with one message, of any queue. No offset changes."""
        message.topic = self._client.namespace.unwrap(message.get(RETRY_TOPIC) or message.topic)
        queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
        context: Any = OrderedContext(queue) if self._is_ordered else ConsumeContext(queue)
        began_ms = self._clock.uptime_ms()
        result = ConsumedDirectly(order=self._is_ordered)
        try:
            if is_async(self._listener):
                status = await self._listener((message,), context)
            else:
                status = await self._client.machine.workers.run_foreign(lambda: self._listener((message,), context))
            result.consume_result = _RESULTS.get(status, "CR_RETURN_NULL")
        except BaseException as error:
            if ends_consumer(error):
                raise
            result.consume_result, result.remark = "CR_THROW_EXCEPTION", words_of(error)
        if self._is_ordered:
            result.auto_commit = bool(context.auto_commit)  # A listener may set anything.
        result.spent_time_mills = self._clock.uptime_ms() - began_ms
        return result

    async def go_on_at(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets, in the queues that it owns."""
        await self._parts.held.move(offsets)
