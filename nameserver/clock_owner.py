"""The owner of message time: moves the clocks of all brokers together, step by step.

A step goes to the next due time exactly and delivers what is due then: never early and never late, so a chain of
retries ends when its delays add up to it. All brokers are set before any delivers, so that they never differ. Between
two steps the cluster comes to rest: a message that is retried sixteen times needs its consumer to fail sixteen times
in between. Rest is believed after two rounds over all brokers in which nothing happened, since a listener may send to
one broker and then commit on another.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from staticfire.protocol.clock_face import ClockFace
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, Request
from staticfire.protocol.errors import BrokerAnswer, ClockBusy, NetworkError, NotAtRest
from staticfire.protocol.requests.clock import (
    FROZEN,
    SKIPPING,
    BrokerClockAnswer,
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
BROKER_TIMEOUT_MS = 10_000
SILENT_TIMEOUT_MS = 1_000
# Of a broker that gave no answer the last time.
REST_WAIT_MS_MAX = 1_000
IDLE_MS = 5
# How often a clock that skips looks whether something falls due, and how often a lost broker is looked for.


class Advanced(NamedTuple):
    """What an advance did."""

    delivered: int = 0
    steps: int = 0
    checked: int = 0
    """Open transactions that their producers were asked about."""
    expired: int = 0
    """Popped messages of which the invisible time was over."""


class ClockOwner:
    """Message time of a cluster, and the brokers that follow it."""

    def __init__(self, clock: Clock, pause: Pause) -> None:
        self._clock = clock
        self._pause = pause
        self.face = ClockFace()
        self.brokers: dict[Connection, str] = {}
        """Names of the brokers that follow this clock, by the connection that they registered on."""
        self._skipping = asyncio.Event()
        self._silent: set[str] = set()
        """Brokers that gave no answer the last time."""
        self._driving = ""
        """What moves the clock now: two at once are refused."""
        self._expected: set[str] = set()
        """Brokers that a move began with: it waits for one that is restarting."""

    # -- who follows ---------------------------------------------------------------------------------------------

    def joined(self, connection: Connection, name: str, reading: ClockReading) -> ClockReading:
        """Take in a broker; return what it has to show. A nameserver that starts anew learns the time from brokers."""
        if reading.epoch > self.face.epoch:
            self._show(ClockFace.showing(reading, self._clock.wall_ms()))
        self.brokers[connection] = name
        return self.reading()

    def left(self, connection: Connection) -> None:
        """Forget a broker whose connection is gone."""
        self.brokers.pop(connection, None)

    def message_ms(self) -> MessageMs:
        """Return the message time."""
        return self.face.at(self._clock.wall_ms())

    def reading(self) -> ClockReading:
        return self.face.reading(self._clock.wall_ms())

    # -- moves ---------------------------------------------------------------------------------------------------

    async def run_at(self, mode: str, rate: float) -> None:
        """Freeze, run or scale: the time stays, how it goes on changes. Raises: BrokerAnswer (somebody drives)."""
        self._take_wheel(f"set to {mode}")
        try:
            await self._set_all(mode, rate, self.message_ms())
        finally:
            self._driving = ""

    async def advance_to(self, target_ms: int, settle_ms_max: int = SETTLE_MS_MAX) -> Advanced:
        """Jump to a time with everything that falls due on the way; return what that was.

        Raises: NotAtRest, BrokerAnswer (a target in the past, somebody else drives).
        """
        now_ms = self.message_ms()
        if target_ms < now_ms:
            words = f"message time is {now_ms} and can't go back to {target_ms}: messages are stored with it"
            raise BrokerAnswer(ResponseCode.INVALID_PARAMETER, words)
        return await self._drive(f"advancing to {target_ms}", lambda _: target_ms, settle_ms_max)

    async def advance_by(self, by_ms: int, settle_ms_max: int = SETTLE_MS_MAX) -> Advanced:
        """`advance_to` a time that much after the one at which all clocks have come to stand."""
        return await self._drive(f"advancing by {by_ms} ms", lambda stands_at_ms: stands_at_ms + by_ms, settle_ms_max)

    async def _drive(self, what: str, target: Callable[[int], int], settle_ms_max: int) -> Advanced:
        self._take_wheel(what)
        mode, rate = self.face.mode, self.face.rate
        try:
            await self._set_all(FROZEN, 0.0, self.message_ms())
            return await self._advance(target(self.message_ms()), settle_ms_max)
        finally:
            self._driving = ""
            await self._set_all(mode, rate, self.message_ms())

    async def _advance(self, target_ms: int, settle_ms_max: int) -> Advanced:
        delivered = steps = checked = expired = 0
        progress_at_ms = self._clock.uptime_ms()
        while True:
            due_ms = await self._rest(settle_ms_max)
            if due_ms is None or due_ms > target_ms:
                await self._step(target_ms)  # nothing falls due then, but brokers may have old messages to remove
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
        """Set all brokers to a time, then let all deliver what is due; return what that was, and who couldn't."""
        await self._set_all(
            self.face.mode if self.face.mode == SKIPPING else FROZEN, 0.0, max(message_ms, self.message_ms())
        )
        answers = await self._ask_all(DeliverDue())
        done = [answer for answer in answers.values() if isinstance(answer, DeliverAnswer)]
        refused = {name: answer.remark for name, answer in answers.items() if answer.code != ResponseCode.SUCCESS}
        told = [f"broker {name} can't deliver what is due: {remark}" for name, remark in refused.items()]
        delivered, checked = sum(one.delivered for one in done), sum(one.checked for one in done)
        return Advanced(delivered, 1, checked, sum(one.expired for one in done)), told

    async def skip_loop(self) -> None:
        """Loop: while the clock skips, jump to whatever falls due next as soon as the cluster is at rest.

        While somebody holds the cluster from resting, time runs on at its usual pace.
        """
        while True:
            await self._skipping.wait()
            if self._driving or not self.brokers:
                await self._pause(IDLE_MS)
                continue
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
        due_ms = await self._rest(REST_WAIT_MS_MAX, _skips_to)
        if self._driving or self.face.mode != SKIPPING:
            return
        if due_ms is None:
            await self._let_run()
            await self._pause(IDLE_MS)
            return
        done, refusals = await self._step(due_ms)
        if refusals and not done.delivered and not done.expired:
            raise _not_at_rest(0, refusals)

    async def _let_run(self) -> None:
        if self.face.mode == SKIPPING and self.face.rate <= 0:
            await self._set_all(SKIPPING, 1.0, self.message_ms())

    def _show(self, face: ClockFace) -> None:
        self.face = face
        if face.mode == SKIPPING:
            self._skipping.set()
        else:
            self._skipping.clear()

    def _take_wheel(self, what: str) -> None:
        if self._driving:
            words = f"message time is being moved already ({self._driving}); wait for that to end"
            raise ClockBusy(ResponseCode.CLOCK_BUSY, words)
        self._driving = what
        self._expected = set(self.brokers.values())

    # -- rest ----------------------------------------------------------------------------------------------------

    async def next_due_ms(self) -> int | None:
        """Return when the next message falls due over all brokers."""
        return _earliest(await self._ask_all(GetRest(0)), lambda answer: answer.next_due_ms)

    async def _rest(
        self, settle_ms_max: int, due_of: Callable[[RestAnswer], int] = lambda answer: answer.next_due_ms
    ) -> int | None:
        """Wait until all brokers are at rest; return when the next message falls due. Raises: NotAtRest."""
        began_ms = self._clock.uptime_ms()
        seen: dict[str, int] = {}
        while True:
            left_ms = settle_ms_max - (self._clock.uptime_ms() - began_ms)
            missing = sorted(self._expected - set(self.brokers.values()))
            answers: dict[str, Answer] = {}
            if not missing:
                wait_ms = 0 if seen else max(0, min(left_ms, REST_WAIT_MS_MAX))
                answers = await self._ask_all(GetRest(wait_ms), wait_ms)
            rests = {name: answer for name, answer in answers.items() if isinstance(answer, RestAnswer)}
            if not missing and len(rests) == len(answers) and all(rest.at_rest for rest in rests.values()):
                counters = {name: rest.activity for name, rest in rests.items()}
                if counters == seen:
                    return _earliest(answers, due_of)
                seen = counters
                continue
            seen = {}
            if left_ms <= 0:
                raise _not_at_rest(settle_ms_max, _describe(missing, answers))
            if missing or len(rests) < len(answers):
                await self._pause(IDLE_MS)

    # -- talking to brokers --------------------------------------------------------------------------------------

    async def _set_all(self, mode: str, rate: float, message_ms: int) -> None:
        """Put a time everywhere. Brokers never go back: where one is ahead, the others follow it."""
        for _ in range(2):
            self._show(self.face.moved(self._clock.wall_ms(), mode, rate, message_ms))
            answers = await self._ask_all(SetBrokerClock(self.face.epoch, mode, rate, message_ms))
            shown = [answer.message_ms for answer in answers.values() if isinstance(answer, BrokerClockAnswer)]
            if rate > 0 or max(shown, default=0) <= message_ms:
                return
            message_ms = max(shown)

    async def _ask_all(self, request: Request, waits_ms: int = 0) -> dict[str, Answer]:
        """Ask every broker; one that is lost meanwhile answers with a refusal. It gets the clock when it registers.

        `waits_ms`: so long a broker may wait itself before it answers.
        """
        asked = {name: connection for connection, name in self.brokers.items()}
        answers = await asyncio.gather(*(self._ask(name, asked[name], request, waits_ms) for name in asked))
        return dict(zip(asked, answers, strict=True))

    async def _ask(self, name: str, connection: Connection, request: Request, waits_ms: int) -> Answer:
        answers_in_ms = SILENT_TIMEOUT_MS if name in self._silent else BROKER_TIMEOUT_MS
        try:
            answer = await connection.ask(request, waits_ms + answers_in_ms)
        except NetworkError as error:
            self._silent.add(name)
            return Answer(code=int(ResponseCode.SYSTEM_ERROR), remark=str(error))
        self._silent.discard(name)
        if answer.code != ResponseCode.SUCCESS:
            log.warning("clock_refused", broker=name, code=answer.code, remark=answer.remark)
        return answer


