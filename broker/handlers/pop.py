"""Pop messages: take them for a limited time. RocketMQ: PopMessageProcessor, NotificationProcessor,
PeekMessageProcessor.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks. Records in a response are
  slices of the log.
- The response to a pop is sent after the log has what the pop took, so a kill loses none of it.
- A pop that finds nothing and may wait is held. pop/holding.py decides when it looks again; each time, and at its
  deadline, all checks are made again.

Different from RocketMQ
- A pop takes nothing if its client has disconnected in the meantime.
- While nothing can be written (the disk is full), a pop is refused with SERVICE_NOT_AVAILABLE.
- CANCEL_POP ends a held pop. RocketMQ's brokers deliver a message to it even if no client waits for it any more.
- With `wakePopsOfReturning` a held pop receives a returned message at once, and not at the pop's deadline.
"""

from collections.abc import Callable

from staticfire.broker.pop.checks import PopChecks
from staticfire.broker.pop.fetching import OnePop, PopFetcher
from staticfire.broker.pop.held import HeldPop, HeldPops
from staticfire.broker.pop.holding import EARLY_MS, Holding
from staticfire.broker.pop.peeking import PopPeeker
from staticfire.broker.pop.tables import PopTables
from staticfire.broker.pulls.checks import Wanted
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.names import pop_retry_topic
from staticfire.protocol.pop_handles import flag_of
from staticfire.protocol.requests.pop import (
    CancelPop,
    Notification,
    NotificationAnswer,
    PeekMessage,
    PollingInfo,
    PollingInfoAnswer,
    PopAnswer,
    PopMessage,
)
from staticfire.runtime.dispatcher import Call, failure

NO_REMARK = "not set any response code"
"""The remark of RocketMQ's responses when no code sets another one."""


