"""The stored form of messages that are delivered later, in 18 levels. RocketMQ: HookUtils.handleScheduleMessage.

A delayed message is stored in SCHEDULE_TOPIC_XXXX, queue = level - 1, with its real topic and queue in properties. Its
entry in that queue contains the due time, where other entries contain the hash of the tag, so that a level can be read
without its messages. When it is due, it is stored again in its real queue.

The second record carries a *mark*: the level and offset of the delayed message. It is in the field where a committed
transaction has the position of its half message. A mark is below zero, unlike any position. So the log itself shows
what was delivered. Readers of messages see 0 there, as in RocketMQ.
"""

from collections.abc import Callable
from typing import NamedTuple

from staticfire.broker.delay.level_history import LevelHistory
from staticfire.broker.store.entering import TagsCodeOf
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.delay_levels import DelayLevels, requested_level
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.names import HALF_TOPIC, SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC
from staticfire.protocol.properties import (
    DELAY,
    REAL_QID,
    REAL_TOPIC,
    TIMER_DELAY_MS,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    find_property,
    with_last_end,
    with_property,
    without_property,
)
from staticfire.protocol.tags import tags_code

# Part of the name of every property that requests a delay: DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS. A
# message that contains it elsewhere is checked, too, and doesn't wait. So an ordinary message costs only one search.
MAY_WAIT = "DEL"
_LEVEL_BITS = 16


def tags_code_of(history: LevelHistory, of_timers: Callable[[bytes, int], int]) -> TagsCodeOf:
    """Return a function that computes the tags code of a record's entry from the record; if delayed, its due time.

    `of_timers` does this for properties and stored time of a record of rmq_sys_wheel_timer.
    """

    def code(topic: str, properties: bytes, stored_ms: int, log_position: int) -> int:
        if topic == SCHEDULE_TOPIC:
            try:
                level = requested_level(properties)
            except BrokerAnswer:
                level = 0  # The level isn't a number, so another program than this one stored it.
            if level > 0:
                levels = history.at(log_position)
                return stored_ms + levels.delay_ms(levels.clamp(level))
        if topic == WHEEL_TIMER_TOPIC:
            return of_timers(properties, stored_ms)
        return tags_code(properties)

    return code


class Delayed(NamedTuple):
    """The stored form of a message that waits."""

    level: int
    properties: bytes


def delayed(properties: bytes, topic: str, queue_id: int, levels: DelayLevels) -> Delayed | None:
    """Return the stored form of a message for that queue; None if it requests no delay.

    Raises: BrokerAnswer (DELAY is no number, the properties get too long).
    """
    requested = requested_level(properties)
    if requested <= 0:
        return None
    level = levels.clamp(requested)
    if level != requested:
        properties = with_property(properties, DELAY, b"%d" % level)
    if b"TIMER_DEL" in properties or b"REAL_" in properties:
        for name in (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, REAL_TOPIC, REAL_QID):
            properties = without_property(properties, name)
    properties = b"%bREAL_TOPIC\x01%b\x02REAL_QID\x01%d\x02" % (with_last_end(properties), topic.encode(), queue_id)
    if len(properties) > PROPERTIES_BYTES_MAX:
        words = (
            f"the message is illegal: with the names of its topic and queue its properties have {len(properties)} "
            f"bytes, the limit is {PROPERTIES_BYTES_MAX}"
        )
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
    return Delayed(level, properties)


def real_place(properties: bytes) -> tuple[str, int] | None:
    """Return the topic and queue id of a delayed message; None if it can't be delivered.

    That is the case without these properties, and for a half message. RocketMQ drops both, too
    (ScheduleMessageService).
    """
    topic, queue_id = find_property(properties, REAL_TOPIC), find_property(properties, REAL_QID)
    if not topic or not queue_id or not queue_id.isdigit() or topic == HALF_TOPIC.encode():
        return None
    return topic.decode("utf-8", "replace"), int(queue_id)


class Mark(NamedTuple):
    """The level and offset of a delayed message that was delivered.

    Level 0: a message with its own time (broker/timers/).
    """

    level: int
    offset: int


def pack_mark(level: int, offset: int) -> int:
    """Return the mark as the number that is stored in the record."""
    return -1 - (offset << _LEVEL_BITS | level)


def read_mark(prepared_position: int) -> Mark | None:
    """Return the mark of a record; None if it has none."""
    if prepared_position >= 0:
        return None
    number = -1 - prepared_position
    return Mark(number & (1 << _LEVEL_BITS) - 1, number >> _LEVEL_BITS)
