"""Report what a broker does without a request for it, once per case, in the log and in the journal (if enabled).

The cases are: a topic created by a send, a group created by its first member, and the initial offset of a new group.
All of this is as in RocketMQ. It explains why messages are missing, or arrive unexpectedly.
"""

from typing import TYPE_CHECKING

from staticfire.protocol.names import is_system_group
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from staticfire.broker.journal.events import EventJournal

log = logger("broker")

# The number of reported beginnings (group, topic, queue) that are remembered.
BEGINNINGS_MAX = 100_000
FROM_LAST = "CONSUME_FROM_LAST_OFFSET"


class Surprises:
    """Reports of one broker."""

    def __init__(self, events: "EventJournal | None") -> None:
        self._events = events
        self._begun: set[tuple[str, str, int]] = set()

    def topic_made(self, topic: TopicConfig) -> None:
        """Report that a send has created a topic."""
        words = "a producer sent to it; set autoCreateTopicEnable=false to forbid that"
        log.info("topic_made", topic=topic.topic_name, queues=topic.write_queue_nums, reason=words)
        if self._events is not None:
            self._events.topic_made(topic.topic_name, topic.write_queue_nums)

    def group_made(self, group: str) -> None:
        """Report that a group was created by its first member."""
        if is_system_group(group):
            return
        words = "a consumer joined it; set autoCreateSubscriptionGroup=false to forbid that"
        log.info("group_made", group=group, reason=words)
        if self._events is not None:
            self._events.group_made(group)

    def began(self, group: str, topic: str, queue_id: int, offset: int, wanted: str) -> None:
        """Report the initial offset of a group that had none in a queue; -1: the one that the group requests."""
        place = (group, topic, queue_id)
        if place in self._begun or len(self._begun) >= BEGINNINGS_MAX:
            return
        self._begun.add(place)
        if self._events is not None:
            self._events.began(group, topic, queue_id, offset, wanted)
        if offset == 0 and wanted == FROM_LAST:
            words = f"the queue still has its first message, so {FROM_LAST} has no effect there, as in RocketMQ"
            log.info("group_began_at_first", group=group, topic=topic, queue_id=queue_id, reason=words)

    def forget(self) -> None:
        """Report everything again, because the broker was reset."""
        self._begun.clear()
