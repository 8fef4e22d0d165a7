"""Store messages: single ones, batches for one queue, or many for any queues. RocketMQ: SendMessageProcessor.

The requests that one read of a connection brings are a burst. Their messages are appended in memory, then the burst is
written at once. After the write the store calls back for each message, and its send is answered.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks. `TargetTable` keeps the
  result per topic, so that the hot path needs only one look-up in a dictionary.
- A message is answered after its burst is written (with SYNC_FLUSH: after it is on the disk), so nothing is
  acknowledged that isn't stored.
- The first messages of a new topic wait until the nameservers have the topic (new_topics.py). With a SEND_MANY, only
  its response does.
- A message for a static topic is stored in the queue that its logical queue is mapped to: static_topics/sends.py.
- sending.py adds properties to the messages. A batch is stored as a whole or not at all (send_batch.py); in a SEND_MANY
  each message succeeds or fails independently (send_many.py).

Not done
- Property strings are stored as they arrive; RocketMQ parses them and writes them again. So malformed entries are kept.
"""

from typing import Any

from staticfire.broker.handlers.send_batch import BatchHandler
from staticfire.broker.handlers.send_many import ManyHandler
from staticfire.broker.handlers.send_runs import SendRunHandler
from staticfire.broker.sends.intake import Intake
from staticfire.broker.sends.not_built import is_half
from staticfire.broker.sends.sending import OUTCOME_CODE, Sending
from staticfire.broker.sends.targets import Target, TargetTable
from staticfire.broker.state import BrokerState
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.requests.send import SendAnswer, SendMessage
from staticfire.protocol.sys_flag import UNUSUAL
from staticfire.runtime.dispatcher import Call, Dispatcher


class SendHandlers:
    """Handles sends."""

    def __init__(
        self, state: BrokerState, targets: TargetTable, intake: Intake, transactions: TransactionService
    ) -> None:
        self._put = state.store.put
        self._message_ms = state.clock.message_ms
        self._targets = targets
        self._intake = intake
        self._transactions = transactions
        self._find_target = targets.by_topic.get
        self._mappings = targets.mappings
        self._random = state.machine.identity.random
        self._sending = sending = Sending(state)
        self._batch = BatchHandler(state, sending)
        self._many = ManyHandler(state, targets, intake, sending)
        self._runs = None if twin is None else SendRunHandler(state, targets, sending, transactions.runs, twin)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            dispatcher.handle(code, self.send)
        dispatcher.handle(RequestCode.SEND_MANY, self._many.send)
        if self._runs is not None:
            dispatcher.routes.offer_sends(self._runs)

    def send(self, call: Call) -> Answer | None:
        """Store one message, or a batch if the request is marked as one."""
        request: SendMessage = call.request
        try:
            target = self._find_target(request.topic)
            if target is None and request.topic in self._mappings:
                from staticfire.broker.static_topics.sends import placed  # imported here: few topics are static

                call = placed(call, self._mappings[request.topic], self._random)
                request = call.request
                target = self._targets.for_placed(request, call.peer)
            elif target is None:
                target, new_topics = self._targets.for_request(request, call.peer), self._targets.new_topics
                if target.topic in new_topics:
                    new_topics.hold(target.topic, call, self.send)
                    return None
            if request.batch:
                self._batch.send(call, request, target)
            else:
                self._send_one(call, request, target)
        except BrokerAnswer as error:
            return self._sending.refused(error.code, error.remark)
        except ProtocolError as error:
            return self._sending.refused(ResponseCode.SYSTEM_ERROR, str(error))  # A number is too large for a record.
        except StorageError as error:
            return self._sending.refused(ResponseCode.SERVICE_NOT_AVAILABLE, self._sending.unavailable(error))
        return None

    def _send_one(self, call: Call, request: SendMessage, target: Target) -> None:
        """Store a message, or have it wait. Raises: BrokerAnswer, StorageError, ProtocolError."""
        properties, unique_id, tags_code, may_wait = self._sending.prepare(
            (request.properties or "").encode(), request.body
        )
        queue = target.at_hand.get(request.queue_id) or target.queue(request.queue_id, call.peer)
        record = NewRecord(
            queue, properties, tags_code, request.body, request.born_timestamp, call.connection.born_host,
            request.sys_flag | target.sys_flag, request.flag, request.reconsume_times or 0,
        )  # fmt: skip
        context = [call, queue.queue_id, unique_id, None]
        if not (may_wait or target.is_special or request.sys_flag & UNUSUAL):
            self._put(record, self._message_ms(), self._stored, context)
            return
        self._sending.refuse_not_built(properties, request.sys_flag, record.reconsume_times)
        if is_half(properties, record.reconsume_times):
            self._transactions.begin(record, unique_id, self._stored, context)
        elif target.is_retry:
            self._intake.put_retry(record, request.max_reconsume_times, call.peer.version, self._stored, context)
        else:
            context[3] = self._intake.put(record, self._stored, context)

    def _stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        call, queue_id, unique_id, recall_handle = context
        sending = self._sending
        if outcome is PutOutcome.FAILED:
            call.answer(sending.not_stored())
            return
        message_id = offset_id(call.connection.store_id_prefix, log_position)
        answer = SendAnswer(message_id, queue_id, queue_offset, unique_id, sending.region, sending.trace_on)
        answer.recall_handle, answer.code = recall_handle, OUTCOME_CODE[outcome]
        call.answer(answer)
