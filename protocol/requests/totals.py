"""What a broker holds in all its topics and groups, and all messages that wait, in one response each. staticfire's own.

RocketMQ's requests are for one topic or one group each: a table of ten thousand topics would be ten thousand of them.
"""

from typing import Any, ClassVar

import msgspec

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.numbers import Int32, Int64
from staticfire.protocol.requests.clients import SubscriptionData
from staticfire.protocol.requests.group_state import PoppedState


class TopicTotal(msgspec.Struct, array_like=True, gc=False):
    """One topic on one broker: an array, since a response may have ten thousand of them."""

    queues: Int32
    """The number of queues that can be read."""
    messages: Int64


class GroupTotal(msgspec.Struct, rename="camel", gc=False):
    """One group on one broker."""

    members: list[str] = []
    """The client ids of its members."""
    lag: Int64 = 0
    dead_letters: Int64 = 0
    findings: Int32 = 0
    """How many problems of its members the broker has found."""
    broadcasts: bool = False
    """Whether its members get all messages each, and keep their offsets themselves."""


class Totals(msgspec.Struct, rename="camel", gc=False):
    """Topics and groups by name."""

    topics: dict[str, TopicTotal] = {}
    groups: dict[str, GroupTotal] = {}


class WantedTotals(msgspec.Struct, rename="camel", gc=False):
    """The names of the wanted topics and groups; None: all of them. Unknown names are left out of the response."""

    topics: list[str] | None = []
    groups: list[str] | None = []


class TotalsAnswer(Answer, rename="camel"):
    """Topics and groups of a broker."""

    body_type: ClassVar[Any] = Totals


@request(RequestCode.GET_TOTALS, answer=TotalsAnswer)
class GetTotals(Request, rename="camel"):
    """Ask how many messages topics have, and members, backlog and dead letters of groups."""

    body_type: ClassVar[Any] = WantedTotals


class WaitingMessage(msgspec.Struct, rename="camel", gc=False):
    """One message that waits. Times are message time."""

    kind: str
    """`level` (a retry, or sent with a delay level), `timer` (sent with its own time), `transaction` (not ended)."""
    topic: str
    """Where it will be stored."""
    message_id: str
    due_ms: Int64
    """When it is due, or when its producer gets the next check of the transaction."""
    stored_ms: Int64
    log_position: Int64
    tags: str = ""
    keys: list[str] = []
    group: str = ""
    """The group of the producer of a transaction, or of the consumers of a retry."""
    checks: Int32 = 0
    """How many checks the producer of a transaction got."""


class PoppedPlace(PoppedState, rename="camel", gc=False, kw_only=True):
    """What one group has popped of one queue."""

    group: str


class BrokerWaiting(msgspec.Struct, rename="camel", gc=False):
    """What waits at a broker, the next first."""

    messages: list[WaitingMessage] = []
    counts: dict[str, Int64] = {}
    """How many messages wait, by kind."""
    popped: list[PoppedPlace] = []
    is_all: bool = True
    """False: of a kind, so many messages wait that only a part was searched for the next ones."""


class WaitingAnswer(Answer, rename="camel"):
    """What waits at a broker."""

    body_type: ClassVar[Any] = BrokerWaiting


@request(RequestCode.GET_WAITING, answer=WaitingAnswer)
class GetWaiting(Request, rename="camel"):
    """Ask for the next messages that are due, of these kinds (joined by commas; `popped`: popped ones, by queue)."""

    kinds: str
    messages_max: Int32 = 100


class GroupPlace(msgspec.Struct, rename="camel", gc=False):
    """A group of a topic, and one message of that topic."""

    group: str
    committed: Int64
    """The group's committed offset in the queue of the message; -1 if there is none."""
    is_popped: bool = False
    """Whether the group has popped the message and not acknowledged it."""
    subscription: SubscriptionData | None = None
    """Its subscription to the topic; None while it is offline."""


class ConsumptionAnswer(Answer, rename="camel"):
    """The groups of a topic, by name."""

    body_type: ClassVar[Any] = list[GroupPlace]


@request(RequestCode.GET_CONSUMPTION, answer=ConsumptionAnswer)
class GetConsumption(Request, rename="camel"):
    """Ask which groups have consumed a message, as far as offsets show."""

    topic: str
    queue_id: Int32
    queue_offset: Int64
