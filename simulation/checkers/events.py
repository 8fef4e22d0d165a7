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
    """At the end, a message lies in a queue."""

    name: str
    place: QueuePlace
    offset: int


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
