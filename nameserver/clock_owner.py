"""The owner of message time: it moves the clocks of all brokers together, step by step.

An advance is a loop of two operations:

- Rest: wait until the whole cluster is idle, and learn when the next message is due.
- Step: set all brokers to that due time, then let all of them deliver what is due.

Each step goes exactly to the next due time, so nothing is delivered early or late, and a chain of retries ends after
exactly the sum of its delays. A skipping clock does the same until due times are dense: then a step takes all that is
due within the next 100 ms, because 10,000 messages that are retried would need 10,000 steps per retry.

All brokers are set before any of them delivers, so that their times never differ. Between two steps the cluster must
come to rest: for a message that is retried sixteen times, its consumer must fail sixteen times in between. The cluster
counts as at rest after two rounds over all brokers in which nothing happened, because a listener may send to one broker
and then commit on another.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from staticfire.nameserver.following_brokers import FollowingBrokers
from staticfire.protocol.clock_face import ClockFace
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer, ClockBusy, NetworkError, NotAtRest
from staticfire.protocol.requests.clock import (
    FROZEN,
    SKIPPING,
    BrokerClockAnswer,
    ClockMoved,
    ClockReading,
    DeliverAnswer,
    DeliverDue,
    GetRest,
    RestAnswer,
    SetBrokerClock,
    Unrest,
)
from staticfire.protocol.times import MessageMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock
from staticfire.runtime.service import Pause

log = logger("nameserver")

SETTLE_MS_MAX = 30_000
REST_WAIT_MS_MAX = 1_000
# How often a skipping clock checks whether a message is due, and how often a lost broker is looked for.
IDLE_MS = 5
# How long a skipping clock waits for a broker whose connection was lost. If that broker restarts, its messages would be
# late otherwise.
LOST_MS_MAX = 10_000
# A skipping clock takes what is due within this time in one step, when due times are dense. RocketMQ's delayed messages
# are as late: it checks a delay level as rarely (ScheduleMessageService.DELAY_FOR_A_WHILE).
SKIP_SPAN_MS = 100


class Advanced(NamedTuple):
    """The result of an advance."""

    delivered: int = 0
    steps: int = 0
    checked: int = 0
    """The number of open transactions whose producers got a check."""
    expired: int = 0
    """The number of popped messages whose invisible time was over."""


class ClockOwner:
    """The message time of a cluster, and the brokers that follow it."""

    def __init__(self, clock: Clock, pause: Pause) -> None:
        self._clock = clock
        self._pause = pause
        self.face = ClockFace()
        self.brokers = FollowingBrokers(clock)
        self._watchers: dict[Connection, None] = {}
        """The connections that get each change of the clock."""
        self._skipping = asyncio.Event()
        self._skipped_to_ms = 0
        """The time of the last step of a skipping clock."""
        self._driving = ""
        """The move that is in progress. A second one at the same time is refused."""

    # -- the brokers that follow ---------------------------------------------------------------------------------

    def joined(self, connection: Connection, name: str, reading: ClockReading) -> ClockReading:
        """Add a broker; return the reading that it must show. A restarted nameserver learns the time from brokers.

        If the last nameserver ended during a move, time continues: the caller who moved it knows that it failed.
        """
        if reading.epoch > self.face.epoch:
            self._show(ClockFace.showing(reading.continued(), self._clock.wall_ms()))
        self.brokers.add(connection, name)
        return self.reading()

    def left(self, connection: Connection) -> None:
        """Forget a broker, or a watcher, whose connection was lost."""
        self.brokers.remove(connection)
        self._watchers.pop(connection, None)

    def watched_by(self, connection: Connection) -> None:
        """Notify a connection of each change of the clock from now on."""
        self._watchers[connection] = None

    def message_ms(self) -> MessageMs:
        """Return the message time."""
        return self.face.at(self._clock.wall_ms())

    def reading(self) -> ClockReading:
        return self.face.reading(self._clock.wall_ms())

    def shown(self) -> ClockReading:
        """Return the reading for users: during an advance, the clock is frozen."""
        reading = self.reading()
        return replace(reading, mode=FROZEN) if self._driving and self.face.stands else reading

    # -- moves ---------------------------------------------------------------------------------------------------

    async def run_at(self, mode: str, rate: float) -> None:
        """Freeze, run or scale the clock: its pace changes, the current time doesn't.

        Raises: BrokerAnswer if another caller is moving the clock.
        """
        self._take_wheel(f"set to {mode}")
        try:
            await self._set_all(mode, rate, self.message_ms())
        finally:
            self._driving = ""

    async def advance_to(self, target_ms: int, settle_ms_max: int = SETTLE_MS_MAX) -> Advanced:
        """Advance to a time and deliver everything that is due on the way; return what that was.

        Raises: NotAtRest, BrokerAnswer (the target is in the past, or another caller is moving the clock).
        """
        now_ms = self.message_ms()
        if target_ms < now_ms:
            words = f"message time is {now_ms} and can't go back to {target_ms}: messages are stored with it"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
        return await self._drive(f"advancing to {target_ms}", lambda _: target_ms, settle_ms_max)

    async def advance_by(self, by_ms: int, settle_ms_max: int = SETTLE_MS_MAX) -> Advanced:
        """Advance by a duration from the time at which all clocks were stopped. Otherwise like `advance_to`."""
        return await self._drive(f"advancing by {by_ms} ms", lambda stands_at_ms: stands_at_ms + by_ms, settle_ms_max)

    async def _drive(self, what: str, target: Callable[[int], int], settle_ms_max: int) -> Advanced:
        self._take_wheel(what)
        mode, rate = self.face.mode, self.face.rate_after or self.face.rate
        try:
            await self._stop_all(self.message_ms())
            return await self._advance(target(self.message_ms()), settle_ms_max)
        finally:
            self._driving = ""
            await self._set_all(mode, rate, self.message_ms())

    async def _advance(self, target_ms: int, settle_ms_max: int) -> Advanced:
        delivered = steps = checked = expired = 0
        progress_at_ms = self._clock.uptime_ms()
        while True:
            due_ms = _earliest(await self._rest(settle_ms_max), _next_due)
            if due_ms is None or due_ms > target_ms:
                # Nothing is due at that time, but brokers may have old messages to remove.
                await self._step(target_ms)
                return Advanced(delivered, steps, checked, expired)
            done, refusals = await self._step(due_ms)
            delivered, steps, checked = delivered + done.delivered, steps + 1, checked + done.checked
            expired += done.expired
            if done.delivered or done.checked or done.expired or not refusals:
                progress_at_ms = self._clock.uptime_ms()
            elif self._clock.uptime_ms() - progress_at_ms >= settle_ms_max:
                raise _not_at_rest(settle_ms_max, refusals)
            else:
                await self._pause(IDLE_MS)

    async def _step(self, message_ms: int) -> tuple[Advanced, list[str]]:
        """Set all brokers to a time, then let all deliver what is due; return the result, and which brokers refused."""
        await self._stop_all(max(message_ms, self.message_ms()))
        answers = await self.brokers.ask_all(DeliverDue())
        done = [answer for answer in answers.values() if isinstance(answer, DeliverAnswer)]
        refused = {name: answer.remark for name, answer in answers.items() if answer.code != ResponseCode.SUCCESS}
        complaints = [f"broker {name} can't deliver due messages: {remark}" for name, remark in refused.items()]
        delivered, checked = sum(one.delivered for one in done), sum(one.checked for one in done)
        return Advanced(delivered, 1, checked, sum(one.expired for one in done)), complaints

    async def skip_loop(self) -> None:
        """Loop: while the clock skips, jump to the next due time as soon as the cluster is at rest.

        While a client or a broker keeps the cluster from coming to rest, time runs at its usual pace.
        """
        while True:
            await self._skipping.wait()
            if self._driving or not self.brokers:
                await self._pause(IDLE_MS)
                continue
            self.brokers.forget_lost(LOST_MS_MAX)
            try:
                await self._skip_once()
            except NotAtRest as error:
                log.info("skip_waits", reason=error.remark)
                await self._let_run()
                await self._pause(IDLE_MS)
            except (NetworkError, BrokerAnswer) as error:
                log.warning("skip_failed", error=str(error))
                await self._pause(IDLE_MS)

    async def _skip_once(self) -> None:
        rests = await self._rest(REST_WAIT_MS_MAX)
        due_ms = _earliest(rests, _next_due)
        if self._driving or self.face.mode != SKIPPING:
            return
        # No broker's messages let time skip past the work of another broker's clients.
        is_work_next = any(rest.next_due_ms == due_ms and rest.skips_to_ms < 0 for rest in rests)
        if due_ms is None or is_work_next:
            await self._let_run()
            await self._pause(IDLE_MS)
            return
        done, refusals = await self._step(self._skips_until_ms(due_ms, _earliest(rests, _stops_before)))
        if refusals and not done.delivered and not done.expired:
            raise _not_at_rest(0, refusals)

    def _skips_until_ms(self, due_ms: int, stops_before_ms: int | None) -> int:
        """Return where the next step of a skipping clock ends: at the due time, or later when due times are dense.

        A single chain of retries is exact. Of many chains side by side, those of one step are retried together from
        then on, so each is late once, and not once per retry.
        """
        end_ms = due_ms + SKIP_SPAN_MS
        is_dense = due_ms - self._skipped_to_ms <= SKIP_SPAN_MS
        if not is_dense or (stops_before_ms is not None and stops_before_ms <= end_ms):
            end_ms = due_ms
        self._skipped_to_ms = end_ms
        return end_ms

    async def _let_run(self) -> None:
        if self.face.mode == SKIPPING and self.face.rate <= 0:
            await self._set_all(SKIPPING, 1.0, self.message_ms())

    def _show(self, face: ClockFace) -> None:
        self.face = face
        shown = self.shown()
        for connection in self._watchers:
            # One that doesn't read would only collect them.
            if connection.is_open and connection.writable() is None:
                connection.tell(ClockMoved(shown.epoch, shown.mode, shown.rate, face.base_ms))
        if face.mode == SKIPPING:
            self._skipping.set()
        else:
            self._skipping.clear()

    def _take_wheel(self, what: str) -> None:
        if self._driving:
            words = f"another change of message time is in progress ({self._driving}); wait until it ends"
            raise ClockBusy(ResponseCode.CLOCK_BUSY, words)
        self._driving = what
        self.brokers.begin_move()

    # -- rest ----------------------------------------------------------------------------------------------------

    async def next_due_ms(self) -> int | None:
        """Return when the next message on any broker is due."""
        return _earliest(_rests(await self.brokers.ask_all(GetRest(0))), _next_due)

    async def _rest(self, settle_ms_max: int) -> list[RestAnswer]:
        """Wait until all brokers are at rest; return their last answers. Raises: NotAtRest."""
        began_ms = self._clock.uptime_ms()
        seen: dict[str, int] = {}
        while True:
            left_ms = settle_ms_max - (self._clock.uptime_ms() - began_ms)
            missing = self.brokers.lost
            answers: dict[str, Answer] = {}
            if not missing:
                wait_ms = 0 if seen else max(0, min(left_ms, REST_WAIT_MS_MAX))
                answers = await self.brokers.ask_all(GetRest(wait_ms), wait_ms)
            rests = _rests(answers)
            if not missing and len(rests) == len(answers) and all(rest.at_rest for rest in rests):
                counters = {name: rest.activity for name, rest in zip(answers, rests, strict=True)}
                if counters == seen:
                    return rests
                seen = counters
                continue
            seen = {}
            if left_ms <= 0:
                raise _not_at_rest(settle_ms_max, _describe(missing, answers))
            if missing or len(rests) < len(answers):
                await self._pause(IDLE_MS)

    # -- requests to brokers -------------------------------------------------------------------------------------

    async def _set_all(self, mode: str, rate: float, message_ms: int) -> None:
        """Set the same time, mode and rate on all brokers."""
        await self._send_all(lambda ms: self.face.moved(self._clock.wall_ms(), mode, rate, ms), message_ms)

    async def _stop_all(self, message_ms: int) -> None:
        """Set the same time on all brokers, for a move. After the move, time has its mode and rate again."""
        await self._send_all(lambda ms: self.face.stopped(self._clock.wall_ms(), ms), message_ms)

    async def _send_all(self, next_face: Callable[[int], ClockFace], message_ms: int) -> None:
        """Set the clocks of all brokers. They never go back: if one is ahead, the others are set to its time."""
        for _ in range(2):
            face = next_face(message_ms)
            self._show(face)
            request = SetBrokerClock(face.epoch, face.mode, face.rate, message_ms, face.rate_after)
            answers = await self.brokers.ask_all(request)
            shown = [answer.message_ms for answer in answers.values() if isinstance(answer, BrokerClockAnswer)]
            if face.rate > 0 or max(shown, default=0) <= message_ms:
                return
            message_ms = max(shown)


def _rests(answers: dict[str, Answer]) -> list[RestAnswer]:
    return [answer for answer in answers.values() if isinstance(answer, RestAnswer)]


def _earliest(rests: list[RestAnswer], time_of: Callable[[RestAnswer], int]) -> int | None:
    times = (time_of(rest) for rest in rests)
    return min((message_ms for message_ms in times if message_ms >= 0), default=None)


def _next_due(rest: RestAnswer) -> int:
    return rest.next_due_ms


def _stops_before(rest: RestAnswer) -> int:
    return rest.stops_before_ms


def _not_at_rest(waited_ms: int, reasons: list[str]) -> NotAtRest:
    words = "; ".join(reasons) or "brokers keep storing, delivering or committing messages"
    return NotAtRest(ResponseCode.NOT_AT_REST, f"consumers were still busy after {waited_ms} ms: {words}")


def _describe(missing: list[str], answers: dict[str, Answer]) -> list[str]:
    """Describe which brokers and groups keep the cluster from coming to rest."""
    reasons = [f"broker {name} is no longer registered" for name in missing]
    for name, answer in answers.items():
        if isinstance(answer, RestAnswer):
            reasons += [_of_queue(name, unrest) for unrest in answer.body or []]
        elif answer.code != ResponseCode.SUCCESS:
            reasons.append(f"broker {name} doesn't report whether it is at rest ({answer.remark})")
    return reasons


def _of_queue(broker: str, unrest: Unrest) -> str:
    where = f"group {unrest.group}, queue {unrest.queue_id} of {unrest.topic} on {broker}"
    how_far = f"committed {unrest.committed}, delivered to {unrest.delivered}, end {unrest.max_offset}"
    return f"{where}: {unrest.reason} ({how_far}; members: {', '.join(unrest.clients) or 'none'})"
