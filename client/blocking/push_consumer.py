"""The push consumer without asyncio.

    consumer = PushConsumer("billing", namesrv="127.0.0.1:9876")
    consumer.subscribe("orders")

    @consumer.listener
    def bill(messages, context):
        return ConsumeStatus.CONSUME_SUCCESS

    with consumer as running:
        running.wait()      # until `running.stop()`, Ctrl-C, or a crash

A listener that is a plain function is called in threads, an `async def` in the consumer's own event loop. Plain ones
may use any blocking face; what they share with each other they have to guard.
"""

from staticfire.client.blocking.face import BlockingFace, blocking, on_loop
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.consume.push_consumer import PushConsumer
from staticfire.protocol.requests.connections import TopicConsumption


class BlockingPushConsumer(BlockingFace[PushConsumer]):
    """One member of a consumer group."""

    subscribe = on_loop(PushConsumer.subscribe)
    unsubscribe = on_loop(PushConsumer.unsubscribe)
    suspend = on_loop(PushConsumer.suspend)
    resume = on_loop(PushConsumer.resume)
    update_consume_threads = on_loop(PushConsumer.update_consume_threads)
    inc_consume_threads = on_loop(PushConsumer.inc_consume_threads)
    dec_consume_threads = on_loop(PushConsumer.dec_consume_threads)
    update_consume_timeout = on_loop(PushConsumer.update_consume_timeout)
    reset_offset_by_time = blocking(PushConsumer.reset_offset_by_time)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer owns now, sorted."""
        return self._on_loop(lambda: self.service.assignment)

    @property
    def cached(self) -> dict[MessageQueue, int]:
        """How many messages of each queue are here and not done."""
        return self._on_loop(lambda: self.service.cached)

    @property
    def statistics(self) -> dict[str, TopicConsumption]:
        """How fast it pulls and consumes each topic, its retries included, in the last minute."""
        return self._on_loop(lambda: self.service.statistics)

    @property
    def consume_threads(self) -> int:
        """How many listeners may run at once."""
        return self.service.consume_threads
