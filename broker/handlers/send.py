"""Messages come in: one, a batch of one queue, or many of anything. RocketMQ: SendMessageProcessor.

Behaviour
- The checks, codes and remarks of RocketMQ 5.3 in its order; `TargetTable` keeps their outcome per topic, so that the
  hot path asks one dictionary.
- A message is answered when the burst that brought it is written (or, with SYNC_FLUSH, on the disk): the store calls
  back, so nothing is acknowledged that isn't stored. The messages of a burst share one look at the clock.
- The first messages of a new topic wait until the nameservers know it (new_topics.py), but for those of a SEND_MANY.
- A message for a static topic is stored where its logical queue is mapped to: static_topics/sends.py.
- What is added to the properties: sending.py. A batch is all or nothing (send_batch.py); of a SEND_MANY each message
  succeeds or fails by itself (send_many.py).

Not done
- Property strings are stored as they came, not parsed and written anew as RocketMQ does, so broken entries stay.
"""

from typing import Any

from staticfire.broker.handlers.send_batch import BatchHandler
from staticfire.broker.handlers.send_many import ManyHandler
from staticfire.broker.handlers.send_runs import SendRunHandler
from staticfire.broker.sends.intake import Intake
from staticfire.broker.sends.not_built import is_half
from staticfire.broker.sends.sending import OUTCOME_CODE, Prepared, Sending
from staticfire.broker.sends.targets import Target, TargetTable
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.transactions.service import TransactionService
from staticfire.protocol.codecs import Codec, SentWriter
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.compiled import twin
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.requests.send import SendAnswer, SendMessage
from staticfire.protocol.sys_flag import UNUSUAL
from staticfire.runtime.dispatcher import Call, Dispatcher

Sent = tuple[Call, int, str, int, int]
"""A message on the burst: call, queue id, unique id, queue offset, log position."""


