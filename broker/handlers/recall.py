"""Recall messages that wait for their delivery time. RocketMQ: RecallMessageProcessor.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks.
- The response is sent after the recall is stored. The code is also 0 if no such message waits (any more), and the
  remark states it. RocketMQ also returns 0 then: it stores a marker for every handle and can't tell.

Different from RocketMQ
- A handle whose time has come is valid as long as its message waits: RocketMQ rounds the time down to a second.
"""

from typing import Any

from staticfire.broker.state import BrokerState
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.timers.service import TimerService
from staticfire.broker.topics import TopicTable
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.recall_handle import RecallHandle, decode_handle
from staticfire.protocol.requests.recall import RecallAnswer, RecallMessage
from staticfire.runtime.dispatcher import Call, Dispatcher

NOTHING_WAITS = "no message waits for this handle: it was recalled before, or never existed"


class RecallHandlers:
    """Handles recalls."""

    def __init__(self, state: BrokerState, topics: TopicTable, timers: TimerService) -> None:
        self._state = state
        self._topics = topics
        self._timers = timers

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.RECALL_MESSAGE, self.recall)

    def recall(self, call: Call) -> Answer | None:
        """Recall the message of a handle. Raises: StorageError."""
        request: RecallMessage = call.request
        settings = self._state.settings
        if not settings.recall_message_enable:
            return self._refusal(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        if settings.broker_id != 0:
            return self._refusal(ResponseCode.SLAVE_NOT_AVAILABLE, "recall failed, broker service not available")
        if self._topics.get(request.topic) is None:
            remark = f"recall failed, the topic[{request.topic}] not exist"
            return self._refusal(ResponseCode.TOPIC_NOT_EXIST, remark)
        try:
            handle = decode_handle(request.recall_handle)
        except ProtocolError as error:
            return self._refusal(ResponseCode.ILLEGAL_OPERATION, str(error))
        found = self._timers.find(handle)
        fault = self._fault(request.topic, handle, bool(found))
        if fault is not None:
            return self._refusal(ResponseCode.ILLEGAL_OPERATION, fault)
        if not found:
            return self._answer(handle, NOTHING_WAITS)
        for index, one in enumerate(found):
            is_last = index == len(found) - 1
            group = request.producer_group or ""
            self._timers.recall(one, handle, group, self._stored, (call, handle) if is_last else None)
        return None

    def _fault(self, topic: str, handle: RecallHandle, waits: bool) -> str | None:
        if handle.topic != topic:
            return "recall failed, topic not match"
        if handle.broker_name != self._state.settings.broker_name:
            return "recall failed, broker service not available"
        left_ms = handle.timestamp_ms - self._state.clock.message_ms()
        if not waits and not 0 < left_ms < self._timers.delay_max_ms:
            return "recall failed, timestamp invalid"
        return None

    def _refusal(self, code: ResponseCode, remark: str) -> RecallAnswer:
        """Return a refusal with the region: RocketMQ's clients trace no recall whose response has no region."""
        return RecallAnswer(None, self._state.settings.region_id, code=int(code), remark=remark)

    def _answer(self, handle: RecallHandle, remark: str) -> RecallAnswer:
        return RecallAnswer(handle.unique_id, self._state.settings.region_id, remark=remark)

    def _stored(self, context: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        if context is None:
            return
        call, handle = context
        if outcome is PutOutcome.FAILED:
            call.answer(self._refusal(ResponseCode.SYSTEM_ERROR, "recall failed, it could not be stored"))
        else:
            call.answer(self._answer(handle, "not set any response code"))
