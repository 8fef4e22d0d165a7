"""What goes wrong on purpose, while a server runs: its rules are added, shown and removed. staticfire's own.

A rule is the same on every server of a cluster that it was given to, under one number; each counts its own hits.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64


class FaultRule(msgspec.Struct, rename="camel", gc=False, frozen=True, omit_defaults=True, kw_only=True):
    """What goes wrong, for whom, and how often. Texts are empty, numbers 0 or -1, where everything is meant."""

    action: str
    """One of `faults.actions`."""
    number: Int32 = 0
    direction: str = "request"
    """Of what: requests that come in, their answers, requests of the server's own, or all of it."""
    code: str = ""
    """As somebody has said it."""
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
    """Of a partition: who is on the other side, as client ids, addresses and names of brokers."""
    delay_ms: Int64 = 0
    jitter_ms: Int64 = 0
    answer_code: Int32 = 0
    remark: str = ""
    bytes_per_second: Int64 = 0
    skew_ms: Int64 = 0
    probability: float = 1.0
    seed: Int64 = 0
    times: Int64 = 0
    """How often it hits before it does nothing any more; 0: without end."""
    lifetime_ms: Int64 = 0
    """Of uptime, until it is removed by itself; 0: never."""
    from_ms: Int64 = 0
    until_ms: Int64 = -1
    """Between which message times it hits; -1: without an end."""


class FaultState(msgspec.Struct, rename="camel", gc=False):
    """A rule on one server."""

    rule: FaultRule
    hits: Int64 = 0
    left_ms: Int64 = -1
    """Of its lifetime; -1 when that has no end."""


class FaultsThere(msgspec.Struct, rename="camel", gc=False):
    """The rules of one server. A nameserver says, too, where the brokers are: a rule may keep it from other answers."""

    states: list[FaultState] = []
    brokers: dict[str, str] = {}
    number: Int32 = 0
    """For the next rule, when one was asked for: nobody else gets it."""


class FaultsAnswer(Answer, rename="camel"):
    """The rules of one server."""

    body_type: ClassVar[Any] = FaultsThere


class FaultAdded(msgspec.Struct, rename="camel", gc=False):
    """What a server says of a new rule."""

    unseen: list[str] = []
    """What the rule names and the server hasn't met yet: topic, queue, group, client.

    `until`: message time is past the rule's end.
    """


class FaultAddedAnswer(Answer, rename="camel"):
    """What a server says of a new rule."""

    body_type: ClassVar[Any] = FaultAdded


class FaultRemovedAnswer(Answer, rename="camel"):
    """How many rules are gone."""

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