class PopHandlers:
    """Handles pops and related requests, at once or when a message arrives."""

    def __init__(self, tables: PopTables, settle: Callable[[], None]) -> None:
        """`settle`: writes the burst."""
        self._tables = tables
        self._state = tables.state
        self._journal = tables.journal
        self._wall_ms = tables.state.machine.clock.wall_ms
        self._checks = PopChecks(tables.state, tables.topics, tables.groups.configs)
        self._fetcher = PopFetcher(tables)
        self._peeker = PopPeeker(tables)
        self.holding = Holding(tables.state, settle, self._pop_again, self._notify_again)

    # -- pops ----------------------------------------------------------------------------------------------------

    def pop(self, call: Call) -> Answer | None:
        """Answer a pop, or hold it until a message arrives."""
        if not call.connection.is_open:
            return None  # It has waited while a snapshot was saved, or restored.
        request: PopMessage = call.request
        now_ms = self._wall_ms()
        born_ms = request.born_time or now_ms
        try:
            wanted = self._checks.check_pop(request, born_ms, call.connection)
            popped = self._fetcher.take(request, wanted, call.connection)
        except BrokerAnswer as error:
            return PopAnswer(code=error.code, remark=error.remark)
        if popped.count:
            self._hand_out(call, popped)
            return None
        if request.poll_time <= 0:
            return popped.nothing(ResponseCode.POLLING_TIMEOUT)
        holding = self.holding
        if holding.is_full(holding.pops, request.topic, (request.consumer_group, request.queue_id)):
            return popped.nothing(ResponseCode.POLLING_FULL)
        left_ms = born_ms + request.poll_time - EARLY_MS - now_ms
        if left_ms < 0:
            return popped.nothing(ResponseCode.POLLING_TIMEOUT)
        holding.hold(holding.pops, call, left_ms, wanted)
        return None

    def cancel(self, call: Call) -> Answer:
        """Answer a held pop without a message, because no client waits for it any more."""
        request: CancelPop = call.request

        def is_meant(held: HeldPop) -> bool:
            return held.call.connection is call.connection and held.call.request.cancel_id == request.cancel_id

        held = self.holding.pops.cancel(request.topic, request.consumer_group, is_meant)
        if held is not None:
            held.call.answer(OnePop(held.call.request, held.wanted, 0).nothing(ResponseCode.POLLING_TIMEOUT))
        return Answer()

    def _hand_out(self, call: Call, popped: OnePop) -> None:
        """Send the response when the log has what the pop took."""
        request = popped.request
        if popped.rest > 0:
            self.holding.wake(request.topic, (request.consumer_group, request.queue_id))

        def written(is_written: bool) -> None:
            if is_written:
                call.answer(popped.answer())
                self._note(call, popped)
                return
            popped.take_back()
            words = f"no message is delivered, because it can't be recorded: {self._state.store.failure}"
            call.answer(PopAnswer(code=int(ResponseCode.SERVICE_NOT_AVAILABLE), remark=words))

        self._tables.log.when_written(written)

    def _note(self, call: Call, popped: OnePop) -> None:
        """Write to the journal which client received which messages."""
        journal, request = self._journal, popped.request
        if journal is None:
            return
        client = call.connection.client_id or call.connection.peer.address
        for (flag, queue_id), offsets in popped.message_offsets.items():
            topic, group = request.topic, request.consumer_group
            if flag != flag_of(topic):
                topic = pop_retry_topic(topic, group, flag)
            first, end, count = offsets[0], offsets[-1] + 1, len(offsets)
            journal.note(journal.make(journal.uptime_ns(), client, group, topic, queue_id, first, end, count))

    def _pop_again(self, held: HeldPop, is_last: bool) -> bool:
        """Try a held pop again; return False if it continues to wait."""
        call, request = held.call, held.call.request
        answer: Answer
        try:
            wanted: Wanted = self._checks.check_pop(request, self._wall_ms(), call.connection)
            popped = self._fetcher.take(request, wanted, call.connection)
            if popped.count:
                self._hand_out(call, popped)
                return True
            if not is_last:
                return False
            answer = popped.nothing(ResponseCode.POLLING_TIMEOUT)
        except BrokerAnswer as error:
            answer = PopAnswer(code=error.code, remark=error.remark)
        except (ProtocolError, StorageError, OSError) as error:
            answer = failure(error, call)
        call.answer(answer)
        return True

    # -- queries -------------------------------------------------------------------------------------------------

    def peek(self, call: Call) -> Answer:
        """Return the messages that a pop would take, without taking them."""
        request: PeekMessage = call.request
        try:
            self._checks.check_look(request.consumer_group, request.topic, request.queue_id, call.connection)
        except BrokerAnswer as error:
            return PopAnswer(code=error.code, remark=error.remark)
        return self._peeker.peek(request)

    def notification(self, call: Call) -> Answer | None:
        """Report that there is something to pop, as soon as there is."""
        request: Notification = call.request
        try:
            self._checks.check_look(request.consumer_group, request.topic, request.queue_id, call.connection)
        except BrokerAnswer as error:
            return NotificationAnswer(code=error.code, remark=error.remark)
        if self._peeker.has_message(request):
            return NotificationAnswer(True, remark=NO_REMARK)
        now_ms = self._wall_ms()
        left_ms = (request.born_time or now_ms) + request.poll_time - EARLY_MS - now_ms
        if request.poll_time <= 0:
            return NotificationAnswer(remark=NO_REMARK)
        held: HeldPops = self.holding.notifications
        if self.holding.is_full(held, request.topic, (request.consumer_group, request.queue_id)):
            return NotificationAnswer(False, True, remark=NO_REMARK)
        if left_ms < 0:
            return NotificationAnswer(remark=NO_REMARK)
        self.holding.hold(held, call, left_ms)
        return None

    def _notify_again(self, held: HeldPop, is_last: bool) -> bool:
        call, request = held.call, held.call.request
        try:
            self._checks.check_look(request.consumer_group, request.topic, request.queue_id, call.connection)
            has_message = self._peeker.has_message(request)
        except BrokerAnswer as error:
            call.answer(NotificationAnswer(code=error.code, remark=error.remark))
            return True
        except (StorageError, OSError) as error:
            call.answer(failure(error, call))
            return True
        if has_message or is_last:
            call.answer(NotificationAnswer(has_message, remark=NO_REMARK))
            return True
        return False

    def polling_info(self, call: Call) -> Answer:
        """Return how many pops are held for exactly this topic, group and queue id."""
        request: PollingInfo = call.request
        try:
            self._checks.check_look(request.consumer_group, request.topic, request.queue_id, call.connection)
        except BrokerAnswer as error:
            return PollingInfoAnswer(code=error.code, remark=error.remark)
        key = request.consumer_group, request.queue_id
        return PollingInfoAnswer(self.holding.pops.count_of(request.topic, key), remark=NO_REMARK)

    def rollback(self, call: Call) -> Answer:
        """Return success without doing anything: with default settings RocketMQ does nothing here, too."""
        return refusal(ResponseCode.SUCCESS, NO_REMARK)
