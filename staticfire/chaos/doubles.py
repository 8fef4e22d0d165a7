"""Which second messages prove that work was done twice. Pure.

A producer that gets no answer to a send must send again. If its own retries are used up, the program does, and with
most clients that message has another unique id. So an identical second message may be what a right program does after
a lost answer, and it proves nothing as long as the faults of the run can be the reason.
"""

from collections.abc import Mapping, Sequence

from staticfire.chaos.evidence import Evidence, QueuePlace
from staticfire.chaos.striking import Struck
from staticfire.protocol import properties as names
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import retry_topic

LONG = ("freeze", "restart", "kill", "partition", "nameserver", "disk-full")
"""Faults that can lose any number of answers."""
SINGLE = ("lost-answer", "lost-answers", "reset")
"""Faults that lose as many answers as they hit."""
SLOW = ("slow",)
"""Faults that a client with a short timeout takes for lost answers."""

Copies = Mapping[str, list[ReceivedMessage]]


def proven_doubles(
    evidence: Evidence, source: str, sources: Copies, doubles: Copies
) -> dict[str, list[ReceivedMessage]]:
    """Return the values, of those with more than one message, whose second message isn't a repeated send."""
    other = {value: copies for value, copies in doubles.items() if not _are_identical(copies)}
    same = {value: copies for value, copies in doubles.items() if value not in other}
    again = {value: copies for value, copies in same.items() if _times_delivered(evidence, source, sources[value]) > 1}
    once = {value: copies for value, copies in same.items() if value not in again}
    is_long = any(struck.hits for struck in _of(evidence, LONG))
    if is_long:
        return other
    lost = sum(struck.hits for struck in _of(evidence, SINGLE))
    found = dict(other)
    if len(again) + len(once) > lost:
        found |= again
        if not any(struck.hits for struck in _of(evidence, SLOW)):
            found |= once
    return found


def _of(evidence: Evidence, kinds: Sequence[str]) -> list[Struck]:
    return [struck for struck in evidence.struck if struck.strike.kind in kinds]


def _are_identical(copies: Sequence[ReceivedMessage]) -> bool:
    first = copies[0]
    return all(copy.body == first.body and copy.get(names.KEYS) == first.get(names.KEYS) for copy in copies)


def _times_delivered(evidence: Evidence, source: str, copies: Sequence[ReceivedMessage]) -> int:
    """Return how often a group got a message, including its other copies and its retries."""
    most = 0
    for group in evidence.groups_of(source):
        there = [(source, copy) for copy in evidence.stored.topics.get(source, ()) if _is_one_of(copy, copies)]
        there += [
            (retry_topic(group), one) for copy in copies for one in evidence.retries.get((group, copy.message_id), ())
        ]
        times = 0
        for topic, copy in there:
            place = QueuePlace(topic, copy.broker_name, copy.queue_id)
            deliveries = evidence.deliveries.get((group, place), ())
            times += sum(one.first <= copy.queue_offset < one.end for one in deliveries)
        most = max(most, times)
    return most


def _is_one_of(message: ReceivedMessage, copies: Sequence[ReceivedMessage]) -> bool:
    return any(message.message_id == copy.message_id for copy in copies)
