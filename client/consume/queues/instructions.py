"""What is to be done about one queue, as the deciding object says it: plain values. `queue_driver.py` carries them out.

They are made per pull and per tick, not per message.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from staticfire.client.cluster.subscriptions import Subscription
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs


class Pull(msgspec.Struct, frozen=True, gc=False):
    """Ask for messages from `queue_offset` on; the answer, whatever it is, is the queue's next event about pulling."""

    queue_offset: int
    broker_id: int
    subscription: Subscription
    """What is wanted: an answer is read with what its pull left with."""


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Let the listener have messages. In order there are none in it: whoever is free takes what is next."""

    messages: Sequence[ReceivedMessage] = ()


class Commit(msgspec.Struct, frozen=True, gc=False):
    """Note how far the group has come; `is_drained`: everything that was pulled is done, so tell the broker soon."""

    queue_offset: int
    is_drained: bool
    may_go_back: bool = False


class Count(msgspec.Struct, frozen=True, gc=False):
    """Hand these back as done, together with what else of the queue is done in this tick."""

    messages: Sequence[ReceivedMessage]
    is_ok: bool = True
    """False: they have failed, and nobody consumes them here any more."""


class GiveBack(msgspec.Struct, frozen=True, gc=False):
    """Hand messages to a broker, which delivers them again later; each is told back as sent back or as kept."""

    messages: Sequence[ReceivedMessage]
    delay_level: int
    is_overdue: bool = False
    """Their listener is still at work on them, for too long."""


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Tell the queue the time when it is `until_ms`. The earliest of several is enough: the queue says so again."""

    until_ms: UptimeMs


class Leave(msgspec.Struct, frozen=True, gc=False):
    """Let the queue go: nobody works on it any more. Its offset is stored first: `queue_offset` where one is given."""

    queue_offset: int | None = None


class Announce(msgspec.Struct, frozen=True, gc=False):
    """Send heartbeats: a broker has forgotten what this consumer told it."""


class FindBrokers(msgspec.Struct, frozen=True, gc=False):
    """Fetch routes anew: a broker couldn't be reached."""


class ForgetOffset(msgspec.Struct, frozen=True, gc=False):
    """Know nothing of the queue's offset any more: its topic is gone."""


class Pop(msgspec.Struct, frozen=True, gc=False):
    """Take messages for a while; the answer is the queue's next event about popping."""

    subscription: Subscription


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Acknowledge popped messages. Nobody waits for that."""

    messages: Sequence[ReceivedMessage]


class PutBack(msgspec.Struct, frozen=True, gc=False):
    """Let popped messages come again at once: nobody here consumes them."""

    messages: Sequence[ReceivedMessage]


class GiveUp(msgspec.Struct, frozen=True, gc=False):
    """Consume popped messages no more: they have failed too often."""

    messages: Sequence[ReceivedMessage]


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Log something that a person may want to know."""

    event: str
    fields: dict[str, Any]
    is_warning: bool = True


def tell(event: str, **fields: Any) -> Tell:
    """Return a warning."""
    return Tell(event, fields)


OfPops = Pop | Ack | PutBack | GiveUp
Instruction = (
    Pull | Deliver | Commit | Count | GiveBack | Wait | Leave | Announce | FindBrokers | ForgetOffset | Tell | OfPops
)
Instructions = list[Instruction]
