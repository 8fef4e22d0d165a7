"""Which records of a log count as messages when a failover loses the end of it.

A log has more than messages: ends of transactions, notes of pops. They are lost with the messages around them, and
aren't counted. A message that waits (delayed, timed, half) counts, and so does its delivered copy.
"""

from collections import deque
from collections.abc import Iterable

from staticfire.broker.store.store import MessageStore
from staticfire.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC, is_system_topic
from staticfire.protocol.record import peek_topic_and_properties

WAITING = frozenset((HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC))


def is_message(record: bytes) -> bool:
    """Return whether a record is a message of a program."""
    topic = peek_topic_and_properties(record)[0]
    return topic in WAITING or not is_system_topic(topic)


def count_messages(records: Iterable[tuple[int, bytes]]) -> int:
    """Return the number of messages among records with their positions."""
    return sum(1 for _, record in records if is_message(record))


def end_without(store: MessageStore, losing: int) -> tuple[int, int]:
    """Return where the log ends without its last messages, and how many these are. Raises: StorageError."""
    if losing <= 0:
        return store.max_position, 0
    positions: deque[int] = deque(maxlen=losing)
    positions.extend(position for position, record in store.records_from(store.min_position) if is_message(record))
    if not positions:
        return store.max_position, 0
    return positions[0] if len(positions) == losing else store.min_position, len(positions)
