"""The events in the life of a message, in order. Pure.

Events are sorted by message time; events at the same time by their logical order. Traces contain the wall clock of
their client, which is converted to message time.
"""

from staticfire.client.admin.consumption import ConsumptionState, GroupConsumption
from staticfire.client.life import facts as words_of
from staticfire.client.life.facts import LifeEvent, MessageFacts, StoredCopy
from staticfire.client.life.places import events_of_copy
from staticfire.client.life.trace_reading import TraceEvent, events_of
from staticfire.protocol.requests import journal as kinds
from staticfire.protocol.requests.journal import JournalRecord

_ORDER = (
    words_of.SENT, words_of.HALF, "transaction", words_of.ROLLED_BACK, words_of.SET_ASIDE, words_of.WAITS,
    words_of.RECALLED, words_of.COMMITTED, words_of.STORED, words_of.RETRIED, words_of.DIED, words_of.DELIVERED,
    "being consumed", words_of.CONSUMED, words_of.SENT_BACK,
)  # fmt: skip
_RANKS = {what: rank for rank, what in enumerate(_ORDER)}
PAST = {ConsumptionState.CONSUMED: True}


def life_of(facts: MessageFacts) -> list[LifeEvent]:
    """Return the events of a message, oldest first, followed by the current state of its groups."""
    events: list[LifeEvent] = []
    traces = events_of(facts.traces)
    for copy in facts.copies:
        heard = _heard(copy)
        known = {one.group for one in heard}
        known |= {one.group for one in traces if one.retry_times == copy.message.reconsume_times}
        events += [*events_of_copy(copy, facts), *heard, *_standing(copy, known)]
    delivered = {(one.group, one.reconsume_times): one.time_ms or 0 for one in events if one.what == words_of.DELIVERED}
    for one in traces:
        events.append(_traced(one, facts.message_ms(one.time_ms, delivered.get((one.group, one.retry_times), 0))))
    return sorted(events, key=_in_order)


def _in_order(event: LifeEvent) -> tuple[bool, int, int, int]:
    rank = _RANKS.get(event.what.partition(":")[0], len(_RANKS))
    return event.time_ms is None, event.time_ms or 0, event.reconsume_times, rank


def _heard(copy: StoredCopy) -> list[LifeEvent]:
    """Return the deliveries and send-backs of a copy, from the journal."""
    sent_back = {record.group for record in copy.noted if record.kind == kinds.SENT_BACK}
    states = {one.group: PAST.get(one.state) for one in copy.groups}
    last = {record.group: record.number for record in copy.noted if record.kind == kinds.DELIVERED}
    found = []
    for record in copy.noted:
        if record.kind == kinds.SENT_BACK:
            found.append(_given_back(copy, record))
        elif record.kind == kinds.DELIVERED:
            success = False if record.group in sent_back else states.get(record.group)
            # If a group got several deliveries, as after a rebalance, the last one decides.
            found.append(
                _noted(copy, record, words_of.DELIVERED, success if record.number == last[record.group] else None)
            )
    return found


def _given_back(copy: StoredCopy, record: JournalRecord) -> LifeEvent:
    level, status = record.details.get("delayLevel", 0), str(record.details.get("status", ""))
    if status != "SUCCESS":
        return _noted(copy, record, words_of.SENT_BACK, False, status)
    words = "it is a dead letter" if level < 0 else f"redelivered, level {level}"
    return _noted(copy, record, words_of.SENT_BACK, True, words)


def _noted(copy: StoredCopy, record: JournalRecord, what: str, success: bool | None, words: str = "") -> LifeEvent:
    message = copy.message
    return LifeEvent(
        what, words_of.JOURNAL, record.message_ms, record.topic, record.broker, record.queue_id,
        message.queue_offset, record.group, record.client, success, words=words,
        reconsume_times=message.reconsume_times,
    )  # fmt: skip


def _standing(copy: StoredCopy, heard_of: set[str]) -> list[LifeEvent]:
    """Return the current state of groups for a copy, except if they have consumed it and their events are known."""
    wanted = [one for one in copy.groups if one.group not in heard_of or one.state is not ConsumptionState.CONSUMED]
    return [_stands(copy, one) for one in wanted]


def _stands(copy: StoredCopy, one: GroupConsumption) -> LifeEvent:
    message = copy.message
    words = "nothing committed" if one.committed is None else f"next offset {one.committed}"
    return LifeEvent(
        one.state.value, words_of.OFFSETS, None, copy.topic, message.broker_name, message.queue_id,
        message.queue_offset, one.group, success=PAST.get(one.state),
        words=words if one.is_online else f"{words}, offline", reconsume_times=message.reconsume_times,
    )  # fmt: skip


def _traced(one: TraceEvent, message_ms: int) -> LifeEvent:
    return LifeEvent(
        one.what, words_of.TRACE, message_ms, group=one.group, success=one.success,
        cost_ms=one.cost_ms, words=one.words, reconsume_times=one.retry_times,
    )  # fmt: skip
