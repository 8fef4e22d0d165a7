"""What a record means for a message, depending on the topic that it is stored in. Pure.

RocketMQ keeps waiting messages, half messages and the records of recalls in its own topics; retries and dead letters
are in the group's.
"""

from staticfire.client.life import facts as words_of
from staticfire.client.life.facts import LifeEvent, MessageFacts, StoredCopy
from staticfire.protocol.durations import format_moment
from staticfire.protocol.names import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    WHEEL_TIMER_TOPIC,
    group_of_topic,
    is_dead_letter_topic,
    is_retry_topic,
    pop_retry_topic,
)
from staticfire.protocol.pop_handles import RETRY, RETRY_V2
from staticfire.protocol.properties import REAL_TOPIC, RETRY_TOPIC, TAGS, TIMER_OUT_MS
from staticfire.protocol.recall_handle import RECALL_TAG
from staticfire.protocol.sys_flag import TransactionKind, transaction_kind

WAITING_TOPICS = (SCHEDULE_TOPIC, WHEEL_TIMER_TOPIC)
INNER_TOPICS = (*WAITING_TOPICS, HALF_TOPIC, CHECK_MAX_TIME_TOPIC)
"""The topics of messages that consumers don't see, or don't see yet."""


def events_of_copy(copy: StoredCopy, facts: MessageFacts) -> list[LifeEvent]:
    """Return the events of a record, usually one."""
    topic = copy.topic
    if topic in WAITING_TOPICS:
        return [_recall(copy) if is_recall(copy) else _wait(copy, facts)]
    if topic == HALF_TOPIC:
        return _half(copy, facts)
    group = _group_of(copy, facts)
    if topic == CHECK_MAX_TIME_TOPIC:
        return [event(copy, words_of.SET_ASIDE, "no producer has ended its transaction", success=False)]
    if is_dead_letter_topic(topic):
        return [event(copy, words_of.DIED, group=group, success=False)]
    if is_retry_topic(topic):
        return [event(copy, words_of.RETRIED, group=group)]
    if is_final(copy):
        return [event(copy, words_of.COMMITTED, success=True)]
    return [event(copy, words_of.STORED, "it was due" if _has_waited(copy) else "")]


def _group_of(copy: StoredCopy, facts: MessageFacts) -> str:
    """Return the group of a retry or a dead letter; empty for other records.

    POP retry topics contain group and topic, and their messages have no RETRY_TOPIC: the part after the group is
    removed.
    """
    group = group_of_topic(copy.topic) or ""
    if group and is_retry_topic(copy.topic) and not copy.message.get(RETRY_TOPIC):
        for other in facts.copies:
            for version in (RETRY, RETRY_V2):
                behind = pop_retry_topic(other.topic, "", version).removeprefix(RETRY_PREFIX)
                if group.endswith(behind):
                    return group.removesuffix(behind)
    return group


def is_recall(copy: StoredCopy) -> bool:
    """Whether a record is the recall of the message."""
    return copy.topic == WHEEL_TIMER_TOPIC and copy.message.get(TAGS) == RECALL_TAG


def is_final(copy: StoredCopy) -> bool:
    """Whether a record is the final form of a half message, whose position it contains as its prepared position."""
    return transaction_kind(copy.message.sys_flag) is TransactionKind.COMMIT


def event(
    copy: StoredCopy,
    what: str,
    words: str = "",
    *,
    group: str = "",
    success: bool | None = None,
    time_ms: int | None = None,
) -> LifeEvent:
    """Return an event at a record's place and store time."""
    message = copy.message
    return LifeEvent(
        what, words_of.STORE, message.stored_ms if time_ms is None else time_ms, copy.topic, message.broker_name,
        message.queue_id, message.queue_offset, group, success=success, words=words,
        reconsume_times=message.reconsume_times,
    )  # fmt: skip


def _recall(copy: StoredCopy) -> LifeEvent:
    return event(copy, words_of.RECALLED, success=True)


def _wait(copy: StoredCopy, facts: MessageFacts) -> LifeEvent:
    """Return the event of a waiting message: it was delivered or recalled, or it still waits."""
    message, real_topic = copy.message, copy.message.get(REAL_TOPIC) or ""
    until = "" if copy.due_ms is None else f"until {format_moment(copy.due_ms)}, "
    level = message.delay_level
    text = f"{until}for {real_topic}" + (f", level {level}" if copy.topic == SCHEDULE_TOPIC and level else "")
    group = group_of_topic(real_topic) or ""
    has_come = any(
        other.topic == real_topic
        and other.message.stored_ms >= message.stored_ms
        and other.message.reconsume_times == message.reconsume_times
        for other in facts.copies
    )
    if has_come:
        return event(copy, words_of.WAITS, text, group=group, success=True)
    if any(map(is_recall, facts.copies)):
        return event(copy, words_of.WAITS, f"{text}: recalled", group=group, success=False)
    is_late = copy.due_ms is not None and copy.due_ms < facts.now_ms
    return event(copy, words_of.WAITS, f"{text}: overdue" if is_late else text, group=group)


def _half(copy: StoredCopy, facts: MessageFacts) -> list[LifeEvent]:
    """Return the events of a half message. RocketMQ stores it again at each check; only the last one counts."""
    message = copy.message
    text = f"for {message.get(REAL_TOPIC) or ''}"
    later = [
        other
        for other in facts.copies
        if other.topic == HALF_TOPIC
        and other.message.broker_name == message.broker_name
        and other.message.log_position > message.log_position
    ]
    if later:
        return [event(copy, words_of.HALF, f"{text}; a check was sent to its producer")]
    final = any(
        (is_final(other) and other.message.prepared_position == message.log_position)
        or other.topic == CHECK_MAX_TIME_TOPIC
        for other in facts.copies
        if other.topic != HALF_TOPIC and other.message.broker_name == message.broker_name
    )
    if final:
        return [event(copy, words_of.HALF, text)]
    ended_ms = facts.half_ends.get((message.broker_name, message.queue_offset))
    if ended_ms is None:
        return [event(copy, words_of.HALF, f"{text}; its transaction is open")]
    return [event(copy, words_of.HALF, text), event(copy, words_of.ROLLED_BACK, success=True, time_ms=ended_ms)]


def _has_waited(copy: StoredCopy) -> bool:
    message = copy.message
    return bool(message.delay_level) or message.get(TIMER_OUT_MS) is not None
