"""Limits how much a lite pull consumer prefetches: per queue, and for all queues together. Pure."""

from staticfire.client.consume.queues.flow_control import FlowControl
from staticfire.client.consume.queues.process_queue import ProcessQueue
from staticfire.client.lite_pull.poll_buffer import PollBuffer
from staticfire.client.settings.push_settings import PushSettings


class SharedFlow:
    """The limits of one consumer. RocketMQ: pullThresholdForAll, in addition to those of queues."""

    def __init__(self, settings: PushSettings, buffer: PollBuffer, messages_max: int) -> None:
        self._of_queues = FlowControl(settings)
        self._buffer = buffer
        self._messages_max = messages_max

    def share(self, queue_count: int) -> None:
        """Do nothing: there are no limits per topic."""

    def fullness(self, cache: ProcessQueue, is_in_order: bool) -> str | None:
        """Return why the queue must not be pulled now; None if it may be."""
        waiting = self._buffer.messages
        if waiting > self._messages_max:
            return f"{waiting} messages of all queues wait to be polled; the limit is {self._messages_max}"
        return self._of_queues.fullness(cache, is_in_order)

    def has_room(self, cache: ProcessQueue, is_in_order: bool) -> bool:
        """Whether a queue that was full has enough room to be pulled again."""
        return self._buffer.messages * 2 <= self._messages_max and self._of_queues.has_room(cache, is_in_order)
