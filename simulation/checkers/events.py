"""What happened in a cluster, as checkers hear of it: one event after the other, in the order of time.

Times are milliseconds since the run began. A message is known by its name, which its producer gave it: `web-1/17`.
"""

from typing import NamedTuple

import msgspec

QueuePlace = tuple[str, str, int]
"""Broker, topic, queue id."""


class RunEvent(msgspec.Struct, frozen=True):
    """Anything that happened."""

    at_ms: int


class SendBegan(RunEvent, frozen=True):
    """A producer sends a message; it may be stored from now on."""

    name: str
    topic: str
    due_ms: int = 0
    """Before that nobody may get it; 0: at once."""
    is_half: bool = False
    """It counts when its transaction is committed."""
    tag: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """Those that groups choose by."""


class SendAcknowledged(RunEvent, frozen=True):
    """A broker said that it has the message."""

    name: str
    place: QueuePlace
    offset: int
    log_position: int
    is_safe: bool = True
    """The answer was SEND_OK, not that the disk was slow."""


class SendFailed(RunEvent, frozen=True):
    """The producer gave up; nobody knows whether the message is stored."""

    name: str
    reason: str


class RecallEnded(RunEvent, frozen=True):
    """A producer has called back a message that waits for its time, and knows what became of that, or nothing."""

    name: str
    outcome: str
    """recalled, refused, unknown"""


class ReplyReceived(RunEvent, frozen=True):
    """A request got a reply; `answers` is the name of the request that the reply was written for."""

    name: str
    answers: str


class TransactionEnded(RunEvent, frozen=True):
    """A program said what becomes of its message; a broker may not have heard it yet."""

    name: str
    is_commit: bool


class Seen(NamedTuple):
    """A message as a listener gets it."""

    name: str
    offset: int
    reconsume_times: int
    is_retry: bool
    """It came by the group's retry topic."""
    popped_ms: int = -1
    """When its broker handed it out, if it was popped."""
    until_ms: int = -1
    """When its broker hands it out again, unless it is told otherwise."""


class CallBegan(RunEvent, frozen=True):
    """A listener was called."""

    call: int
    group: str
    member: str
    place: QueuePlace
    messages: tuple[Seen, ...]
    is_ordered: bool = False


class BroadcastReceived(RunEvent, frozen=True):
    """A member of a group in which each member gets all messages has consumed some."""

    group: str
    member: str
    place: QueuePlace
    messages: tuple[Seen, ...]


class CallEnded(RunEvent, frozen=True):
    """A listener has answered."""

    call: int
    is_success: bool


class FaultBegan(RunEvent, frozen=True):
    """Something is broken from now on."""

    what: str
    target: str


class FaultEnded(RunEvent, frozen=True):
    """It works again."""

    what: str
    target: str


class GoneForGood(RunEvent, frozen=True):
    """A machine will never come back: a broker with its disk, a member, a producer."""

    who: str


class PermissionWithdrawn(RunEvent, frozen=True):
    """An administrator has forbidden something, and all brokers have agreed."""

    what: str
    """writing, reading: of a topic; consuming: of a group"""
    target: str


class PermissionRestored(RunEvent, frozen=True):
    """An administrator begins to allow it again."""

    what: str
    target: str


class QueuesAdded(RunEvent, frozen=True):
    """A topic is about to have so many queues, on each broker."""

    topic: str
    queues: int


class OffsetsReset(RunEvent, frozen=True):
    """A group is to consume again what was stored since some time; all brokers have agreed."""

    group: str
    topic: str
    asked_ms: int
    since_ms: int
    offsets: dict[QueuePlace, int]
    """Where it begins, as brokers said."""


class ProcessBegan(RunEvent, frozen=True):
    """A machine's process is up: a broker, a member, a producer, the nameserver."""

    who: str


class ProcessEnded(RunEvent, frozen=True):
    """It is gone."""

    who: str
    how: str
    """stopped, killed, without power, crashed"""
    safe_position: int = -1
    """Of a broker: up to where its log was synced."""


class OffsetSeen(RunEvent, frozen=True):
    """Where a group stands in a queue, and where that ends."""

    group: str
    place: QueuePlace
    offset: int
    end: int
    life: int
    """Of the broker: after a start it knows what it has saved."""
    is_own: bool = False
    """No member is there: it is what the broker itself has kept."""


class MessageFound(RunEvent, frozen=True):
    """At the end, a message lies in a queue: of a topic, of retries, of dead letters."""

    name: str
    place: QueuePlace
    offset: int
    reconsume_times: int = 0


class LocksSeen(RunEvent, frozen=True):
    """Who holds the queues of an ordered group at a broker: members, by topic and queue id."""

    broker: str
    group: str
    holders: dict[tuple[str, int], str]


class OwnersSeen(RunEvent, frozen=True):
    """At the end, who has which queues of a group's topics."""

    group: str
    owners: dict[QueuePlace, list[str]]


class TablesSeen(RunEvent, frozen=True):
    """How large tables are, in the beginning and in the end, with the same clients at rest."""

    who: str
    sizes: dict[str, int]


class TrafficEnded(RunEvent, frozen=True):
    """Nothing is broken any more, and nothing is sent."""


class Settled(RunEvent, frozen=True):
    """All is consumed, each queue has an owner, nothing waits."""


class NotSettled(RunEvent, frozen=True):
    """The time for that is over."""

    reasons: tuple[str, ...]


class WentWrong(RunEvent, frozen=True):
    """Something failed that must never fail: a crash, an exception that nobody noticed, what was left over."""

    who: str
    words: str
