"""Message time: users read and move it, the nameserver performs the moves, the brokers keep it. staticfire's own.

A user sends CLOCK to the nameserver. The nameserver moves all brokers in two phases, so that their times never differ:
SET_BROKER_CLOCK sets the time, DELIVER_DUE delivers the messages that are due at it. Between two steps, GET_REST
returns whether the consumers are at rest.
"""

from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer, Request, request
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.numbers import Int32, Int64

REAL, FROZEN, SCALED, SKIPPING = "real", "frozen", "scaled", "skipping"
MODES = (REAL, FROZEN, SCALED, SKIPPING)

READ, WATCH, NOW = "read", "watch", "now"
FREEZE, RUN, ADVANCE, SCALE, SKIP = "freeze", "run", "advance", "scale", "skip"
ACTIONS = (READ, WATCH, NOW, FREEZE, RUN, ADVANCE, SCALE, SKIP)

# The limit of the rate, in multiples of the wall clock's pace.
RATE_MAX = 100_000.0
# The caller can wait that long: an advance always ends, with rest or with NOT_AT_REST, and a lost connection is
# noticed.
ADVANCE_TIMEOUT_MS = 3_600_000


class ClockReading(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """The state of the clock. `epoch` increases with every change of the mode or of the time."""

    epoch: Int64 = 0
    mode: str = REAL
    rate: float = 1.0
    message_ms: Int64 = 0
    rate_after: float = 0.0
    """The rate after the move for which time is stopped now; 0 if there is no move, or if time was frozen before it.

    So time can continue if the nameserver ends during a move.
    """

    def text(self) -> str:
        """Return it as it is written in a registration: `7 frozen 0.0 1767225600000`, in a move with `rate_after`."""
        words = f"{self.epoch} {self.mode} {self.rate} {self.message_ms}"
        return f"{words} {self.rate_after}" if self.rate_after > 0 else words

    def continued(self) -> "ClockReading":
        """Return the reading without the move that is in progress, if there is one: time continues."""
        return replace(self, rate=self.rate_after, rate_after=0.0) if self.rate_after > 0 else self

    @classmethod
    def parse(cls, text: str) -> "ClockReading":
        """Parse the result of `text`. Raises: ProtocolError."""
        try:
            epoch, mode, rate, message_ms, *after = text.split()
            [rate_after] = after or ["0"]
            return cls(int(epoch), mode, float(rate), int(message_ms), float(rate_after))
        except ValueError:
            raise ProtocolError(f"{text!r} is not a reading of the clock") from None


class ClockAnswer(Answer, rename="camel"):
    """The clock's state after the action, and the result of an advance."""

    epoch: Int64 = 0
    mode: str = REAL
    rate: float = 1.0
    message_ms: Int64 = 0
    wall_ms: Int64 = 0
    delivered: Int64 = 0
    steps: Int64 = 0
    next_due_ms: Int64 = -1
    """When the next message is due; -1 for none, and for READ and WATCH."""
    checked: Int64 = 0
    """The number of open transactions whose producers got a check."""
    expired: Int64 = 0
    """The number of popped messages whose invisible time was over."""


@request(RequestCode.CLOCK, answer=ClockAnswer)
class Clock(Request, rename="camel"):
    """Read or move message time. ADVANCE: by `by_ms` or to `to_ms`; answered when the cluster is at rest there.

    READ and WATCH are answered at once; after WATCH, the connection also gets CLOCK_MOVED. NOW and the others say what
    is due next, for which the brokers are queried.
    """

    action: str
    by_ms: Int64 | None = None
    to_ms: Int64 | None = None
    rate: float | None = None
    settle_ms_max: Int64 | None = None


@request(RequestCode.CLOCK_MOVED)
class ClockMoved(Request, rename="camel"):
    """The nameserver sends it with each change of the clock, one-way, on connections that have sent WATCH."""

    epoch: Int64
    mode: str
    rate: float
    message_ms: Int64


class BrokerClockAnswer(Answer, rename="camel"):
    """The broker's message time."""

    message_ms: Int64 = 0


@request(RequestCode.SET_BROKER_CLOCK, answer=BrokerClockAnswer)
class SetBrokerClock(Request, rename="camel"):
    """Show `message_ms` from now on, running at `rate`. Nothing is delivered by it.

    `rate_after`: the rate after the move that is in progress, if there is one.
    """

    epoch: Int64
    mode: str
    rate: float
    message_ms: Int64
    rate_after: float = 0.0


class DeliverAnswer(Answer, rename="camel"):
    """The result of a delivery. `delivered`: messages; `checked`: open transactions whose producers got a check to
    decide; `expired`: popped messages whose invisible time was over.
    """

    delivered: Int64 = 0
    checked: Int64 = 0
    expired: Int64 = 0


@request(RequestCode.DELIVER_DUE, answer=DeliverAnswer)
class DeliverDue(Request, rename="camel"):
    """Deliver what has fallen due by the broker's message time."""


class Unrest(msgspec.Struct, rename="camel", gc=False):
    """One reason why a broker isn't at rest."""

    group: str
    topic: str
    queue_id: Int32
    committed: Int64
    delivered: Int64
    max_offset: Int64
    clients: list[str]
    reason: str


class RestAnswer(Answer, rename="camel"):
    """Whether the broker is at rest. `activity` counts stores, deliveries and commits."""

    at_rest: bool = False
    activity: Int64 = 0
    next_due_ms: Int64 = -1
    message_ms: Int64 = 0
    skips_to_ms: Int64 = -1
    """Like `next_due_ms`, for a skipping clock, which doesn't skip the work of connected clients."""
    stops_before_ms: Int64 = -1
    """A skipping clock that goes further than `skips_to_ms` must stop before this time; -1 for none."""
    body_type: ClassVar[Any] = list[Unrest]


@request(RequestCode.GET_REST, answer=RestAnswer)
class GetRest(Request, rename="camel"):
    """Ask whether the broker is at rest; answered when it is, or after `wait_ms`."""

    wait_ms: Int64 = 0
