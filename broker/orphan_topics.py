"""Topics that have messages but no configuration.

This happens if the broker is killed between a topic's first message and the write of topics.json. A start creates their
configurations again, so that acknowledged messages can be consumed without manual work.

A deleted topic may have messages, too: what waited for it when it was deleted is stored in its queues when it is due or
committed. As in RocketMQ, such a topic stays deleted, and has these messages if it is created again. It is put back
only if a producer has sent to it since, so that it was created again shortly before the kill.
"""

from typing import NamedTuple

from staticfire.broker.delay.stored_form import read_mark
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.store.store import MessageStore
from staticfire.broker.topics import TopicTable
from staticfire.protocol.names import fits_store, group_of_topic, is_dead_letter_topic, topic_fault
from staticfire.protocol.permissions import READ_WRITE
from staticfire.protocol.record import peek_prepared_position, peek_record
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.protocol.sys_flag import TransactionKind, transaction_kind

# The number of queues that producers request by default. A producer that continues after the kill sends to that many.
QUEUES_AUTO_CREATED = 4
# The number of messages of each queue that are searched for one that was sent. Those that were sent shortly before a
# kill are among the newest.
NEWEST_MAX = 1_000


class Orphans(NamedTuple):
    """Topics with messages and without a configuration."""

    put_back: list[TopicConfig]
    """The new configurations of those that exist again."""
    deleted: list[str]
    """Those that stay deleted."""


def put_back_topics(topics: TopicTable, store: MessageStore, settings: BrokerSettings) -> Orphans:
    """Add the missing topics to the table; return what was found. Raises: OSError, StorageError."""
    put_back, deleted = [], []
    for name in store.topics():
        if topics.get(name) is not None or not _is_topic(name):
            continue
        queue_ids = store.queue_ids(name)
        if queue_ids and name in store.deletions and not _was_sent_to(store, name, queue_ids):
            deleted.append(name)
        elif queue_ids:
            queues = max(queue_ids[-1] + 1, _queues_at_least(name, settings))
            perm = settings.dlq_perm if is_dead_letter_topic(name) else READ_WRITE
            put_back.append(TopicConfig(name, queues, queues, perm))
    for topic in put_back:
        topics.put(topic)
    return Orphans(put_back, deleted)


def _was_sent_to(store: MessageStore, topic: str, queue_ids: list[int]) -> bool:
    """Tell whether one of the newest messages of a topic was sent to it, and hadn't waited."""
    for queue in [store.queue(topic, queue_id) for queue_id in queue_ids]:
        for entry in store.entries(queue, queue.max_offset - NEWEST_MAX, NEWEST_MAX):
            record = store.record_at(entry.log_position) if entry.record_bytes > 0 else None
            if record is not None and not _has_waited(record):
                return True
    return False


def _has_waited(record: bytes) -> bool:
    """Tell whether a record was stored when its time had come, or by a commit."""
    is_delivery = read_mark(peek_prepared_position(record)) is not None
    return is_delivery or transaction_kind(peek_record(record).sys_flag) is TransactionKind.COMMIT


def _is_topic(name: str) -> bool:
    """Tell whether a folder among the queues can belong to a topic."""
    return fits_store(name) if group_of_topic(name) is not None else topic_fault(name) is None


def _queues_at_least(name: str, settings: BrokerSettings) -> int:
    if group_of_topic(name) is not None or not settings.auto_create_topic_enable:
        return 1
    return min(QUEUES_AUTO_CREATED, settings.default_topic_queue_nums)