def _earliest(answers: dict[str, Answer], due_of: Callable[[RestAnswer], int]) -> int | None:
    dues = [due_of(answer) for answer in answers.values() if isinstance(answer, RestAnswer)]
    return min((due_ms for due_ms in dues if due_ms >= 0), default=None)


def _skips_to(answer: RestAnswer) -> int:
    return answer.skips_to_ms


def _not_at_rest(waited_ms: int, reasons: list[str]) -> NotAtRest:
    words = "; ".join(reasons) or "brokers keep storing, delivering or committing messages"
    return NotAtRest(ResponseCode.NOT_AT_REST, f"not at rest within {waited_ms} ms: {words}")


def _describe(missing: list[str], answers: dict[str, Answer]) -> list[str]:
    """Say in words who keeps the cluster from resting."""
    reasons = [f"broker {name} is gone" for name in missing]
    for name, answer in answers.items():
        if isinstance(answer, RestAnswer):
            reasons += [_of_queue(name, unrest) for unrest in answer.body or []]
        elif answer.code != ResponseCode.SUCCESS:
            reasons.append(f"broker {name} doesn't say whether it rests ({answer.remark})")
    return reasons


def _of_queue(broker: str, unrest: Unrest) -> str:
    where = f"group {unrest.group}, queue {unrest.queue_id} of {unrest.topic} on {broker}"
    how_far = f"committed {unrest.committed}, delivered to {unrest.delivered}, end {unrest.max_offset}"
    return f"{where}: {unrest.reason} ({how_far}; members: {', '.join(unrest.clients) or 'none'})"
