"""The lite pull consumer without asyncio.

    with LitePullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
        consumer.subscribe("orders")
        while messages := consumer.poll(timeout_ms=500): ...

Each poll is a trip to another thread and back: a larger `pull_batch_size` makes them fewer.
"""

from staticfire.client.blocking.face import BlockingFace, blocking, on_loop
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.lite_pull.consumer import LitePullConsumer
from staticfire.protocol.requests.connections import TopicConsumption


class BlockingLitePullConsumer(BlockingFace[LitePullConsumer]):
    """One member of a consumer group that polls. Any number of threads may use it; see `LitePullConsumer.poll`."""

    subscribe = on_loop(LitePullConsumer.subscribe)
    unsubscribe = on_loop(LitePullConsumer.unsubscribe)
    assign = blocking(LitePullConsumer.assign)
    queues = blocking(LitePullConsumer.queues)
    on_topic_queues_changed = blocking(LitePullConsumer.on_topic_queues_changed)
    poll = blocking(LitePullConsumer.poll)
    seek = blocking(LitePullConsumer.seek)
    seek_to_begin = blocking(LitePullConsumer.seek_to_begin)
    seek_to_end = blocking(LitePullConsumer.seek_to_end)
    pause = on_loop(LitePullConsumer.pause)
    resume = on_loop(LitePullConsumer.resume)
    is_paused = on_loop(LitePullConsumer.is_paused)
    commit = blocking(LitePullConsumer.commit)
    committed = blocking(LitePullConsumer.committed)
    offset_for_timestamp = blocking(LitePullConsumer.offset_for_timestamp)

    @property
    def statistics(self) -> dict[str, TopicConsumption]:
        """How fast it has pulled each topic in the last minute."""
        return self._on_loop(lambda: self.service.statistics)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that were assigned by hand, or this member's share now; sorted."""
        return self._on_loop(lambda: self.service.assignment)
