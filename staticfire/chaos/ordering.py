"""The checker of order: a group that consumes in order finishes the messages of a queue one after the other. Pure.

A broker delivers in order by itself, and in which order a listener works isn't visible. These are, and none of them is
something that RocketMQ does by itself:

- A member sends a message back, and others of its queue are finished before its retry is delivered. A dead letter is
  the wanted result of `maxReconsumeTimes`, and no broken promise.
- A member consumes and commits, and never requests a lock, where other members of its group lock the queues of the
  topic: it consumes concurrently, and they in order. A member that once requested a lock may have lost it.
- A message that was popped in order is acknowledged before an earlier one with the same sharding key, and the earlier
  one is delivered again.
"""

from collections import defaultdict
from collections.abc import Iterator

from staticfire.chaos.broken import Broken
from staticfire.chaos.evidence import Evidence, QueuePlace, acks_in, commits_in
from staticfire.chaos.usage import LOCKS, POPS, group_in_body, is_client_id, is_plain
from staticfire.protocol import properties as names
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests import journal as kinds
from staticfire.protocol.requests.journal import JournalRecord

SHOWN_MAX = 3
GroupPlace = tuple[str, QueuePlace]


def order(evidence: Evidence) -> list[Broken]:
    """Return the broken promises about order, one for each group and reason."""
    locked = {(event.group, _place(event)) for event in evidence.events if event.kind == kinds.LOCKED}
    return [*_overtaken(evidence, locked), *_unlocked(evidence, locked), *_acknowledged_first(evidence)]


# -- messages that were sent back ----------------------------------------------------------------------------------


def _overtaken(evidence: Evidence, locked: set[GroupPlace]) -> list[Broken]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for event in evidence.events:
        place = _place(event)
        if event.kind != kinds.SENT_BACK or (event.group, place) not in locked or place.broker in evidence.gaps:
            continue
        message = evidence.by_place.get((place, event.queue_offset))
        if message is None or (event.group, message.message_id) in evidence.dead:
            continue
        again_ms = _retried_ms(evidence, event.group, message.message_id)
        first = _finished_meanwhile(evidence, event, place, again_ms)
        if first is not None:
            words = (
                f"{place.topic} queue {place.queue_id}: {first.client} sent offset {event.queue_offset} back, and "
                f"{first.fields.get('commitOffset')} was committed before its retry was delivered"
            )
            found[event.group].append((words, message.message_id))
    return [_broken(group, "sent back", lines) for group, lines in sorted(found.items())]


def _retried_ms(evidence: Evidence, group: str, unique_id: str) -> int:
    """Return when a message was delivered from the retry topic; 0 if it wasn't."""
    topic = retry_topic(group)
    times = [
        one.real_ms
        for copy in evidence.retries.get((group, unique_id), ())
        for one in evidence.deliveries.get((group, QueuePlace(topic, copy.broker_name, copy.queue_id)), ())
        if one.first <= copy.queue_offset < one.end
    ]
    return min(times, default=0)


def _finished_meanwhile(
    evidence: Evidence, event: JournalRecord, place: QueuePlace, again_ms: int
) -> JournalRecord | None:
    """Return the commit with which a later message of the queue was finished before the retry was delivered."""
    later = event.queue_offset + 1
    if (place, later) not in evidence.by_place or not evidence.was_delivered(event.group, place, later):
        return None
    for group, where, offset, one in commits_in(evidence.requests):
        if (group, where) == (event.group, place) and offset > later and event.real_ms <= one.real_ms < again_ms:
            return one
    return None


# -- members that don't lock ---------------------------------------------------------------------------------------


