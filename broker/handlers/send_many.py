"""Store many messages of any topics and queues in one request, each with its own result. Specific to staticfire.

Behaviour
- Each message is checked, stored or refused as if it were sent alone, independently of the others.
- There is one response, sent after the burst is written, when all results are known, and the nameservers have all new
  topics. Messages of a new topic don't wait for that, since the others of the request don't.
"""

from functools import partial
from typing import Any

import msgspec

from staticfire.broker.sends.intake import Intake
from staticfire.broker.sends.not_built import is_half
from staticfire.broker.sends.sending import OUTCOME_CODE, Sending
from staticfire.broker.sends.targets import TargetTable
from staticfire.broker.state import BrokerState
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.requests.send import ManyMessage, ManyResult, SendMany, SendManyAnswer, SendMessage
from staticfire.protocol.sys_flag import UNUSUAL
from staticfire.runtime.dispatcher import Call


class Many(msgspec.Struct, gc=False):
    """A request while its messages are stored."""

    call: Call
    results: list[ManyResult | None]
    missing: int = 0
    """How many callbacks are still expected: of the store, and about new topics."""


class ManyHandler:
    """Handles requests with many messages."""

    def __init__(self, state: BrokerState, targets: TargetTable, intake: Intake, sending: Sending) -> None:
        self._put = state.store.put
        self._message_ms = state.clock.message_ms
        self._targets = targets
        self._new_topics = targets.new_topics
        self._intake = intake
        self._find_target = targets.by_topic.get
        self._sending = sending

    def send(self, call: Call) -> Answer | None:
        """Store messages of any topics and queues, each with its own result."""
        request: SendMany = call.request
        messages: list[ManyMessage] = request.body or []
        many = Many(call, [None] * len(messages))
        for index, message in enumerate(messages):
            try:
                self._send_one(many, index, message)
                many.missing += 1
            except BrokerAnswer as error:
                many.results[index] = _refused(error.code, error.remark)
            except ProtocolError as error:
                many.results[index] = _refused(ResponseCode.SYSTEM_ERROR, str(error))
            except StorageError as error:
                words = self._sending.unavailable(error)
                many.results[index] = _refused(ResponseCode.SERVICE_NOT_AVAILABLE, words)
        return None if many.missing else SendManyAnswer(body=many.results)

    def _send_one(self, many: Many, index: int, message: ManyMessage) -> None:
        """Store one of the messages, or have it wait. Raises: BrokerAnswer, StorageError, ProtocolError."""
        call = many.call
        target = self._find_target(message.topic)
        if target is None:
            target = self._targets.for_request(_single(call.request, message), call.peer)
            if target.topic in self._new_topics:
                many.missing += 1
                self._new_topics.when_announced(target.topic, partial(self._called_back, many))
        properties, _, tags_code, may_wait = self._sending.prepare(message.properties, message.body)
        queue = target.at_hand.get(message.queue_id) or target.queue(message.queue_id, call.peer)
        record = NewRecord(
            queue, properties, tags_code, message.body, message.born_timestamp, call.connection.born_host,
            message.sys_flag | target.sys_flag, message.flag,
        )  # fmt: skip
        context = (many, index, queue.queue_id)
        if not (may_wait or target.is_special or message.sys_flag & UNUSUAL):
            self._put(record, self._message_ms(), self._stored, context)
            return
        self._sending.refuse_not_built(properties, message.sys_flag, 0)
        if is_half(properties, 0):
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, "a half message must be sent alone, not with others")
        if target.is_retry:
            self._intake.put_retry(record, None, call.peer.version, self._stored, context)
        else:
            self._intake.put(record, self._stored, context)

    def _stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        many, index, queue_id = context
        many.results[index] = self._result(outcome, queue_id, queue_offset, log_position)
        self._called_back(many)

    def _called_back(self, many: Many) -> None:
        many.missing -= 1
        if not many.missing:
            many.call.answer(SendManyAnswer(body=many.results))

    def _result(self, outcome: PutOutcome, queue_id: int, queue_offset: int, log_position: int) -> ManyResult:
        if outcome is PutOutcome.FAILED:
            answer = self._sending.not_stored()
            return _refused(answer.code, answer.remark or "", queue_id)
        return ManyResult(OUTCOME_CODE[outcome], queue_id, queue_offset, log_position)


def _single(request: SendMany, message: ManyMessage) -> SendMessage:
    """Return a message as a single send request, without properties and body."""
    return SendMessage(
        request.producer_group, message.topic, request.default_topic, request.default_topic_queue_nums,
        message.queue_id, message.sys_flag, message.born_timestamp, message.flag,
    )  # fmt: skip


def _refused(code: int, remark: str, queue_id: int = -1) -> ManyResult:
    return ManyResult(int(code), queue_id, -1, -1, remark)
