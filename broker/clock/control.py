"""The broker's side of the clock: requests of the nameserver over the registration connection. staticfire's own.

A step of an advance is SET_BROKER_CLOCK at every broker, then DELIVER_DUE at every broker, then GET_REST until all of
them are at rest. The response to GET_REST is held until the broker is at rest, or until a timeout.
"""

import asyncio

from staticfire.broker.clock.progress import ProgressTable
from staticfire.broker.clock.quiescence import QuiescenceWatch
from staticfire.broker.disk_watch import DiskWatch
from staticfire.broker.pop.lazy_service import LazyPopService
from staticfire.broker.state import BrokerState
from staticfire.broker.waiting import WaitingMessages
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import StorageError
from staticfire.protocol.requests.clock import (
    BrokerClockAnswer,
    ClockReading,
    DeliverAnswer,
    GetRest,
    RestAnswer,
    SetBrokerClock,
    Unrest,
)
from staticfire.protocol.times import MessageMs
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.log import logger

log = logger("broker")


class ClockControl:
    """Sets the message clock, and responds whether the broker is at rest."""

    def __init__(
        self,
        state: BrokerState,
        quiescence: QuiescenceWatch,
        progress: ProgressTable,
        waiting: WaitingMessages,
        pops: LazyPopService,
        disk_watch: DiskWatch,
    ) -> None:
        self._state = state
        self._clock = state.clock
        self._quiescence = quiescence
        self._progress = progress
        self._delays, self._timers, self._transactions = waiting
        self._pops = pops
        self._disk_watch = disk_watch
        self._waiting: list[asyncio.Future[None]] = []
        self._trouble = ""

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.SET_BROKER_CLOCK, self.set_clock)
        dispatcher.handle(RequestCode.DELIVER_DUE, self.deliver)
        dispatcher.handle(RequestCode.GET_REST, self.rest)

    def set_clock(self, call: Call) -> Answer:
        """Set the time.

        If the clock is frozen, messages that become due wait for DELIVER_DUE; otherwise they are delivered.
        """
        request: SetBrokerClock = call.request
        reading = ClockReading(request.epoch, request.mode, request.rate, request.message_ms, request.rate_after)
        self._state.set_clock(reading)
        return BrokerClockAnswer(self._clock.message_ms())

    async def deliver(self, call: Call) -> Answer:
        """Deliver everything due by now, check transactions, return expired pops, and remove what is too old."""
        message_ms, delivered, trouble = self._clock.message_ms(), 0, ""
        for waiting in (self._delays, self._timers):
            try:
                delivered += await waiting.deliver_until(message_ms)
            except (StorageError, OSError) as error:
                trouble = trouble or str(error)
        self._report(trouble)
        checked = await self._transactions.check_until(message_ms)
        expired = await self._pops.return_until(message_ms)
        await self._disk_watch.remove_passed()
        if trouble and not delivered:
            return refusal(ResponseCode.SYSTEM_ERROR, trouble)
        return DeliverAnswer(delivered, checked, expired)

    def _report(self, trouble: str) -> None:
        """Log once why due messages can't be delivered: an advance tries it again and again."""
        if trouble and trouble != self._trouble:
            log.error("due_not_delivered", reason=trouble)
        self._trouble = trouble

    async def rest(self, call: Call) -> Answer:
        """Respond whether the broker is at rest, as soon as it is."""
        request: GetRest = call.request
        reasons = self._unrest()
        if reasons and request.wait_ms > 0:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            try:
                async with asyncio.timeout(request.wait_ms / 1000):
                    await waiting
            except TimeoutError:
                self._waiting = [one for one in self._waiting if one is not waiting]
            reasons = self._unrest()
        next_due_ms = _earliest(
            self._delays.next_due_ms(),
            self._timers.next_due_ms(),
            self._transactions.next_due_ms(),
            self._pops.next_due_ms(),
        )
        return RestAnswer(
            not reasons,
            self._progress.activity,
            next_due_ms,
            self._clock.message_ms(),
            self._skips_to_ms(next_due_ms),
            _earliest(self._transactions.next_due_ms(), self._pops.works_until_ms()),
            body=reasons,
        )

    def _unrest(self) -> list[Unrest]:
        return [*self._transactions.unrest(), *self._pops.unrest(), *self._quiescence.unrest()]

    def _skips_to_ms(self, next_due_ms: int) -> int:
        """Return when the next thing is due that a skipping clock may jump to; -1 for none.

        While a connected producer has an open transaction, or a consumer holds a popped message, it is working on it,
        and that takes real time.
        """
        is_question_next = self._transactions.next_due_ms() == next_due_ms
        works = [self._transactions.works_until_ms() if is_question_next else None, self._pops.works_until_ms()]
        return -1 if any(until_ms is not None and until_ms <= next_due_ms for until_ms in works) else next_due_ms

    def settled(self) -> None:
        """After a burst, check again if a request waits for rest."""
        if not self._waiting or not self._quiescence.is_at_rest:
            return
        if not self._transactions.unrest() and not self._pops.unrest():
            self.look_now()

    def look_now(self) -> None:
        """Respond to all requests that wait for rest, whether the broker is at rest or not."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _earliest(*dues: MessageMs | None) -> int:
    return min((due for due in dues if due is not None), default=-1)
