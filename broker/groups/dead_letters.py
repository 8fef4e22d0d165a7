"""The %DLQ% topics, which receive the messages that a group could not consume. They are created when needed.

retries.py decides whether a message is dead.
"""

from typing import Any

from staticfire.broker.groups.retries import DeadLetterStored, RetryWatch
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import OnStored, PutOutcome
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.names import dead_letter_topic, fits_store
from staticfire.protocol.properties import RETRY_TOPIC, UNIQ_KEY, text_property


class DeadLetters:
    """The dead letters of all groups of a broker."""

    def __init__(self, state: BrokerState, topics: TopicTable, retries: RetryWatch) -> None:
        self._state = state
        self._topics = topics
        self._retries = retries

    def queue_of(self, group: str) -> Queue:
        """Return the queue for a group's dead letters. Raises: BrokerAnswer (the name of the topic is too long)."""
        name = dead_letter_topic(group)
        if not fits_store(name):
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "MESSAGE_ILLEGAL")
        self._topics.create_for_group(name, 1, self._state.settings.dlq_perm)
        return self._state.store.queue(name, 0)

    def counted(self, group: str, properties: bytes, on_stored: OnStored) -> OnStored:
        """Return a callback that counts the dead letter when it is stored, then calls `on_stored`."""
        topic, watch = dead_letter_topic(group), self._retries

        def dead_letter_stored(context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
            if outcome is not PutOutcome.FAILED:
                message_id, origin_topic = text_property(properties, UNIQ_KEY), text_property(properties, RETRY_TOPIC)
                watch.dead_letter_stored(
                    DeadLetterStored(group, topic, 0, queue_offset, log_position, message_id, origin_topic)
                )
            on_stored(context, queue_offset, log_position, outcome)

        return dead_letter_stored
