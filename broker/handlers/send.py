"""Messages come in: one, a batch of one queue, or many of anything. RocketMQ: SendMessageProcessor.

Behaviour
- The checks, codes and remarks of RocketMQ 5.3 in its order; `TargetTable` keeps their outcome per topic, so that the
  hot path asks one dictionary.
- A message is answered when the burst that brought it is written (or, with SYNC_FLUSH, on the disk): the store calls
  back, so nothing is acknowledged that isn't stored.
- The broker adds MSG_REGION, TRACE_ON and CLUSTER to the properties, and UNIQ_KEY where it is missing.
- A batch is all or nothing, and may be compressed as a whole (RocketMQ would store that as one message). Of a SEND_MANY
  each message succeeds or fails by itself.

Not done
- Property strings are stored as they came, not parsed and written anew as RocketMQ does, so broken entries stay.
"""

from typing import Any

import msgspec

from staticfire.broker.handlers.targets import Target, TargetTable
from staticfire.broker.state import BrokerState
from staticfire.broker.store.outcomes import OnStored, PutOutcome
from staticfire.broker.store.store import MessageStore
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer
from staticfire.protocol.compression import expand
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, StorageError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.message_ids import UniqueIds, offset_id
from staticfire.protocol.properties import (
    CLUSTER,
    DELAY,
    MSG_REGION,
    POP_CK,
    TRACE_ON,
    UNIQ_KEY,
    find_property,
    with_last_end,
    without_property,
)
from staticfire.protocol.requests.send import ManyMessage, ManyResult, SendAnswer, SendMany, SendManyAnswer, SendMessage
from staticfire.protocol.rocketmq_record import decode_batch
from staticfire.protocol.sys_flag import COMPRESSED, COMPRESSION_MASK
from staticfire.protocol.tags import tags_code
from staticfire.runtime.connection import Call, Dispatcher

_OUTCOME_CODE = {
    PutOutcome.STORED: int(ResponseCode.SUCCESS),
    PutOutcome.FLUSH_TIMEOUT: int(ResponseCode.FLUSH_DISK_TIMEOUT),
    PutOutcome.FAILED: int(ResponseCode.SERVICE_NOT_AVAILABLE),
}


