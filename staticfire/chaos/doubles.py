"""Which second messages prove that work was done twice. Pure.

A producer that gets no answer to a send must send again. If its own retries are used up, the program does, and with
most clients that message has another unique id. So an identical second message may be what a right program does after
a lost answer. It proves nothing if a fault can have taken the answers to the first one, which `LostAnswers` decides.
"""

from collections.abc import Mapping, Sequence

from staticfire.chaos.evidence import Evidence, QueuePlace
from staticfire.chaos.lost_answers import LostAnswers
from staticfire.protocol import properties as names
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import retry_topic

Copies = Mapping[str, list[ReceivedMessage]]


def proven_doubles(
    evidence: Evidence, source: str, sources: Copies, doubles: Copies
) -> dict[str, list[ReceivedMessage]]:
    """Return the values, of those with more than one message, whose second message isn't a repeated send."""
    lost = LostAnswers(evidence)
    proven = set()
    # A second delivery explains a second message, too. So the hits of faults go first to those without one.
    for value in sorted(doubles, key=lambda value: _times_delivered(evidence, source, sources[value])):
        copies = doubles[value]
        if not _are_identical(copies) or not all(lost.explain(copy) for copy in copies[:-1]):
            proven.add(value)
    return {value: copies for value, copies in doubles.items() if value in proven}


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
