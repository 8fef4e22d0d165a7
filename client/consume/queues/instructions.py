"""The instructions that queue_decisions.py returns for one queue: plain values, which `queue_driver.py` executes.

They are made per pull and per tick, not per message.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from staticfire.client.cluster.subscriptions import Subscription
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.times import UptimeMs


class Pull(msgspec.Struct, frozen=True, gc=False):
    """Pull messages from `queue_offset` on. The response or error is the queue's next pull event."""

    queue_offset: int
    broker_id: int
    subscription: Subscription
    """The subscription of this pull. Its response is read with these tags, even if they change meanwhile."""


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Deliver messages to the listener. Empty for ordered queues: a free worker takes the next messages itself."""

    messages: Sequence[ReceivedMessage] = ()


class Commit(msgspec.Struct, frozen=True, gc=False):
    """Store the group's offset. `is_drained`: every pulled message is done, so the broker is informed soon."""

    queue_offset: int
    is_drained: bool
    may_go_back: bool = False


class Count(msgspec.Struct, frozen=True, gc=False):
    """Mark these messages as done, together with the others of the queue that end in this tick."""

    messages: Sequence[ReceivedMessage]
    is_ok: bool = True
    """False: they failed, and this consumer doesn't consume them again."""


class GiveBack(msgspec.Struct, frozen=True, gc=False):
    """Send messages back to a broker, which redelivers them later. Each is reported as sent back, or as kept."""

    messages: Sequence[ReceivedMessage]
    delay_level: int


class Wait(msgspec.Struct, frozen=True, gc=False):
    """Call the queue's `time` at `until_ms`. Of several, the earliest is enough: the queue then returns the next."""

    until_ms: UptimeMs


class Leave(msgspec.Struct, frozen=True, gc=False):
    """Remove the queue: nothing works on it any more. Its offset (`queue_offset` if set) is stored first."""

    queue_offset: int | None = None


class Announce(msgspec.Struct, frozen=True, gc=False):
    """Send heartbeats: a broker has lost this consumer's registration."""


class FindBrokers(msgspec.Struct, frozen=True, gc=False):
    """Fetch the routes again: a broker couldn't be reached."""


class ForgetOffset(msgspec.Struct, frozen=True, gc=False):
    """Forget the queue's offset: the broker at an address says that its topic is gone."""

    answered_by: str


class Pop(msgspec.Struct, frozen=True, gc=False):
    """Pop messages: they are invisible to other clients for a while. The response is the queue's next pop event."""

    subscription: Subscription


class Ack(msgspec.Struct, frozen=True, gc=False):
    """Acknowledge popped messages, without waiting for the response."""

    messages: Sequence[ReceivedMessage]


class PutBack(msgspec.Struct, frozen=True, gc=False):
    """Make popped messages visible again at once: this consumer won't consume them."""

    messages: Sequence[ReceivedMessage]


class GiveUp(msgspec.Struct, frozen=True, gc=False):
    """Stop consuming popped messages: they have failed too often."""

    messages: Sequence[ReceivedMessage]


class Tell(msgspec.Struct, frozen=True, gc=False):
    """Log something that a user may want to see."""

    event: str
    fields: dict[str, Any]
    is_warning: bool = True


def tell(event: str, **fields: Any) -> Tell:
    """Return a warning to log."""
    return Tell(event, fields)


OfPops = Pop | Ack | PutBack | GiveUp
Instruction = (
    Pull | Deliver | Commit | Count | GiveBack | Wait | Leave | Announce | FindBrokers | ForgetOffset | Tell | OfPops
)
Instructions = list[Instruction]