class SendHandlers:
    """Stores what producers send."""

    def __init__(self, state: BrokerState, targets: TargetTable) -> None:
        settings = state.settings
        self._state = state
        self._store: MessageStore = state.store
        self._message_ms = state.clock.message_ms
        self._targets = targets
        self._find_target = targets.by_topic.get
        self._body_bytes_max = settings.max_message_size
        self._region = settings.region_id
        self._trace_on = "true" if settings.trace_on else "false"
        added = {"MSG_REGION": self._region, "TRACE_ON": self._trace_on, "CLUSTER": settings.broker_cluster_name}
        self._added = b"".join(f"{name}\x01{value}\x02".encode() for name, value in added.items())
        self._properties_bytes_max = PROPERTIES_BYTES_MAX - len(self._added)
        identity = state.machine.identity
        self._unique_ids = UniqueIds(pack_host(identity.host_ip, 0)[:-4], identity.pid, identity.random.getrandbits(32))
        self._illegal = (
            "the message is illegal, maybe msg body or properties length not matched. "
            f"msg body length limit {self._body_bytes_max}B, msg properties length limit 32KB."
        )

    def register(self, dispatcher: Dispatcher) -> None:
        """File the handlers."""
        for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            dispatcher.handle(code, self.send)
        dispatcher.handle(RequestCode.SEND_MANY, self.send_many)

    # -- one message ---------------------------------------------------------------------------------------------

    def send(self, call: Call) -> Answer | None:
        """Store one message, or a batch when it is marked as one."""
        request: SendMessage = call.request
        try:
            target = self._find_target(request.topic) or self._targets.for_request(request, call.peer)
            if request.batch:
                self._send_batch(call, request, target)
                return None
            body: bytes = request.body
            properties = request.properties
            prepared, unique_id = self._prepare(properties.encode() if properties else b"", body)
            queue = target.queue(request.queue_id, call.peer)
            queue_id = queue.queue_id
            on_stored: OnStored = self._stored
            if target.is_retry:
                queue, prepared, on_stored = self._targets.retried(request, queue, prepared, call.peer, on_stored)
            self._targets.append(
                queue,
                prepared,
                body,
                request.born_timestamp,
                request.sys_flag | target.sys_flag,
                request.flag,
                request.reconsume_times or 0,
                call.connection.born_host,
                tags_code(prepared),
                on_stored,
                (call, queue_id, unique_id),
            )
        except BrokerAnswer as error:
            return self._refused(error.code, error.remark)
        except StorageError as error:
            return self._refused(ResponseCode.SERVICE_NOT_AVAILABLE, self._unavailable(error))
        return None

    def _prepare(self, properties: bytes, body: bytes) -> tuple[bytes, str]:
        """Return the properties as they will be stored and the message's unique id. Raises: BrokerAnswer."""
        if not body:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "the message body is empty: RocketMQ stores none either")
        if len(body) > self._body_bytes_max or len(properties) > self._properties_bytes_max:
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self._illegal)
        properties = with_last_end(properties)
        if b"CLUSTER\x01" in properties or b"MSG_REGION\x01" in properties or b"POP_CK\x01" in properties:
            for name in (MSG_REGION, TRACE_ON, CLUSTER, POP_CK):
                properties = without_property(properties, name)
        unique_id = find_property(properties, UNIQ_KEY)
        if unique_id:
            return properties + self._added, unique_id.decode("utf-8", "replace")
        made = self._unique_ids.next_id(self._message_ms())
        return b"%sUNIQ_KEY\x01%s\x02%s" % (without_property(properties, UNIQ_KEY), made.encode(), self._added), made

    def _stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        call, queue_id, unique_id = context
        if outcome is PutOutcome.FAILED:
            call.answer(self._refused(ResponseCode.SERVICE_NOT_AVAILABLE, self._unavailable(self._store.failure)))
            return
        call.answer(
            SendAnswer(
                offset_id(call.connection.store_id_prefix, log_position),
                queue_id,
                queue_offset,
                unique_id,
                self._region,
                self._trace_on,
                code=_OUTCOME_CODE[outcome],
            )
        )

    def _refused(self, code: int, remark: str) -> Answer:
        return SendAnswer(region=self._region, trace_on=self._trace_on, code=int(code), remark=remark)

    def _unavailable(self, error: Exception | None) -> str:
        return (
            "service not available now. It may be caused by one of the following reasons: the broker's disk is full, "
            f"messages are put to the slave, message store has been shut down, etc. [{error}]"
        )

    # -- a batch -------------------------------------------------------------------------------------------------

    def _send_batch(self, call: Call, request: SendMessage, target: Target) -> None:
        """Store all messages of a batch body in one queue, or none. Raises: BrokerAnswer, StorageError."""
        header = (request.properties or "").encode()
        if target.is_retry:
            raise BrokerAnswer(
                ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support retry group {target.topic}"
            )
        if len(request.body) > self._body_bytes_max:
            size = f"msg total size: {len(request.body)}, maxMessageSize: {self._body_bytes_max}"
            words = f"message body size exceeded, {size}"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, words)
        if find_property(header, DELAY) is not None or request.sys_flag & 0xC:
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self._illegal)
        sys_flag = request.sys_flag
        try:
            if sys_flag & COMPRESSED:
                # The C++ core compresses a batch as a whole; its messages are not compressed then.
                messages = decode_batch(expand(request.body, sys_flag, self._body_bytes_max))
                sys_flag &= ~(COMPRESSED | COMPRESSION_MASK)
            else:
                messages = decode_batch(request.body)
        except ProtocolError as error:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"the batch can't be read: {error}") from None
        if not messages:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "the batch has no message")
        queue = target.queue(request.queue_id, call.peer)
        unique_id = find_property(header, UNIQ_KEY)
        added = with_last_end(header) + self._added
        rows = []
        for flag, body, properties in messages:
            whole = with_last_end(properties) + added
            if not body or len(whole) > PROPERTIES_BYTES_MAX or len(body) > self._body_bytes_max:
                raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self._illegal)
            rows.append((flag, body, whole))
        batch = _Batch(call, queue.queue_id, unique_id.decode("utf-8", "replace") if unique_id else None, len(rows))
        born_host = call.connection.born_host
        for flag, body, whole in rows:
            self._targets.append(
                queue, whole, body, request.born_timestamp, sys_flag, flag, 0, born_host,
                tags_code(whole), self._batch_stored, batch, delayed=False,
            )  # fmt: skip

    def _batch_stored(self, batch: "_Batch", queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        batch.positions.append(log_position)
        batch.outcomes.add(outcome)
        if len(batch.positions) < batch.count:
            return
        call = batch.call
        if PutOutcome.FAILED in batch.outcomes:
            call.answer(self._refused(ResponseCode.SERVICE_NOT_AVAILABLE, self._unavailable(self._store.failure)))
            return
        prefix = call.connection.store_id_prefix
        call.answer(
            SendAnswer(
                ",".join([offset_id(prefix, position) for position in batch.positions]),
                batch.queue_id,
                queue_offset - batch.count + 1,
                batch.unique_id,
                self._region,
                self._trace_on,
                code=_OUTCOME_CODE[max(batch.outcomes, key=lambda one: _OUTCOME_CODE[one])],
            )
        )

    # -- many ----------------------------------------------------------------------------------------------------

    def send_many(self, call: Call) -> Answer | None:
        """Store messages of any topics and queues, each with a result of its own."""
        request: SendMany = call.request
        messages = request.body or []
        many = _Many(call, [None] * len(messages), len(messages))
        if not messages:
            return SendManyAnswer(body=[])
        born_host = call.connection.born_host
        for index, message in enumerate(messages):
            try:
                self._send_one_of_many(call, request, message, born_host, many, index)
            except BrokerAnswer as error:
                self._many_settled((many, index, -1), error.code, error.remark)
            except StorageError as error:
                self._many_settled((many, index, -1), ResponseCode.SERVICE_NOT_AVAILABLE, self._unavailable(error))
        return None

    def _send_one_of_many(
        self, call: Call, request: SendMany, message: ManyMessage, born_host: bytes, many: "_Many", index: int
    ) -> None:
        target = self._find_target(message.topic)
        if target is None or target.is_retry:
            self._one_as_request(call, request, message, many, index)
            return
        prepared, _ = self._prepare(message.properties, message.body)
        queue = target.queue(message.queue_id, call.peer)
        self._targets.append(
            queue,
            prepared,
            message.body,
            message.born_timestamp,
            message.sys_flag | target.sys_flag,
            message.flag,
            0,
            born_host,
            tags_code(prepared),
            self._one_stored,
            (many, index, queue.queue_id),
        )

    def _one_as_request(self, call: Call, request: SendMany, message: ManyMessage, many: "_Many", index: int) -> None:
        """The slow way: an unknown topic, or a retry topic."""
        single = SendMessage(
            request.producer_group, message.topic, request.default_topic, request.default_topic_queue_nums,
            message.queue_id, message.sys_flag, message.born_timestamp, message.flag,
        )  # fmt: skip
        target = self._targets.for_request(single, call.peer)
        prepared, _ = self._prepare(message.properties, message.body)
        queue = target.queue(message.queue_id, call.peer)
        queue_id = queue.queue_id
        on_stored: OnStored = self._one_stored
        if target.is_retry:
            queue, prepared, on_stored = self._targets.retried(single, queue, prepared, call.peer, on_stored)
        self._targets.append(
            queue, prepared, message.body, message.born_timestamp, message.sys_flag | target.sys_flag, message.flag, 0,
            call.connection.born_host, tags_code(prepared), on_stored, (many, index, queue_id),
        )  # fmt: skip

    def _one_stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        many, index, queue_id = context
        if outcome is PutOutcome.FAILED:
            self._many_settled(context, ResponseCode.SERVICE_NOT_AVAILABLE, self._unavailable(self._store.failure))
            return
        many.results[index] = ManyResult(_OUTCOME_CODE[outcome], queue_id, queue_offset, log_position)
        many.missing -= 1
        if not many.missing:
            many.call.answer(SendManyAnswer(body=many.results))

    def _many_settled(self, context: Any, code: int, remark: str) -> None:
        many, index, queue_id = context
        many.results[index] = ManyResult(int(code), queue_id, -1, -1, remark)
        many.missing -= 1
        if not many.missing:
            many.call.answer(SendManyAnswer(body=many.results))


class _Batch(msgspec.Struct, gc=False):
    call: Call
    queue_id: int
    unique_id: str | None
    count: int
    positions: list[int] = []
    outcomes: set[PutOutcome] = set()


class _Many(msgspec.Struct, gc=False):
    call: Call
    results: list[ManyResult | None]
    missing: int