class SendHandlers:
    """Stores what producers send."""

    def __init__(
        self, state: BrokerState, targets: TargetTable, intake: Intake, transactions: TransactionService
    ) -> None:
        self._store = state.store
        self._append = state.store.append
        self._clock = state.clock
        self._targets = targets
        self._intake = intake
        self._transactions = transactions
        self._find_target = targets.by_topic.get
        self._mappings = state.static_topics.by_topic
        self._random = state.machine.identity.random
        self._sending = sending = Sending(state)
        self._prepare = sending.prepare
        self._batch = BatchHandler(state, sending)
        self._many = ManyHandler(state, targets, intake, sending)
        self._runs = None if twin is None else SendRunHandler(state, targets, sending, transactions.runs, twin)
        self._writers: dict[int, SentWriter] = {}
        state.on_settings(lambda _: self._writers.clear())
        self._burst_number = -1
        self._sent: list[Sent] = []

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handlers."""
        for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            dispatcher.handle(code, self.send)
        dispatcher.handle(RequestCode.SEND_MANY, self._many.send)
        if self._runs is not None:
            dispatcher.routes.offer_sends(self._runs)

    def send(self, call: Call) -> Answer | None:
        """Store one message, or a batch when it is marked as one."""
        request: SendMessage = call.request
        try:
            target = self._find_target(request.topic)
            if target is None and request.topic in self._mappings:
                from staticfire.broker.static_topics.sends import placed  # here: few topics are static

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
                return None
            body: bytes = request.body
            prepared = properties, unique_id, tags_code, may_wait = self._prepare(request.properties or "", body)
            queue = target.at_hand.get(request.queue_id) or target.queue(request.queue_id, call.peer)
            if may_wait or target.is_special or request.sys_flag & UNUSUAL:
                self._send_slow_path(call, request, target, prepared, queue)
                return None
            sent, on_stored = self._sent, None
            if not sent or self._burst_number != self._store.burst_number:
                sent, on_stored = self._begin_burst(), self._all_stored
            # fmt: off
            position = self._append(
                queue, request.born_timestamp, request.sys_flag, request.flag, request.reconsume_times or 0, 0,
                call.connection.born_host, properties, body, tags_code, self._clock.shown_ms, on_stored, sent,
            )
            # fmt: on
            sent.append((call, queue.queue_id, unique_id, queue.next_offset - 1, position))
        except BrokerAnswer as error:
            return self._sending.refused(error.code, error.remark)
        except ProtocolError as error:
            return self._sending.refused(ResponseCode.SYSTEM_ERROR, str(error))  # a number that fits no record
        except StorageError as error:
            return self._sending.refused(ResponseCode.SERVICE_NOT_AVAILABLE, self._sending.unavailable(error))
        return None

    def _begin_burst(self) -> list[Sent]:
        """Return the list of the burst's messages; for the first of them the store calls back for all.

        What was on one that failed has been answered, and its list is empty.
        """
        self._burst_number = self._store.burst_number
        self._clock.message_ms()  # all of them are stored at the time that it shows now, or at a newer one
        self._sent = []
        return self._sent

    def _all_stored(self, sent: list[Sent], _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        """Answer all messages of a burst."""
        if sent is self._sent:
            self._sent = []
        if outcome is PutOutcome.FAILED:
            for call, *_ in sent:
                call.answer(self._sending.not_stored())
            return
        if outcome is not PutOutcome.STORED:
            for one in sent:
                one[0].answer(self._answer(one, OUTCOME_CODE[outcome]))
            return
        call = sent[0][0]
        connection, codec = call.connection, call.codec
        out, prefix, write = connection.outgoing(), connection.store_id_prefix, self._writer(codec)
        for call, queue_id, unique_id, queue_offset, log_position in sent:
            if call.connection is not connection or call.codec is not codec:
                connection, codec = call.connection, call.codec
                out, prefix, write = connection.outgoing(), connection.store_id_prefix, self._writer(codec)
            if out is not None and not call.oneway:
                write(out, call.opaque, prefix, log_position, queue_id, queue_offset, unique_id)

    def _writer(self, codec: Codec) -> SentWriter:
        writer = self._writers.get(codec.number)
        if writer is None:
            writer = self._writers[codec.number] = codec.sent_writer(self._sending.region, self._sending.trace_on)
        return writer

    def _answer(self, sent: Sent, code: int) -> SendAnswer:
        call, queue_id, unique_id, queue_offset, log_position = sent
        message_id = offset_id(call.connection.store_id_prefix, log_position)
        sending = self._sending
        return SendAnswer(
            message_id, queue_id, queue_offset, unique_id, sending.region, sending.trace_on, code=code
        )  # fmt: skip

    def _send_slow_path(
        self, call: Call, request: SendMessage, target: Target, prepared: Prepared, queue: Queue
    ) -> None:
        """Store a message that may wait, or for a topic that is special. Raises: BrokerAnswer, StorageError."""
        properties, unique_id, tags_code, _ = prepared
        self._sending.refuse_not_built(properties, request.sys_flag, request.reconsume_times or 0)
        record = NewRecord(
            queue, properties, tags_code, request.body, request.born_timestamp, call.connection.born_host,
            request.sys_flag | target.sys_flag, request.flag, request.reconsume_times or 0,
        )  # fmt: skip
        context = [call, queue.queue_id, unique_id, None]
        if is_half(properties, record.reconsume_times):
            self._transactions.begin(record, unique_id, self._stored, context)
        elif target.is_retry:
            self._intake.put_retry(record, request.max_reconsume_times, call.peer.version, self._stored, context)
        else:
            context[3] = self._intake.put(record, self._stored, context)

    def _stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        call, queue_id, unique_id, recall_handle = context
        if (recall_handle is not None or type(call) is not Call) and outcome is not PutOutcome.FAILED:
            answer = self._answer((call, queue_id, unique_id, queue_offset, log_position), OUTCOME_CODE[outcome])
            answer.recall_handle = recall_handle
            call.answer(answer)
            return
        self._all_stored([(call, queue_id, unique_id, queue_offset, log_position)], 0, 0, outcome)
