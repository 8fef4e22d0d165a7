"""How much of a queue a consumer caches before it pauses its pulls. Pure. RocketMQ:
DefaultMQPushConsumerImpl.pullMessage.
"""

from typing import Protocol

from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.settings.push_settings import MIB, PushSettings

NO_LIMIT = -1


class Flow(Protocol):
    """Limits how much a consumer caches."""

    def share(self, queue_count: int) -> None:
        """Set the number of queues that share the limits."""

    def fullness(self, cache: ProcessQueue, is_in_order: bool) -> str | None:
        """Return why the queue must not be pulled now; None if it may be."""

    def has_room(self, cache: ProcessQueue, is_in_order: bool) -> bool:
        """Whether a queue that was full has enough room to be pulled again."""


class FlowControl:
    """The limits of one consumer. The limits per topic are divided among the queues that it owns."""

    def __init__(self, settings: PushSettings) -> None:
        self._settings = settings
        self._span_max = settings.consume_concurrently_max_span
        self._messages_max = settings.pull_threshold_for_queue
        self._bytes_max = settings.pull_threshold_size_for_queue_mib * MIB

    def share(self, queue_count: int) -> None:
        """Divide the limits per topic among the queues of this consumer."""
        settings, count = self._settings, max(1, queue_count)
        if settings.pull_threshold_for_topic != NO_LIMIT:
            self._messages_max = max(1, settings.pull_threshold_for_topic // count)
        if settings.pull_threshold_size_for_topic_mib != NO_LIMIT:
            self._bytes_max = max(1, settings.pull_threshold_size_for_topic_mib // count) * MIB

    def fullness(self, cache: ProcessQueue, is_in_order: bool) -> str | None:
        """Return why the queue must not be pulled now; None if it may be.

        `is_in_order`: the span of offsets isn't limited, because no message can overtake one that is stuck.
        """
        if len(cache) > self._messages_max:
            return f"{len(cache)} messages are cached, {self._messages_max} is the limit"
        if cache.bytes // MIB > self._bytes_max // MIB:
            return f"{cache.bytes // MIB} MiB are cached, {self._bytes_max // MIB} is the limit"
        span, span_max = 0 if is_in_order else cache.span, self._span_max
        if span > span_max:
            return (
                f"offset {cache.smallest_offset} isn't processed yet; the cached offsets span {span}, the limit is "
                f"{span_max}"
            )
        return None

    def has_room(self, cache: ProcessQueue, is_in_order: bool) -> bool:
        """Whether a queue that was full may be pulled again: half of each limit is free, so that a whole batch fits."""
        return (
            len(cache) * 2 <= self._messages_max
            and cache.bytes * 2 <= self._bytes_max
            and (is_in_order or cache.span * 2 <= self._span_max)
        )
