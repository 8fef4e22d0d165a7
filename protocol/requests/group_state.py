"""A group as its broker sees it: members, which of them count, and what is wrong. staticfire's own."""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int64
from staticfire.protocol.requests.clients import GroupFinding


class MemberState(msgspec.Struct, rename="camel", gc=False):
    """One member. Times are of the broker's wall clock."""

    client_id: str
    counts: bool = True
    """Whether it has its share of the queues; a protected group lets new ones wait."""
    in_order: bool | None = None
    """Whether it listens in order, if that is known."""
    joined_ms: Int64 = 0
    last_seen_ms: Int64 = 0


class GroupState(msgspec.Struct, rename="camel", gc=False):
    """A group on one broker."""

    members: list[MemberState] = []
    findings: list[GroupFinding] = []
    wall_ms: Int64 = 0
    """What the broker's wall clock shows."""


class GroupStateAnswer(Answer, rename="camel"):
    """A group on one broker."""

    body_type: ClassVar[Any] = GroupState


@request(RequestCode.GET_GROUP_STATE, answer=GroupStateAnswer)
class GetGroupState(Request, rename="camel"):
    """Ask for the members of a group, and what is wrong with it; nobody for one that isn't online."""

    group: str
