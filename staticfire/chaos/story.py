"""The life of one message in a run, from what the brokers saw: a line for each thing that happened to it. Pure."""

from typing import NamedTuple

from staticfire.chaos.evidence import Evidence, QueuePlace, commits_in
from staticfire.chaos.sends import sends_in
from staticfire.protocol import properties as names
from staticfire.protocol.requests import journal as kinds

LINES_MAX = 40
ROUNDED_MS = 1


class Chapter(NamedTuple):
    """One thing that happened to a message."""

    real_ms: int
    words: str


def story(evidence: Evidence, message_id: str) -> list[Chapter]:
    """Return what happened to a message with this unique id, oldest first."""
    chapters = [
        # The times of a request and of its message are rounded separately.
        Chapter(one.real_ms - ROUNDED_MS, f"{one.client} sends it to {one.topic}")
        for one in sends_in(evidence.requests)
        if one.message_id == message_id
    ]
    copies = [
        (place, offset, one) for (place, offset), one in evidence.by_place.items() if one.message_id == message_id
    ]
    for place, offset, message in copies:
        words = f"stored in {place.topic}, queue {place.queue_id} of {place.broker}, at offset {offset}"
        chapters.append(Chapter(message.stored_ms, words))
        chapters += _of_copy(evidence, place, offset)
    chapters += [
        Chapter(one.real_ms, f"it becomes a dead letter of {one.group}")
        for one in evidence.events
        if one.kind == kinds.DIED and one.details["messageId"] == message_id
    ]
    return sorted(chapters)[:LINES_MAX]


def title(evidence: Evidence, message_id: str) -> str:
    """Return a message in a few words: its topic and key."""
    for (place, _), message in evidence.by_place.items():
        if message.message_id == message_id and not place.topic.startswith("%"):
            key = message.get(names.KEYS)
            return f"{place.topic}: {f'key {key}, ' if key else ''}id {message_id}"
    return f"id {message_id}"


def _of_copy(evidence: Evidence, place: QueuePlace, offset: int) -> list[Chapter]:
    chapters = []
    for (group, other), deliveries in evidence.deliveries.items():
        if other == place:
            chapters += [
                Chapter(one.real_ms, f"delivered to {one.client} in {group}")
                for one in deliveries
                if one.first <= offset < one.end
            ]
    passed = set()
    for group, other, committed, one in commits_in(evidence.requests):
        if other == place and committed > offset and group not in passed:
            passed.add(group)
            chapters.append(
                Chapter(one.real_ms, f"{one.client} commits {committed} for {group}: it counts as consumed")
            )
    for one in evidence.requests:
        if one.code == "ACK_MESSAGE" and (one.topic, one.broker, one.queue_id, one.queue_offset) == (*place, offset):
            chapters.append(Chapter(one.real_ms, f"{one.client} acknowledges it for {one.group}"))
    for event in evidence.events:
        is_here = (event.topic, event.broker, event.queue_id, event.queue_offset) == (*place, offset)
        if event.kind == kinds.SENT_BACK and is_here:
            chapters.append(Chapter(event.real_ms, f"{event.client} sends it back: it failed"))
    return chapters
