"""Where queues must end, after what a test has sent. For a cluster of Apache RocketMQ.

Its broker responds to a send when the message is in the commit log. It puts the message into its queue a millisecond
later, or many on a busy machine: a test that reads the queue at once doesn't find it. RocketMQ: ReputMessageService.
"""

from collections.abc import Mapping

from staticfire.client import Message, MessageQueue, SendResult

IN_QUEUE_S_MAX = 30.0
"""How long such a broker may take."""


class SentEnds:
    """The ends that queues must have reached before a test reads them."""

    def __init__(self) -> None:
        self._ends: dict[MessageQueue, int] = {}

    def note(self, message: Message, result: SendResult) -> None:
        """Note a message that was sent. A delayed one is in another queue until it is due."""
        is_delayed = message.delay_level > 0 or message.delay_ms is not None or message.deliver_ms is not None
        if not is_delayed:
            self._ends[result.queue] = max(self._ends.get(result.queue, 0), result.queue_offset + 1)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return the ends of a topic's queues that weren't forgotten yet."""
        return {queue: end for queue, end in self._ends.items() if queue.topic == topic}

    def forget(self, topic: str) -> None:
        """Forget a topic: its queues have reached these ends, or never will."""
        for queue in self.of_topic(topic):
            del self._ends[queue]


def missing_text(wanted: Mapping[MessageQueue, int], found: Mapping[MessageQueue, int]) -> str:
    """Describe the queues that end before the last message that was sent."""
    return "; ".join(
        f"{queue.broker_name}/{queue.queue_id} ends at {found.get(queue, 0)}, and the last message sent is at {end - 1}"
        for queue, end in wanted.items()
        if found.get(queue, 0) < end
    )
