"""A group as its broker sees it: members, which of them count, and what is wrong. staticfire's own."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.clients import GroupFinding

OFFSET_RUNS_MAX = 1_000


class MemberState(msgspec.Struct, rename="camel", gc=False):
    """One member. Times are of the broker's wall clock."""

    client_id: str
    counts: bool = True
    """Whether it has its share of the queues; a protected group lets new ones wait."""
    in_order: bool | None = None
    """Whether it listens in order, if that is known."""
    joined_ms: Int64 = 0
    last_seen_ms: Int64 = 0


class LockState(msgspec.Struct, rename="camel", gc=False):
    """A queue that a client has locked."""

    topic: str
    queue_id: Int32
    client_id: str
    age_ms: Int64
    """How long ago that was renewed."""
    waiting: list[str] = []
    """Clients that were refused meanwhile."""


class HeldState(msgspec.Struct, rename="camel", gc=False):
    """A pull that waits for a message."""

    topic: str
    queue_id: Int32
    offset: Int64
    client_id: str


class WaitingState(msgspec.Struct, rename="camel", gc=False):
    """Messages for a topic that consumers can't have yet."""

    topic: str
    kind: str
    """`level` (a retry, or sent with a delay level), `timer` (with a time of its own), `transaction` (not ended)."""
    count: Int64
    next_ms: Int64
    """When the first of them is due, or is asked about, in message time."""
    is_all: bool = True
    """False: there may be more; looking ended at a limit."""


class PoppedState(msgspec.Struct, rename="camel", gc=False):
    """Messages of a queue that were popped and aren't acknowledged, and aren't popped in order. Times: message time."""

    topic: str
    queue_id: Int32
    count: Int64
    clients: list[str]
    """Who has them; whoever is gone isn't named."""
    since_ms: Int64
    """When the first of them was taken."""
    next_ms: Int64
    """When the first of them come again,"""
    last_ms: Int64
    """and the last."""
    offsets: list[list[Int64]] = []
    """Which messages: the first and the last of each run, ascending, as many runs as OFFSET_RUNS_MAX."""
    failed: bool = False
    """Whether a push consumer has given them back: it works on them no longer, and they wait for their next try."""


class ReturnedState(msgspec.Struct, rename="camel", gc=False):
    """A queue of messages that were popped, not acknowledged in time, and come again: of a POP retry topic."""

    topic: str
    queue_id: Int32
    committed: Int64
    end: Int64


class RefusedState(msgspec.Struct, rename="camel", gc=False):
    """A client whose pulls were refused, since it and the group don't know the same subscription."""

    topic: str
    client_id: str
    count: Int64
    last_ms: Int64
    """By the broker's wall clock."""
    words: str


class ResetState(msgspec.Struct, rename="camel", gc=False):
    """A queue in which an administrator has reset the group's offset, since the broker was started."""

    topic: str
    queue_id: Int32
    before: Int64
    """The committed offset before the reset; -1: there was none."""
    offset: Int64
    age_ms: Int64
    """How long ago the reset was."""
    is_pending: bool = False
    """Whether no member has followed it yet."""


class GroupState(msgspec.Struct, rename="camel", gc=False):
    """A group on one broker."""

    members: list[MemberState] = []
    findings: list[GroupFinding] = []
    wall_ms: Int64 = 0
    """What the broker's wall clock shows."""
    locks: list[LockState] = []
    held: list[HeldState] = []
    waiting: list[WaitingState] = []
    message_ms: Int64 = 0
    """What its message clock shows."""
    clock_mode: str = ""
    """`frozen` and the like."""
    answers_pulls: bool = True
    """False: brokerPermission keeps everybody from reading."""
    popped: list[PoppedState] = []
    returned: list[ReturnedState] = []
    refused: list[RefusedState] = []
    resets: list[ResetState] = []


class GroupStateAnswer(Answer, rename="camel"):
    """A group on one broker."""

    body_type: ClassVar[Any] = GroupState


@request(RequestCode.GET_GROUP_STATE, answer=GroupStateAnswer)
class GetGroupState(Request, rename="camel"):
    """Ask for the members of a group, and what is wrong with it; nobody for one that isn't online.

    `topics`, joined by commas: for which of them it is asked what waits; those that its members subscribe to are
    always looked at. None: nobody asks for that, which costs reading what waits.
    """

    group: str
    topics: str | None = None
