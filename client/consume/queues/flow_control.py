"""How much of a queue a consumer caches before it waits. Pure. RocketMQ: DefaultMQPushConsumerImpl.pullMessage."""

from typing import Protocol

from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.settings.push_settings import MIB, PushSettings

NO_LIMIT = -1


class Flow(Protocol):
    """How much a consumer caches."""

    def share(self, queue_count: int) -> None:
        """Know how many queues there are."""

    def fullness(self, cache: ProcessQueue, is_in_order: bool) -> str | None:
        """Return why a queue isn't pulled now, None when it is."""

    def has_room(self, cache: ProcessQueue, is_in_order: bool) -> bool:
        """Whether a queue that was full is worth pulling again."""


class FlowControl:
    """The thresholds of one consumer. Those of topics are shared by the queues that it owns."""

    def __init__(self, settings: PushSettings) -> None:
        self._settings = settings
        self._span_max = settings.consume_concurrently_max_span
        self._messages_max = settings.pull_threshold_for_queue
        self._bytes_max = settings.pull_threshold_size_for_queue_mib * MIB

    def share(self, queue_count: int) -> None:
        """Spread the thresholds of topics over the queues of this consumer."""
        settings, count = self._settings, max(1, queue_count)
        if settings.pull_threshold_for_topic != NO_LIMIT:
            self._messages_max = max(1, settings.pull_threshold_for_topic // count)
        if settings.pull_threshold_size_for_topic_mib != NO_LIMIT:
            self._bytes_max = max(1, settings.pull_threshold_size_for_topic_mib // count) * MIB

    def fullness(self, cache: ProcessQueue, is_in_order: bool) -> str | None:
        """Return why a queue isn't pulled now, None when it is.

        `is_in_order`: what is done can't run ahead of a message that is stuck, so the span of offsets is no measure.
        """
        if len(cache) > self._messages_max:
            return f"{len(cache)} messages are cached, {self._messages_max} is the limit"
        if cache.bytes // MIB > self._bytes_max // MIB:
            return f"{cache.bytes // MIB} MiB are cached, {self._bytes_max // MIB} is the limit"
        span, span_max = 0 if is_in_order else cache.span, self._span_max
        if span > span_max:
            return f"offset {cache.smallest_offset} isn't done and {span} behind, {span_max} is the limit"
        return None

    def has_room(self, cache: ProcessQueue, is_in_order: bool) -> bool:
        """Whether a queue that was full is worth pulling again: half of each limit is free, so that pulls are whole."""
        return (
            len(cache) * 2 <= self._messages_max
            and cache.bytes * 2 <= self._bytes_max
            and (is_in_order or cache.span * 2 <= self._span_max)
        )