def _unlocked(evidence: Evidence, locked: set[GroupPlace]) -> list[Broken]:
    """Find members that commit what they consume of a topic, and never request a lock, where others lock queues."""
    if evidence.gaps:
        return []
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    ordered = {(group, place.topic) for group, place in locked if is_plain(place.topic)}
    locking = {
        (_group_of_lock(one), client) for one in evidence.requests if one.code == LOCKS for client in _names(one)
    }
    committing = {(group, place, one.client) for group, place, _, one in commits_in(evidence.requests)}
    for (group, place), deliveries in sorted(evidence.deliveries.items()):
        for one in deliveries if (group, place.topic) in ordered else ():
            is_member = (group, place, one.client) in committing and is_client_id(one.client)
            if is_member and (group, one.client) not in locking:
                message = evidence.by_place.get((place, one.first))
                words = f"{one.client} gets offset {one.first} of {place.topic} queue {place.queue_id} without a lock"
                found[group].append((words, "" if message is None else message.message_id))
                break
    return [_broken(group, "not locked", lines) for group, lines in sorted(found.items())]


def _group_of_lock(request: JournalRecord) -> str:
    return request.group or group_in_body(request)


def _names(request: JournalRecord) -> tuple[str, str]:
    """Return the client of a connection, and the one that the request names."""
    body = request.details.get("body")
    return request.client, str(body.get("clientId")) if isinstance(body, dict) else ""


# -- messages that are popped in order -----------------------------------------------------------------------------


def _acknowledged_first(evidence: Evidence) -> list[Broken]:
    popped = {(one.group, one.topic) for one in evidence.requests if one.code == POPS and one.fields.get("order")}
    acked: dict[GroupPlace, dict[int, JournalRecord]] = defaultdict(dict)
    for group, place, offset, one in acks_in(evidence.requests):
        if (group, place.topic) in popped and place.broker not in evidence.gaps:
            acked[group, place].setdefault(offset, one)
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for (group, place), offsets in sorted(acked.items()):
        for earlier, later in _swapped(evidence, group, place, offsets):
            words = (
                f"{place.topic} queue {place.queue_id}: {offsets[later].client} acknowledged offset {later} before "
                f"offset {earlier}, which was delivered again"
            )
            found[group].append((words, evidence.by_place[place, earlier].message_id))
    return [_broken(group, "acknowledged", lines) for group, lines in sorted(found.items())]


def _swapped(
    evidence: Evidence, group: str, place: QueuePlace, offsets: dict[int, JournalRecord]
) -> Iterator[tuple[int, int]]:
    """Yield an earlier and a later offset of the same sharding key, of which the later one was finished first."""
    last: dict[str | None, int] = {}
    for offset in sorted(offset for where, offset in evidence.by_place if where == place):
        key = evidence.by_place[place, offset].get(names.SHARDING_KEY)
        earlier = last.get(key)
        last[key] = offset
        if earlier is None or offset not in offsets:
            continue
        at_ms = offsets[offset].real_ms
        mine = offsets.get(earlier)
        is_later = mine is None or mine.real_ms > at_ms
        deliveries = [
            one.real_ms for one in evidence.deliveries.get((group, place), ()) if one.first <= earlier < one.end
        ]
        if is_later and deliveries and min(deliveries) < at_ms < max(deliveries):
            yield earlier, offset


# ------------------------------------------------------------------------------------------------------------------

_REASONS = {
    "sent back": "it sent messages back, and finished later ones of their queue before their retries",
    "not locked": "not all of its members do: one never locks the queues that it consumes",
    "acknowledged": "messages were acknowledged before earlier ones of their queue, which were delivered again",
}


def _broken(group: str, reason: str, lines: list[tuple[str, str]]) -> Broken:
    shown = tuple(dict.fromkeys(words for words, _ in lines))[:SHOWN_MAX]
    ids = tuple(dict.fromkeys(message_id for _, message_id in lines if message_id))
    return Broken("order", group, f"{group} consumes in order, but {_REASONS[reason]}", shown, ids)


def _place(event: JournalRecord) -> QueuePlace:
    return QueuePlace(event.topic, event.broker, event.queue_id)
