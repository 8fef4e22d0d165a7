"""What the brokers saw of one run, in tables. Pure.

What may be concluded from it, and what not:

- A listener's end is seen only as a commit, a send-back or an acknowledgement. That a listener has *worked* isn't seen:
  a message that was committed before the work, or whose error was swallowed, looks finished. Only what the program
  sends (`--each`), its exit code, or `--at-rest` shows that.
- A message that is delivered and never finished is *open* at the end of a program, not lost: RocketMQ delivers it again
  to the next one. Open messages are counted, and nothing is concluded from them, except for a program that still runs
  when all faults are over and the settling time has passed.
- A fault can drop the request of a commit. So a commit counts when the client *requested* it, stored or not.
- A broker that is killed loses the newest part of its journal. Then nothing is concluded from what is missing in it.
- Two copies of a message with the same unique id are the producer's own retry, and one message.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from staticfire.chaos.injection import InjectedFault
from staticfire.chaos.stored import StoredMessages
from staticfire.chaos.usage import COMMITS, PULLS, group_in_body
from staticfire.protocol.batch_acks import read_entry
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.names import retry_topic
from staticfire.protocol.requests import journal as kinds
from staticfire.protocol.requests.journal import JournalRecord

COMMIT_FLAG = 1
"""In the system flag of a pull: it commits an offset, too."""


class QueuePlace(NamedTuple):
    """One queue of one broker."""

    topic: str
    broker: str
    queue_id: int


class SeenDelivery(NamedTuple):
    """Messages that a member of a group got at once."""

    first: int
    end: int
    client: str
    real_ms: int


@dataclass
class Evidence:
    """One run of the program, as the brokers saw it."""

    events: Sequence[JournalRecord]
    requests: Sequence[JournalRecord]
    stored: StoredMessages
    exit_code: int | None
    """None if it was still running at the limit."""
    began_ms: int = 0
    ended_ms: int = 0
    injected: Sequence[InjectedFault] = ()
    gaps: frozenset[str] = frozenset()
    open_at_limit: dict[tuple[str, str], int] = field(default_factory=dict)
    """For a program that still ran: what each group had left of each topic after the settling time."""
    at_rest: int | None = None
    """The exit code of the condition's command."""
    output: str = ""
    earlier: tuple[Sequence[JournalRecord], Sequence[JournalRecord]] = ((), ())
    """Events and requests from before the last reset of the cluster. Nothing of that time is stored any more."""
    was_stopped: bool = False
    """The user has stopped the program, so it had no time to finish anything, or the condition's command."""
    at_rest_is_late: bool = False
    """The condition's command was still running at its limit."""
    limit_ms: int = 0
    """When the limit was reached, or the user stopped the program: then all faults end. 0: the program ended before."""

    @property
    def seconds(self) -> float:
        return (self.ended_ms - self.began_ms) / 1_000

    @cached_property
    def deliveries(self) -> dict[tuple[str, QueuePlace], list[SeenDelivery]]:
        """All deliveries by group and queue."""
        found: dict[tuple[str, QueuePlace], list[SeenDelivery]] = defaultdict(list)
        for event in self.events:
            if event.kind == kinds.DELIVERED:
                place = QueuePlace(event.topic, event.broker, event.queue_id)
                delivery = SeenDelivery(event.queue_offset, event.details["endOffset"], event.client, event.real_ms)
                found[event.group, place].append(delivery)
        return found

    @cached_property
    def claimed(self) -> dict[tuple[str, QueuePlace], int]:
        """The highest offset that clients have requested to commit, by group and queue."""
        found: dict[tuple[str, QueuePlace], int] = {}
        for group, place, offset, _ in commits_in(self.requests):
            found[group, place] = max(found.get((group, place), 0), offset)
        return found

    @cached_property
    def acked(self) -> set[tuple[str, QueuePlace, int]]:
        """The acknowledged messages by group, queue and offset."""
        return {(group, place, offset) for group, place, offset, _ in acks_in(self.requests)}

    @cached_property
    def by_place(self) -> dict[tuple[QueuePlace, int], ReceivedMessage]:
        """All stored messages by queue and offset."""
        return {
            (QueuePlace(topic, message.broker_name, message.queue_id), message.queue_offset): message
            for topic, messages in self.stored.topics.items()
            for message in messages
        }

    @cached_property
    def sent_back(self) -> dict[str, Counter[str]]:
        """By group, how often each message was sent back, by its unique id. Dead ones count."""
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for event in self.events:
            if event.kind == kinds.SENT_BACK and event.details.get("status") == "SUCCESS":
                place = QueuePlace(event.topic, event.broker, event.queue_id)
                message = self.by_place.get((place, event.queue_offset))
                if message is not None:
                    found[event.group][message.message_id] += 1
        return found

    @cached_property
    def dead(self) -> set[tuple[str, str]]:
        """Group and unique id of each dead letter."""
        return {(event.group, event.details["messageId"]) for event in self.events if event.kind == kinds.DIED}

    @cached_property
    def retries(self) -> dict[tuple[str, str], list[ReceivedMessage]]:
        """The stored retries by group and unique id."""
        found: dict[tuple[str, str], list[ReceivedMessage]] = defaultdict(list)
        for group in self.groups:
            for message in self.stored.topics.get(retry_topic(group), ()):
                found[group, message.message_id].append(message)
        return found

    @cached_property
    def groups(self) -> list[str]:
        """All groups that were delivered anything, sorted."""
        return sorted({group for group, _ in self.deliveries})

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that consume a topic."""
        return sorted({group for group, place in self.deliveries if place.topic == topic})

    def hits_of(self, injected: InjectedFault) -> list[int]:
        """Return when the rule of a fault has hit requests, by the brokers' wall clocks."""
        return [
            one.real_ms for one in self.events if one.kind == kinds.RULE_HIT and one.details["rule"] in injected.rules
        ]

    def was_delivered(self, group: str, place: QueuePlace, offset: int) -> bool:
        return any(one.first <= offset < one.end for one in self.deliveries.get((group, place), ()))


