"""Find the queues of topics without creating them."""

from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.topics import TopicTable
from staticfire.protocol.requests.locks import MessageQueue


class TopicQueues:
    """The queues that the topics of one broker have."""

    def __init__(self, state: BrokerState, topics: TopicTable) -> None:
        self._state = state
        self._topics = topics

    def find(self, topic: str, queue_id: int) -> Queue | None:
        """Return a queue of a topic. None if the topic doesn't have it: a query must not create queues."""
        config = self._topics.get(topic)
        if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
            return None
        return self._state.store.queue(topic, queue_id)

    def named(self, topic: str, queue_id: int) -> MessageQueue:
        """Return a queue of this broker in the form that clients use."""
        return MessageQueue(topic, self._state.settings.broker_name, queue_id)

    def stored_ms_before(self, queue: Queue, offset: int) -> int | None:
        """Return when the message before an offset was stored; None if there is none."""
        return self._state.store.stored_ms_of(queue, offset - 1)
