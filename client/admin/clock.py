"""Reads and moves message time, through the nameserver. Only staticfire has this.

The first nameserver of the list drives the clock, so only this one gets requests. An advance gets its response when the
cluster is at rest at the target time, which may take minutes; meanwhile requests keep the connection open.
"""

import asyncio
from dataclasses import dataclass
from typing import Any, Self

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.nameservers import IS_ONE_RUNNING
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.durations import format_moment
from staticfire.protocol.errors import BrokerAnswer, ConnectFailed, UsageError, broker_answer
from staticfire.protocol.requests.clock import (
    ADVANCE,
    ADVANCE_TIMEOUT_MS,
    FREEZE,
    NOW,
    RATE_MAX,
    READ,
    RUN,
    SCALE,
    SKIP,
    Clock,
    ClockAnswer,
)
from staticfire.runtime.addresses import format_address, parse_addresses
from staticfire.runtime.pool import ConnectionPool

TIMEOUT_MS = 30_000
# Servers close connections that are silent for two minutes.
SIGN_OF_LIFE_MS = 30_000
# The largest time that can be sent.
MS_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ClockReport:
    """The state of the clock, and what an advance did."""

    message_ms: int
    wall_ms: int
    mode: str
    """One of "real", "frozen", "scaled", "skipping"."""
    rate: float
    next_due_ms: int | None
    """When the next message is due."""
    delivered: int = 0
    steps: int = 0
    checked: int = 0
    """How many open transactions were checked with their producers."""
    expired: int = 0
    """How many popped messages have reached the end of their invisible time."""

    @property
    def ahead_ms(self) -> int:
        """The difference of message time to the wall clock; below 0 if message time is earlier."""
        return self.message_ms - self.wall_ms

    @classmethod
    def of(cls, answer: ClockAnswer) -> Self:
        due_ms = None if answer.next_due_ms < 0 else answer.next_due_ms
        return cls(
            answer.message_ms,
            answer.wall_ms,
            answer.mode,
            answer.rate,
            due_ms,
            answer.delivered,
            answer.steps,
            answer.checked,
            answer.expired,
        )

    def as_json(self) -> dict[str, Any]:
        """Return it with wire names; times also in ISO 8601."""
        return {
            "messageMs": self.message_ms,
            "messageTime": format_moment(self.message_ms),
            "wallMs": self.wall_ms,
            "wallTime": format_moment(self.wall_ms),
            "mode": self.mode,
            "rate": self.rate,
            "nextDueMs": self.next_due_ms,
            "nextDueTime": None if self.next_due_ms is None else format_moment(self.next_due_ms),
            "delivered": self.delivered,
            "checked": self.checked,
            "expired": self.expired,
            "steps": self.steps,
        }


def _checked_rate(rate: object) -> float:
    """Return a rate that can be sent; the nameserver checks its range. Raises: UsageError."""
    if isinstance(rate, int | float) and not isinstance(rate, bool) and -MS_MAX <= rate <= MS_MAX:
        return float(rate)
    given = "a number too large to write" if isinstance(rate, int) and not isinstance(rate, bool) else repr(rate)
    words = f"how many times faster than real time, above 0 and at most {RATE_MAX:.0f}"
    raise UsageError(f"scale: {given} is not a rate; it must be a number, {words}")


def _check_ms(name: str, number: object) -> None:
    """Check that a time can be sent; the nameserver checks its range. Raises: UsageError."""
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, int):
        raise UsageError(f"advance: {name}={number!r} is not a whole number of milliseconds")
    if abs(number) > MS_MAX:
        raise UsageError(f"advance: {name} is a number too large to write; no advance is longer than ten years")


class ClusterClock:
    """The clock of a cluster. All methods raise BrokerAnswer (refused) and NetworkError (no response)."""

    def __init__(self, client: ClusterClient | ConnectionPool, namesrv: str = "") -> None:
        """`client`: an open client; or a connection pool, together with `namesrv`. Raises: UsageError."""
        if isinstance(client, ConnectionPool):
            self._pool = client
            self._address = format_address(*parse_addresses(namesrv)[0])
        else:
            self._pool = client.pool
            self._address = client.nameservers.addresses[0]

    async def now(self) -> ClockReport:
        """Return the state of the clock."""
        return await self._ask(Clock(NOW))

    async def freeze(self) -> ClockReport:
        """Stop message time."""
        return await self._ask(Clock(FREEZE))

    async def run(self) -> ClockReport:
        """Let message time run at normal speed, from its current value."""
        return await self._ask(Clock(RUN))

    async def scale(self, rate: float) -> ClockReport:
        """Let message time run faster by this factor. Raises: UsageError (not a valid rate)."""
        return await self._ask(Clock(SCALE, rate=_checked_rate(rate)))

    async def skip(self) -> ClockReport:
        """Let message time jump to whatever is due next, whenever the cluster is at rest."""
        return await self._ask(Clock(SKIP))

    async def advance(
        self, by_ms: int | None = None, to_ms: int | None = None, settle_ms_max: int | None = None
    ) -> ClockReport:
        """Advance message time. Return when everything that became due on the way is consumed.

        `settle_ms_max`: how long the cluster may take to come to rest after each step.

        Raises: NotAtRest, ClockBusy, UsageError (not a valid time).
        """
        for name, number in (("by_ms", by_ms), ("to_ms", to_ms), ("settle_ms_max", settle_ms_max)):
            _check_ms(name, number)
        request = Clock(ADVANCE, by_ms=by_ms, to_ms=to_ms, settle_ms_max=settle_ms_max)
        return await self._ask(request, ADVANCE_TIMEOUT_MS)

    async def _ask(self, request: Clock, timeout_ms: int = TIMEOUT_MS) -> ClockReport:
        answer = await self._answer(request, timeout_ms)
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            words = "message time is staticfire's own, and this nameserver isn't staticfire's: its clock can't be moved"
            raise BrokerAnswer(answer.code, f"{words} [{self._address}]")
        if answer.code != SUCCESS or not isinstance(answer, ClockAnswer):
            raise broker_answer(answer.code, answer.remark, f"clock {request.action} at {self._address}")
        return ClockReport.of(answer)

    async def _answer(self, request: Clock, timeout_ms: int) -> Answer:
        """Send the request, and send others from time to time while it waits, so that the connection stays open."""
        try:
            connection = await self._pool.connection(self._address)
        except ConnectFailed as error:
            raise ConnectFailed(f"no nameserver responds ({error}): {IS_ONE_RUNNING}") from None
        answer = connection.ask(request, timeout_ms)
        try:
            while not (await asyncio.wait([answer], timeout=SIGN_OF_LIFE_MS / 1_000))[0]:
                connection.tell(Clock(READ))
            return answer.result()
        finally:
            answer.cancel()
