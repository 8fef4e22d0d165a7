"""Topics that have messages but no configuration.

This happens if the broker is killed between a topic's first message and the write of topics.json. A start creates their
configurations again, so that acknowledged messages can be consumed without manual work.
"""

from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.store import MessageStore
from staticfire.broker.topics import TopicTable
from staticfire.protocol.names import fits_store, group_of_topic, is_dead_letter_topic, topic_fault
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.requests.topics import TopicConfig

# The number of queues that producers request by default. A producer that continues after the kill sends to that many.
QUEUES_AUTO_CREATED = 4


def put_back_topics(topics: TopicTable, store: MessageStore, settings: BrokerSettings) -> list[TopicConfig]:
    """Add the missing topics to the table; return them. Raises: OSError."""
    put_back = []
    for name in store.topics():
        if topics.get(name) is not None or not _is_topic(name):
            continue
        queue_ids = store.queue_ids(name)
        if queue_ids:
            queues = max(queue_ids[-1] + 1, _queues_at_least(name, settings))
            perm = settings.dlq_perm if is_dead_letter_topic(name) else READ_WRITE
            put_back.append(TopicConfig(name, queues, queues, perm))
    for topic in put_back:
        topics.put(topic)
    return put_back


def _is_topic(name: str) -> bool:
    """Tell whether a folder among the queues can belong to a topic."""
    return fits_store(name) if group_of_topic(name) is not None else topic_fault(name) is None


def _queues_at_least(name: str, settings: BrokerSettings) -> int:
    if group_of_topic(name) is not None or not settings.auto_create_topic_enable:
        return 1
    return min(QUEUES_AUTO_CREATED, settings.default_topic_queue_nums)
