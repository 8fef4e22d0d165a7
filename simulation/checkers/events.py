"""The events of a cluster that checkers get, one after the other, in order of time.

Times are milliseconds since the run began. A message is identified by the name that its producer gave it: `web-1/17`.
"""

from typing import NamedTuple

import msgspec

QueuePlace = tuple[str, str, int]
"""Broker, topic, queue id."""


class RunEvent(msgspec.Struct, frozen=True):
    """The base of all events."""

    at_ms: int


class SendBegan(RunEvent, frozen=True):
    """A producer begins to send a message; it may be stored from now on."""

    name: str
    topic: str
    due_ms: int = 0
    """No member may get it before this time; 0: no limit."""
    is_half: bool = False
    """It may be delivered only after its transaction is committed."""
    tag: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    """The properties by which groups filter."""
    body_crc: int = -1
    """The CRC-32 of the body; -1: unknown."""
    key: int = -1
    """The key by which its queue is chosen; -1: none."""


class SendAcknowledged(RunEvent, frozen=True):
    """A broker has acknowledged the message."""

    name: str
    place: QueuePlace
    offset: int
    log_position: int
    is_safe: bool = True
    """The response was SEND_OK, and not a timeout of the disk."""
    message_id: str = ""


class SendFailed(RunEvent, frozen=True):
    """The producer gave up; it is unknown whether the message is stored."""

    name: str
    reason: str


class RecallBegan(RunEvent, frozen=True):
    """A program recalls a delayed message. If the program is killed before the response, nothing follows."""

    name: str


class RecallEnded(RunEvent, frozen=True):
    """The recall of a delayed message has ended."""

    name: str
    outcome: str
    """recalled, refused, unknown (no response)"""


class ReplyReceived(RunEvent, frozen=True):
    """A request got a reply. `answers`: the name of the request for which the reply was written."""

    name: str
    answers: str


class TransactionEnded(RunEvent, frozen=True):
    """A program decided the transaction of its message; the broker may not have been notified yet."""

    name: str
    is_commit: bool


class Content(NamedTuple):
    """What a message is, wherever it is stored."""

    topic: str
    """As its program sees it, with the namespace."""
    tag: str
    body_crc: int
    """The CRC-32 of the body, after it was expanded."""
    born_ms: int
    message_id: str


class Seen(NamedTuple):
    """A message as a listener gets it."""

    name: str
    offset: int
    reconsume_times: int
    is_retry: bool
    """It came from the group's retry topic."""
    popped_ms: int = -1
    """When its broker delivered it, if it was popped."""
    until_ms: int = -1
    """When its invisible time ends, unless that is changed."""
    content: Content | None = None
    """None: unknown."""


class CallBegan(RunEvent, frozen=True):
    """A listener was called."""

    call: int
    group: str
    member: str
    place: QueuePlace
    messages: tuple[Seen, ...]
    is_ordered: bool = False


class BroadcastReceived(RunEvent, frozen=True):
    """A member of a broadcasting group has consumed messages."""

    group: str
    member: str
    place: QueuePlace
    messages: tuple[Seen, ...]


class CallEnded(RunEvent, frozen=True):
    """A listener has returned."""

    call: int
    is_success: bool


class FaultBegan(RunEvent, frozen=True):
    """A fault begins."""

    what: str
    target: str


class FaultEnded(RunEvent, frozen=True):
    """A fault ends."""

    what: str
    target: str


class GoneForGood(RunEvent, frozen=True):
    """A machine never comes back: a broker with its disk, a member, a producer."""

    who: str


class PermissionWithdrawn(RunEvent, frozen=True):
    """An administrator has forbidden something, and all brokers have confirmed it."""

    what: str
    """writing, reading: of a topic; writing queues: of its last queues; consuming: of a group"""
    target: str
    first_queue: int = 0
    """The first of the last queues."""


class PermissionRestored(RunEvent, frozen=True):
    """An administrator starts to allow it again."""

    what: str
    target: str


class QueuesAdded(RunEvent, frozen=True):
    """The number of a topic's queues on each broker is about to increase."""

    topic: str
    queues: int


