"""The consumer that drives itself, without asyncio.

with PullConsumer("report", namesrv="127.0.0.1:9876") as consumer:
    for queue in consumer.queues("orders"):
        result = consumer.pull(queue, consumer.min_offset(queue))
"""

from staticfire.client.blocking.face import BlockingFace, blocking
from staticfire.client.consume.pull import PullConsumer


class BlockingPullConsumer(BlockingFace[PullConsumer]):
    """Reads queues. Any number of threads may use it."""

    queues = blocking(PullConsumer.queues)
    pull = blocking(PullConsumer.pull)
    min_offset = blocking(PullConsumer.min_offset)
    max_offset = blocking(PullConsumer.max_offset)
    search_offset = blocking(PullConsumer.search_offset)
    earliest_stored_ms = blocking(PullConsumer.earliest_stored_ms)
    send_back = blocking(PullConsumer.send_back)
    committed = blocking(PullConsumer.committed)
    commit = blocking(PullConsumer.commit)
