"""What a broker does that nobody has asked for, told once where it happens: in the log, and in the journal if kept.

A topic that was made by a send, a group that was made by its first member, and where a group begins that stands nowhere
yet. All of it is as in RocketMQ, and what people look for when messages are missing, or come that nobody expected.
"""

from typing import TYPE_CHECKING

from staticfire.protocol.names import is_system_group
from staticfire.protocol.requests.topics import TopicConfig
from staticfire.runtime.log import logger

if TYPE_CHECKING:
    from staticfire.broker.journal.events import EventJournal

log = logger("broker")

BEGINNINGS_MAX = 100_000
# Of groups in queues that are remembered as told.
FROM_LAST = "CONSUME_FROM_LAST_OFFSET"


class Surprises:
    """Tells of one broker."""

    def __init__(self, events: "EventJournal | None") -> None:
        self._events = events
        self._begun: set[tuple[str, str, int]] = set()

    def topic_made(self, topic: TopicConfig) -> None:
        """A send has made a topic."""
        words = "somebody sent to it; autoCreateTopicEnable=false refuses that"
        log.info("topic_made", topic=topic.topic_name, queues=topic.write_queue_nums, reason=words)
        if self._events is not None:
            self._events.topic_made(topic.topic_name, topic.write_queue_nums)

    def group_made(self, group: str) -> None:
        """A group has come to be with its first member."""
        if is_system_group(group):
            return
        words = "somebody consumes in it; autoCreateSubscriptionGroup=false refuses that"
        log.info("group_made", group=group, reason=words)
        if self._events is not None:
            self._events.group_made(group)

    def began(self, group: str, topic: str, queue_id: int, offset: int, wanted: str) -> None:
        """A group that stands nowhere in a queue was told to begin at an offset; -1: where it wants to."""
        place = (group, topic, queue_id)
        if place in self._begun or len(self._begun) >= BEGINNINGS_MAX:
            return
        self._begun.add(place)
        if self._events is not None:
            self._events.began(group, topic, queue_id, offset, wanted)
        if offset == 0 and wanted == FROM_LAST:
            words = f"the queue still has its first message, so that {FROM_LAST} means nothing there, as in RocketMQ"
            log.info("group_began_at_first", group=group, topic=topic, queue_id=queue_id, reason=words)

    def forget(self) -> None:
        """Tell of everything anew: the broker was reset."""
        self._begun.clear()
