"""Faults that users inject into a running server: add, show and remove their rules. staticfire's own.

A rule is the same on every server of a cluster that it was sent to, under one number. Each server counts its own hits.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64


class FaultRule(msgspec.Struct, rename="camel", gc=False, frozen=True, omit_defaults=True, kw_only=True):
    """What goes wrong, for which requests, and how often. An empty text, 0 or -1 matches everything."""

    action: str
    """One of `faults.actions`."""
    number: Int32 = 0
    direction: str = "request"
    """What it applies to: incoming requests, their responses, the server's own requests, or everything."""
    code: str = ""
    """The code as the user wrote it."""
    codes: list[Int32] = []
    client: str = ""
    """A client id, or one of its parts between `@`."""
    group: str = ""
    topic: str = ""
    queue_id: Int32 = -1
    address: str = ""
    """A host, or host:port."""
    language: Int32 = -1
    parties: list[str] = []
    """For a partition: the peers on the other side, as client ids, addresses and names of brokers."""
    delay_ms: Int64 = 0
    jitter_ms: Int64 = 0
    answer_code: Int32 = 0
    remark: str = ""
    bytes_per_second: Int64 = 0
    skew_ms: Int64 = 0
    probability: float = 1.0
    seed: Int64 = 0
    after: Int64 = 0
    """How many matching requests pass before the first hit."""
    times: Int64 = 0
    """The maximum number of hits; 0: no limit."""
    lifetime_ms: Int64 = 0
    """The uptime after which it is removed automatically; 0: never."""
    from_ms: Int64 = 0
    until_ms: Int64 = -1
    """The rule hits between these two message times; -1: without an end."""
    stays: bool = False
    """It is removed by its number only: not with all others, and not by a reset of the cluster."""


class FaultState(msgspec.Struct, rename="camel", gc=False):
    """A rule on one server."""

    rule: FaultRule
    hits: Int64 = 0
    left_ms: Int64 = -1
    """The rest of its lifetime; -1 if that is unlimited."""


class FaultsThere(msgspec.Struct, rename="camel", gc=False):
    """The rules of one server. A nameserver adds the brokers' addresses: a rule may block its other responses."""

    states: list[FaultState] = []
    brokers: dict[str, str] = {}
    number: Int32 = 0
    """The number for the next rule, if one was requested. No other client gets the same number."""


class FaultsAnswer(Answer, rename="camel"):
    """The rules of one server."""

    body_type: ClassVar[Any] = FaultsThere


class FaultAdded(msgspec.Struct, rename="camel", gc=False):
    """A server's response to a new rule."""

    unseen: list[str] = []
    """What the rule names and the server hasn't seen yet: topic, queue, group, client.

    `until`: message time is past the rule's end.
    """


class FaultAddedAnswer(Answer, rename="camel"):
    """A server's response to a new rule."""

    body_type: ClassVar[Any] = FaultAdded


class FaultRemovedAnswer(Answer, rename="camel"):
    """The number of removed rules."""

    removed: Int32 = 0


@request(RequestCode.ADD_FAULT, answer=FaultAddedAnswer)
class AddFault(Request, rename="camel"):
    """Do something wrong from now on, until it is removed or the process ends."""

    body_type: ClassVar[Any] = FaultRule


@request(RequestCode.GET_FAULTS, answer=FaultsAnswer)
class GetFaults(Request, rename="camel"):
    """Ask for the rules, with their hits. `number_from` above 0: also for the number of a new one, that or a later."""

    number_from: Int32 = 0


@request(RequestCode.REMOVE_FAULT, answer=FaultRemovedAnswer)
class RemoveFault(Request, rename="camel"):
    """Do it right again. `number` 0: all rules."""

    number: Int32 = 0