def since_reset(
    events: Sequence[JournalRecord], requests: Sequence[JournalRecord]
) -> tuple[Sequence[JournalRecord], Sequence[JournalRecord], tuple[Sequence[JournalRecord], Sequence[JournalRecord]]]:
    """Return events and requests since the last reset of a broker, and the earlier ones."""
    reset_ms = max((one.real_ms for one in events if one.kind == kinds.FORGOTTEN), default=0)
    if not reset_ms:
        return events, requests, ((), ())
    later = [[one for one in records if one.real_ms > reset_ms] for records in (events, requests)]
    earlier = [[one for one in records if one.real_ms <= reset_ms] for records in (events, requests)]
    return later[0], later[1], (earlier[0], earlier[1])


DONE, OPEN, BURIED, SKIPPED = "done", "open", "buried", "skipped"


def fate(evidence: Evidence, group: str, message: ReceivedMessage, topic: str) -> str:
    """Return the state of a stored message for a group, as brokers see it: done, open, dead (BURIED) or skipped."""
    place = QueuePlace(topic, message.broker_name, message.queue_id)
    offset, unique_id = message.queue_offset, message.message_id
    if (group, unique_id) in evidence.dead:
        return BURIED
    if (group, place, offset) in evidence.acked:
        return DONE
    if evidence.claimed.get((group, place), 0) <= offset:
        return OPEN
    if not evidence.was_delivered(group, place, offset):
        return OPEN if place.broker in evidence.gaps else SKIPPED
    returned = evidence.sent_back.get(group, Counter())[unique_id]
    if not returned or topic == retry_topic(group):
        return DONE
    copies = evidence.retries.get((group, unique_id), [])
    if len(copies) < returned or place.broker in evidence.gaps:
        return OPEN
    fates = [fate(evidence, group, copy, retry_topic(group)) for copy in copies]
    return DONE if all(one == DONE for one in fates) else OPEN


def commits_in(requests: Sequence[JournalRecord]) -> list[tuple[str, QueuePlace, int, JournalRecord]]:
    """Return all requests to commit an offset: group, queue, offset, request."""
    found = []
    for one in requests:
        is_pull = one.code in PULLS
        if not is_pull and one.code != COMMITS:
            continue
        if is_pull and not int(one.fields.get("sysFlag") or 0) & COMMIT_FLAG:
            continue
        offset = one.fields.get("commitOffset")
        if isinstance(offset, int) and offset > 0:
            found.append((one.group, QueuePlace(one.topic, one.broker, one.queue_id), offset, one))
    return found


def committing_in(requests: Sequence[JournalRecord]) -> set[str]:
    """Return the groups that commit offsets. A member whose listener hangs from the start commits 0."""
    return {one.group for one in requests if one.code == COMMITS} | {group for group, *_ in commits_in(requests)}


def acks_in(requests: Sequence[JournalRecord]) -> Iterator[tuple[str, QueuePlace, int, JournalRecord]]:
    """Yield all acknowledged messages: group, queue, offset, request."""
    for one in requests:
        if one.code == "ACK_MESSAGE":
            yield one.group, QueuePlace(one.topic, one.broker, one.queue_id), one.queue_offset, one
        elif one.code == "BATCH_ACK_MESSAGE":
            for acked in _acked_in(one):
                yield *acked, one


def _acked_in(request: JournalRecord) -> list[tuple[str, QueuePlace, int]]:
    """Return what a batch acknowledges."""
    body = request.details.get("body")
    found = []
    for entry in body.get("acks") or () if isinstance(body, dict) else ():
        try:
            acked = read_entry(entry, request.broker)
        except ProtocolError:
            continue
        group = acked.group or group_in_body(request)
        place = QueuePlace(acked.handle.real_topic(acked.topic, group), request.broker, acked.handle.queue_id)
        found += [(group, place, offset) for offset in acked.queue_offsets]
    return found
