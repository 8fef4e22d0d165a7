"""Find a queue of a topic without creating it."""

from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.protocol.requests.locks import MessageQueue


def find_queue(state: BrokerState, topic: str, queue_id: int) -> Queue | None:
    """Return a queue of a topic. None if the topic doesn't have it: a query must not create queues."""
    config = state.topics.get(topic)
    if config is None or not 0 <= queue_id < max(config.read_queue_nums, config.write_queue_nums):
        return None
    return state.store.queue(topic, queue_id)


def named(state: BrokerState, topic: str, queue_id: int) -> MessageQueue:
    """Return a queue of this broker in the form that clients use."""
    return MessageQueue(topic, state.settings.broker_name, queue_id)


def stored_ms_before(state: BrokerState, queue: Queue, offset: int) -> int | None:
    """Return when the message before an offset was stored; None if there is none."""
    return state.store.stored_ms_of(queue, offset - 1)
