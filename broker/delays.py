"""Messages that are delivered later, in 18 levels. RocketMQ: ScheduleMessageService.

A delayed message lies in SCHEDULE_TOPIC_XXXX, queue = level - 1. Its entry in that queue carries the due time where
others carry the hash of their tag, so that a level is read without reading its messages.
"""

from staticfire.broker.store.recovery import TagsCodeOf
from staticfire.protocol.delay_levels import DelayLevels
from staticfire.protocol.names import SCHEDULE_TOPIC
from staticfire.protocol.properties import DELAY, find_property
from staticfire.protocol.tags import tags_code


def tags_code_of(message_delay_level: str) -> TagsCodeOf:
    """Return how the entry of a record is made anew from the record: the due time of a delayed one."""
    levels = DelayLevels.parse(message_delay_level)

    def code(topic: str, properties: bytes, stored_ms: int) -> int:
        if topic == SCHEDULE_TOPIC:
            level = find_property(properties, DELAY)
            if level is not None and level.isdigit() and int(level) > 0:
                return stored_ms + levels.delay_ms(int(level))
        return tags_code(properties)

    return code
