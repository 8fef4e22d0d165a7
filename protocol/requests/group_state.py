"""The state of a group on its broker: its members, which of them get queues, and its problems. staticfire's own."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.clients import GroupFinding

OFFSET_RUNS_MAX = 1_000


class MemberState(msgspec.Struct, rename="camel", gc=False):
    """One member. Times are those of the broker's wall clock."""

    client_id: str
    counts: bool = True
    """Whether it gets its share of the queues. In a protected group, new members must wait."""
    in_order: bool | None = None
    """Whether it consumes in order, if that is known."""
    joined_ms: Int64 = 0
    last_seen_ms: Int64 = 0
    access_key: str = ""
    """The access key of its requests, if it uses one."""


class LockState(msgspec.Struct, rename="camel", gc=False):
    """A queue that a client has locked."""

    topic: str
    queue_id: Int32
    client_id: str
    age_ms: Int64
    """The time since it was last renewed."""
    waiting: list[str] = []
    """The clients whose lock requests were refused meanwhile."""


class HeldState(msgspec.Struct, rename="camel", gc=False):
    """A pull that waits for a message."""

    topic: str
    queue_id: Int32
    offset: Int64
    client_id: str


class WaitingState(msgspec.Struct, rename="camel", gc=False):
    """Messages of a topic that consumers can't get yet."""

    topic: str
    kind: str
    """`level` (a retry, or sent with a delay level), `timer` (sent with its own time), `transaction` (not ended)."""
    count: Int64
    next_ms: Int64
    """When the first of them is due, or its transaction is checked, in message time."""
    is_all: bool = True
    """False: there may be more, because the search ended at a limit."""


class PoppedState(msgspec.Struct, rename="camel", gc=False):
    """Messages of a queue that were popped and aren't acknowledged. Times are message time."""

    topic: str
    queue_id: Int32
    count: Int64
    clients: list[str]
    """The clients that have them; disconnected ones aren't listed."""
    since_ms: Int64
    """When the first of them was taken."""
    next_ms: Int64
    """When the first of them are redelivered."""
    last_ms: Int64
    """When the last of them are redelivered."""
    offsets: list[list[Int64]] = []
    """Which messages: the first and the last offset of each run, ascending, up to OFFSET_RUNS_MAX runs."""
    failed: bool = False
    """Whether a push consumer has given them back: it has stopped processing them, and they wait for their next try."""


class ReturnedState(msgspec.Struct, rename="camel", gc=False):
    """A queue of a POP retry topic, whose messages were popped, not acknowledged in time, and are redelivered."""

    topic: str
    queue_id: Int32
    committed: Int64
    end: Int64


class RefusedState(msgspec.Struct, rename="camel", gc=False):
    """A client whose pulls were refused because its subscription differs from the group's."""

    topic: str
    client_id: str
    count: Int64
    last_ms: Int64
    """In the broker's wall-clock time."""
    words: str


class ResetState(msgspec.Struct, rename="camel", gc=False):
    """A queue in which an administrator has reset the group's offset since the broker was started."""

    topic: str
    queue_id: Int32
    before: Int64
    """The committed offset before the reset; -1 if there was none."""
    offset: Int64
    age_ms: Int64
    """The time since the reset."""
    is_pending: bool = False
    """Whether no member has applied it yet."""


class GroupState(msgspec.Struct, rename="camel", gc=False):
    """A group on one broker."""

    members: list[MemberState] = []
    findings: list[GroupFinding] = []
    wall_ms: Int64 = 0
    """The time of the broker's wall clock."""
    locks: list[LockState] = []
    held: list[HeldState] = []
    waiting: list[WaitingState] = []
    message_ms: Int64 = 0
    """The broker's message time."""
    clock_mode: str = ""
    """The mode of message time, such as `frozen`."""
    answers_pulls: bool = True
    """False: brokerPermission forbids all reading."""
    popped: list[PoppedState] = []
    """What was popped, but not in order: the group's offsets are past these messages."""
    returned: list[ReturnedState] = []
    refused: list[RefusedState] = []
    resets: list[ResetState] = []
    popped_in_order: list[PoppedState] = []
    """What was popped in order, without its offsets: the group's offsets are before it, and the queues wait for it."""


class GroupStateAnswer(Answer, rename="camel"):
    """A group on one broker."""

    body_type: ClassVar[Any] = GroupState


@request(RequestCode.GET_GROUP_STATE, answer=GroupStateAnswer)
class GetGroupState(Request, rename="camel"):
    """Query the members of a group and its problems; no members for one that isn't online.

    `topics`, joined by commas: the topics for which waiting messages are searched, in addition to those that the
    members subscribe to. None: they aren't searched, which saves reading them.
    """

    group: str
    topics: str | None = None
