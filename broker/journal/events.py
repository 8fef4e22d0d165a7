"""Notes the events of members, queues and messages: one method per kind of event. docs/journal.md describes each.

Deliveries are frequent, one for each response to a pull. So the pull handler notes them itself, with `PullNotes`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from staticfire.broker.groups.consumers import ConsumerGroup, Member
from staticfire.broker.groups.retries import DeadLetterStored, SentBack
from staticfire.broker.journal.ring import RecordRing
from staticfire.protocol.codes import name_of_request
from staticfire.protocol.requests import journal as kinds
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.clock import FROZEN, SKIPPING, ClockReading
from staticfire.protocol.requests.locks import MessageQueue
from staticfire.protocol.requests.pull import PullMessage
from staticfire.runtime.machine import Clock

if TYPE_CHECKING:
    from staticfire.faults.matching import Subject
    from staticfire.protocol.requests.faults import FaultRule

DEAD = -1
"""The delay level of a message that is never redelivered."""


class NotedDelivery(msgspec.Struct, array_like=True, gc=False, tag=1):
    """A delivery: a pull was answered with messages."""

    uptime_ns: int
    client: str
    group: str
    topic: str
    queue_id: int
    queue_offset: int
    end_offset: int
    count: int


class NotedEvent(msgspec.Struct, array_like=True, gc=False, tag=2):
    """Any other event. `details`: by name, as in docs/journal.md."""

    uptime_ns: int
    kind: str
    client: str = ""
    group: str = ""
    topic: str = ""
    queue_id: int = -1
    queue_offset: int = -1
    details: dict[str, Any] = {}


Noted = NotedDelivery | NotedEvent


class PullNotes(NamedTuple):
    """What a handler needs to note deliveries itself: this is a hot path, and saves a Python function call."""

    note: Callable[[Any], object]
    make: type[NotedDelivery]
    uptime_ns: Callable[[], int]
    took_over: Callable[[str, PullMessage, str], None]


class EventJournal:
    """Notes events in a ring."""

    def __init__(self, ring: RecordRing, clock: Clock) -> None:
        self._note = ring.append
        self._uptime_ns = clock.uptime_ns
        self.pulls = PullNotes(ring.append, NotedDelivery, clock.uptime_ns, self._took_over)

    def _took_over(self, client: str, request: PullMessage, before: str) -> None:
        """A pull came from another client than the last pull of its queue."""
        group, topic, queue_id = request.consumer_group, request.topic, request.queue_id
        self._say(kinds.TOOK_OVER, client, group, topic, queue_id, request.queue_offset, before=before)

    # -- members -------------------------------------------------------------------------------------------------

    def joined(self, group: ConsumerGroup, member: Member) -> None:
        """A client became a member."""
        peer = member.connection.peer
        self._say(
            kinds.JOINED,
            member.client_id,
            group.name,
            address=peer.address,
            clientVersion=peer.version,
            consumeType=member.data.consume_type or "",
            messageModel=member.data.message_model or "",
            consumeFromWhere=member.data.consume_from_where or "",
            subscriptions={topic: one.sub_string for topic, one in member.subscriptions.items()},
            members=len(group.channel_info_table),
            counts=member.counts,
        )

    def left(self, group: str, client_id: str, reason: str, members: int) -> None:
        """A member left: it unregistered, its connection was lost, or it sent no heartbeat for too long."""
        self._say(kinds.LEFT, client_id, group, reason=reason, members=members)

    def subscribed(self, group: str, client_id: str, topic: str, new: SubscriptionData | None, old: str) -> None:
        """A member changed its subscription to a topic. `new` is None if it unsubscribed."""
        expression, version = ("", 0) if new is None else (new.sub_string, new.sub_version)
        self._say(kinds.SUBSCRIBED, client_id, group, topic, expression=expression, version=version, before=old)

    # -- queues --------------------------------------------------------------------------------------------------

    def locked(self, group: str, client_id: str, queue: MessageQueue, before: str) -> None:
        """A client locked a queue. `before`: the client that held the lock until it expired."""
        self._say(kinds.LOCKED, client_id, group, queue.topic, queue.queue_id, before=before)

    def unlocked(self, group: str, client_id: str, queue: MessageQueue, reason: str) -> None:
        """A lock ended: it was released, or it expired."""
        self._say(kinds.UNLOCKED, client_id, group, queue.topic, queue.queue_id, reason=reason)

    def reset(self, group: str, topic: str, queue_id: int, offset: int, before: int) -> None:
        """An administrator moved a group."""
        self._say(kinds.RESET_OFFSET, "", group, topic, queue_id, offset, before=before)

    # -- automatic creation --------------------------------------------------------------------------------------

    def topic_made(self, topic: str, queues: int) -> None:
        """A topic was created automatically, by a send."""
        self._say(kinds.TOPIC_MADE, "", "", topic, queues=queues)

    def group_made(self, group: str) -> None:
        """A group was created automatically, by a consumer."""
        self._say(kinds.GROUP_MADE, "", group)

    def began(self, group: str, topic: str, queue_id: int, offset: int, wanted: str) -> None:
        """A group without an offset begins in a queue. -1: the client chooses the place, as in `wanted`."""
        self._say(kinds.BEGAN, "", group, topic, queue_id, offset, consumeFromWhere=wanted)

    # -- access --------------------------------------------------------------------------------------------------

    def saw_key(self, client: str, access_key: str) -> None:
        """A client used an access key for the first time on its connection."""
        self._say(kinds.KEY_SEEN, client, accessKey=access_key)

    # -- faults --------------------------------------------------------------------------------------------------

    def rule_hit(self, rule: "FaultRule", direction: str, subject: "Subject") -> None:
        """A fault rule hit a request, its response, or one of the broker's own requests."""
        self._say(
            kinds.RULE_HIT,
            subject.client or subject.address,
            next(iter(subject.groups), ""),
            next(iter(subject.topics), ""),
            subject.queue_id,
            rule=rule.number,
            action=rule.action,
            direction=direction,
            code=name_of_request(subject.code) if subject.code >= 0 else "",
        )

    # -- messages ------------------------------------------------------------------------------------------------

    def sent_back(self, sent: SentBack) -> None:
        """A consumer sent a message back, and it was stored for a retry, or refused."""
        self._say(
            kinds.SENT_BACK,
            sent.client_id or sent.client,
            sent.group,
            sent.topic,
            sent.queue_id,
            sent.queue_offset,
            messageId=sent.origin_message_id,
            originTopic=sent.origin_topic,
            reconsumeTimes=sent.reconsume_times,
            delayLevel=DEAD if sent.delay_level is None else sent.delay_level,
            status=sent.status,
        )

    def died(self, letter: DeadLetterStored) -> None:
        """A message became a dead letter. Topic and offset are those of the dead letter."""
        details = {"messageId": letter.message_id, "originTopic": letter.origin_topic}
        self._say(kinds.DIED, "", letter.group, letter.topic, letter.queue_id, letter.queue_offset, **details)

    # -- the broker ----------------------------------------------------------------------------------------------

    def started(self, address: str, version: int) -> None:
        """The broker began to listen."""
        self._say(kinds.STARTED, address=address, version=version)

    def tls_refused(self, address: str, reason: str) -> None:
        """A connection was closed, because its TLS failed, or because it spoke TLS or plain text where it must not."""
        self._say(kinds.TLS_REFUSED, address, reason=reason)

    def forgotten(self) -> None:
        """All messages, topics, groups and offsets were removed."""
        self._say(kinds.FORGOTTEN)

    def clock_set(self, reading: ClockReading) -> None:
        """Message time was set, frozen or changed its rate."""
        is_advance = reading.rate_after > 0 and reading.mode != SKIPPING
        self._say(kinds.CLOCK_SET, mode=FROZEN if is_advance else reading.mode, rate=reading.rate)

    # -- replication -----------------------------------------------------------------------------------------------

    def role_changed(self, role: str, broker_id: int, epoch: int, reason: str, removed_records: int) -> None:
        """The broker became a master or a slave."""
        self._say(
            kinds.ROLE_CHANGED,
            role=role,
            brokerId=broker_id,
            epoch=epoch,
            reason=reason,
            removedRecords=removed_records,
        )

    def slave_joined(self, broker_id: int, address: str, position: int) -> None:
        """A slave began to copy the log of this master from a position on."""
        self._say(kinds.SLAVE_JOINED, brokerId=broker_id, address=address, position=position)

    def slave_left(self, broker_id: int, position: int) -> None:
        """A slave copies no more. It had stored the log up to a position."""
        self._say(kinds.SLAVE_LEFT, brokerId=broker_id, position=position)

    def copy_controlled(self, hold: bool, lag_ms: int) -> None:
        """The copy of this slave was held, released or delayed."""
        self._say(kinds.COPY_CONTROLLED, hold=hold, lagMs=lag_ms)

    def _say(
        self,
        kind: str,
        client: str = "",
        group: str = "",
        topic: str = "",
        queue_id: int = -1,
        queue_offset: int = -1,
        **details: Any,
    ) -> None:
        self._note(NotedEvent(self._uptime_ns(), kind, client, group, topic, queue_id, queue_offset, details))
