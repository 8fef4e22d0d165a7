"""Store messages: single ones, batches for one queue, or many for any queues. RocketMQ: SendMessageProcessor.

The requests that one read of a connection brings are a burst. Their messages are appended in memory, then the burst is
written at once. After the write the store calls back, and all messages of the burst are answered together.

Behaviour
- The checks are those of RocketMQ 5.3, in the same order, with the same codes and remarks. `TargetTable` keeps the
  result per topic, so that the hot path needs only one look-up in a dictionary.
- A message is answered after its burst is written (with SYNC_FLUSH: after it is on the disk), so nothing is
  acknowledged that isn't stored. The clock is read once for all messages of a burst.
- The first messages of a new topic wait until the nameservers have the topic (new_topics.py), except those of a
  SEND_MANY.
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
"""A message of the current burst: call, queue id, unique id, queue offset, log position."""


class SendHandlers:
    """Handles sends."""

    def __init__(
        self, state: BrokerState, targets: TargetTable, intake: Intake, transactions: TransactionService
    ) -> None:
        self._store = state.store
        self._put = state.store.put
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
                return None
            body: bytes = request.body
            prepared = self._prepare((request.properties or "").encode(), body)
            properties, unique_id, tags_code, may_wait = prepared
            queue = target.at_hand.get(request.queue_id) or target.queue(request.queue_id, call.peer)
            if may_wait or target.is_special or request.sys_flag & UNUSUAL:
                self._send_slow_path(call, request, target, prepared, queue)
                return None
            sent, on_stored = self._sent, None
            if not sent or self._burst_number != self._store.burst_number:
                sent, on_stored = self._begin_burst(), self._all_stored
            record = NewRecord(
                queue, properties, tags_code, body, request.born_timestamp, call.connection.born_host,
                request.sys_flag, request.flag, request.reconsume_times or 0,
            )  # fmt: skip
            position = self._put(record, self._clock.shown_ms, on_stored, sent)
            sent.append((call, queue.queue_id, unique_id, queue.next_offset - 1, position))
        except BrokerAnswer as error:
            return self._sending.refused(error.code, error.remark)
        except ProtocolError as error:
            return self._sending.refused(ResponseCode.SYSTEM_ERROR, str(error))  # A number is too large for a record.
        except StorageError as error:
            return self._sending.refused(ResponseCode.SERVICE_NOT_AVAILABLE, self._sending.unavailable(error))
        return None

    def _begin_burst(self) -> list[Sent]:
        """Begin the list of messages of a new burst. The store calls back once, with the first message, for all of
        them.

        If the last burst failed, its messages have been answered, and its list is empty.
        """
        self._burst_number = self._store.burst_number
        self._clock.message_ms()  # Updates `shown_ms`: all messages are stored at this time, or at a newer one.
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
        """Store a message that may be delayed, or whose topic is special. Raises: BrokerAnswer, StorageError."""
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