class OffsetsReset(RunEvent, frozen=True):
    """A group's offsets were reset to some time; all brokers have confirmed it."""

    group: str
    topic: str
    requested_ms: int
    since_ms: int
    offsets: dict[QueuePlace, int]
    """The new offsets, as the brokers reported them."""


class ProcessBegan(RunEvent, frozen=True):
    """A machine's process has started: a broker, a member, a producer, the nameserver."""

    who: str


class ProcessEnded(RunEvent, frozen=True):
    """A machine's process has ended."""

    who: str
    how: str
    """stopping, stopped, killed, without power, crashed; of a broker with slaves also what losses.py has"""
    safe_position: int = -1
    """For a broker: the position up to which its log was synced, or which its next master has."""


class MasterSeen(RunEvent, frozen=True):
    """A machine takes itself for the master of a broker with slaves."""

    broker: str
    machine: str
    epoch: int
    """0: it never had a slave."""
    set_id: str = ""
    """Of the log: a broker all of whose machines lost their disks begins another one, with the first epoch."""
    end: int = -1
    """Where the log ends; -1: unknown."""


class ReplicaLog(NamedTuple):
    """The log of one machine of a broker with slaves."""

    role: str
    epoch: int
    end: int
    digest: str
    """Of all bytes that every machine of the broker still has."""
    problem: str
    """Why it doesn't copy its master; empty if it does, or is the master."""


class ReplicasSeen(RunEvent, frozen=True):
    """At the end, the logs of all machines of a broker with slaves."""

    broker: str
    logs: dict[str, ReplicaLog]


class TopicChanged(RunEvent, frozen=True):
    """An administrator has created, changed or deleted a topic of a broker with slaves."""

    broker: str
    topic: str
    queues: int
    """0: it is deleted."""
    began_ms: int
    is_acknowledged: bool
    """If not, the topic may be as it was before, or as requested."""


class TopicsSeen(RunEvent, frozen=True):
    """At the end, the topics of a broker with slaves that administrators changed, and the numbers of their queues."""

    broker: str
    queues: dict[str, int]


class OffsetSeen(RunEvent, frozen=True):
    """A group's offset in a queue, and the end of the queue."""

    group: str
    place: QueuePlace
    offset: int
    end: int
    life: int
    """The number of the broker's process: after a start a broker has the offsets that it saved."""
    is_own: bool = False
    """No member is running, so this is what the broker itself has kept."""


class MessageFound(RunEvent, frozen=True):
    """At the end, a message is stored in a queue of a topic, of retries, or of dead letters."""

    name: str
    place: QueuePlace
    offset: int
    reconsume_times: int = 0
    content: Content | None = None
    """None: unknown."""


class LookedUp(RunEvent, frozen=True):
    """At the end, an administrator has looked for a message by its unique id or its key."""

    name: str
    text: str
    """The id or key."""
    topic: str
    """Where it was looked for; empty: in all topics."""
    found: tuple[tuple[str, QueuePlace, int], ...]
    """Names of messages, and their queues and offsets."""
    problem: str = ""
    """Why the search failed, or is incomplete."""


class LocksSeen(RunEvent, frozen=True):
    """The members that hold the queues of an ordered group at a broker, by topic and queue id."""

    broker: str
    group: str
    holders: dict[tuple[str, int], str]


class OwnersSeen(RunEvent, frozen=True):
    """At the end, the owners of the queues of a group's topics."""

    group: str
    owners: dict[QueuePlace, list[str]]


class TablesSeen(RunEvent, frozen=True):
    """The sizes of tables, at the beginning and at the end, with the same clients at rest."""

    who: str
    sizes: dict[str, int]


class TrafficEnded(RunEvent, frozen=True):
    """All faults have ended, and nothing is sent any more."""


class Settled(RunEvent, frozen=True):
    """Everything is consumed, each queue has an owner, nothing waits."""


class NotSettled(RunEvent, frozen=True):
    """The cluster didn't settle within its time limit."""

    reasons: tuple[str, ...]


class WentWrong(RunEvent, frozen=True):
    """A failure that must never occur: a crash, an unnoticed exception, something left over."""

    who: str
    words: str
