"""Store a batch: messages for one queue, all of them or none. RocketMQ: SendMessageProcessor.sendBatchMessage.

Behaviour
- The messages are stored next to each other in the queue, with one response. The properties of the request apply to
  each message.
- A batch may be compressed as a whole; RocketMQ would store it as one message.
- A batch that requests a delay, a delivery time or a transaction is refused. If only a message's own properties request
  it, RocketMQ stores the message visibly at once.
"""

from typing import Any

from staticfire.broker.sends.not_built import asks_for_a_time, is_half
from staticfire.broker.sends.sending import OUTCOME_CODE, Sending
from staticfire.broker.sends.targets import Target
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.new_record import NewRows
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.protocol.batch_rows import Row, batch_rows
from staticfire.protocol.checksums import crc32
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.compiled import twin
from staticfire.protocol.compression import expand
from staticfire.protocol.delay_levels import requested_level
from staticfire.protocol.errors import BrokerAnswer, ProtocolError
from staticfire.protocol.message_ids import offset_ids
from staticfire.protocol.properties import DELAY, UNIQ_KEY, find_property, with_last_end
from staticfire.protocol.requests.send import SendAnswer, SendMessage
from staticfire.protocol.rocketmq_record import decode_batch
from staticfire.protocol.sys_flag import COMPRESSED, COMPRESSION_MASK, INNER_BATCH
from staticfire.runtime.dispatcher import Call

TRANSACTION_FLAGS = 0xC


class BatchHandler:
    """Handles batches."""

    def __init__(self, state: BrokerState, sending: Sending) -> None:
        self._store = state.store
        self._message_ms = state.clock.message_ms
        self._sending = sending

    def send(self, call: Call, request: SendMessage, target: Target) -> None:
        """Store all messages of a batch body in one queue, or none. Raises: BrokerAnswer, StorageError."""
        header = with_last_end((request.properties or "").encode())
        batch, sys_flag = self._checked(request, target, header)
        added = header + self._sending.added
        queue = target.queue(request.queue_id, call.peer)
        unique_id = find_property(header, UNIQ_KEY)
        positions: list[int] = []
        context = (call, queue.queue_id, unique_id, positions)
        born_ms, born_host, now_ms = request.born_timestamp, call.connection.born_host, self._message_ms()
        packed = None if sys_flag else self._packed(queue, batch, added, now_ms, born_ms, born_host)
        if packed is None:
            new = NewRows(queue, born_ms, born_host, self._rows(batch, added), sys_flag)
            positions += self._store.put_all(new, now_ms, self._stored, context)
            return
        records, entries, places = packed
        positions += places
        row = queue, entries, len(records)
        self._store.put_packed((records, places[-1], [row]), now_ms, self._stored, context)

    def _packed(
        self, queue: Queue, batch: bytes, added: bytes, now_ms: int, born_ms: int, born_host: bytes
    ) -> tuple[bytes, bytes, list[int]] | None:
        """Return records, entries and positions, as the compiled twin makes them; None if the batch isn't plain.

        Also None if it doesn't fit into this segment, if the queue was deleted, or if there is no compiled twin.
        """
        if twin is None or queue.deleted:
            return None
        position, records_end, record_bytes_max = self._store.room
        packed = twin.pack_batch(
            batch, added, position, queue.queue_id, queue.next_offset, now_ms, born_ms, born_host, queue.packed_topic,
            record_bytes_max, crc32,
        )  # fmt: skip
        return None if packed is None or position + len(packed[0]) > records_end else packed

    def _checked(self, request: SendMessage, target: Target, header: bytes) -> tuple[bytes, int]:
        """Return the batch, decompressed, and the sysFlag of its messages. Raises: BrokerAnswer."""
        body_bytes_max = self._sending.body_bytes_max
        sys_flag: int = request.sys_flag
        if target.is_retry:
            words = f"batch request does not support retry group {target.topic}"
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
        if len(request.body) > body_bytes_max:
            size = f"msg total size: {len(request.body)}, maxMessageSize: {body_bytes_max}"
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"message body size exceeded, {size}")
        if find_property(header, DELAY) is not None or sys_flag & (TRANSACTION_FLAGS | INNER_BATCH):
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self._sending.illegal)
        self._refuse_half(header)
        if b"DEL" in header:
            self._refuse_to_wait(header)
        if not sys_flag & COMPRESSED:
            return request.body, sys_flag
        # The C++ client compresses a batch as a whole; the messages inside are not compressed.
        try:
            return expand(request.body, sys_flag, body_bytes_max), sys_flag & ~(COMPRESSED | COMPRESSION_MASK)
        except ProtocolError as error:
            raise _unreadable(error) from None

    def _rows(self, batch: bytes, added: bytes) -> list[Row]:
        """Return the messages as they are stored. Raises: BrokerAnswer, if one of them is illegal."""
        try:
            messages = decode_batch(batch)
        except ProtocolError as error:
            raise _unreadable(error) from None
        if not messages:
            raise BrokerAnswer(ResponseCode.SYSTEM_ERROR, "the batch has no message")
        for message in messages:
            if b"DEL" in message.properties:
                self._refuse_to_wait(with_last_end(message.properties))
            self._refuse_half(message.properties)
        rows = batch_rows(messages, added)  # No body is larger than the batch, whose size was checked.
        if rows is None:
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, self._sending.illegal)
        return rows

    def _refuse_to_wait(self, properties: bytes) -> None:
        """Refuse a message that asks for a later delivery; RocketMQ delivers it at once. Raises: BrokerAnswer."""
        self._sending.refuse_not_built(properties, 0, 0)
        if asks_for_a_time(properties):
            words = f"{self._sending.illegal} A message of a batch can't have its own delivery time."
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)
        if requested_level(properties) > 0:
            words = f"{self._sending.illegal} A message of a batch can't be delayed, but one has a DELAY."
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)

    def _refuse_half(self, properties: bytes) -> None:
        """Refuse a half message; RocketMQ delivers it, unless the sysFlag also marks it. Raises: BrokerAnswer."""
        if is_half(properties, 0):
            words = f"{self._sending.illegal} A batch can't be part of a transaction, but this one has a TRAN_MSG."
            raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)

    def _stored(self, context: Any, first_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        call, queue_id, unique_id, positions = context
        if outcome is PutOutcome.FAILED:
            call.answer(self._sending.not_stored())
            return
        prefix = call.connection.store_id_prefix
        call.answer(
            SendAnswer(
                offset_ids(prefix, positions),
                queue_id,
                first_offset,
                unique_id.decode("utf-8", "replace") if unique_id else None,
                self._sending.region,
                self._sending.trace_on,
                code=OUTCOME_CODE[outcome],
            )
        )


def _unreadable(error: ProtocolError) -> BrokerAnswer:
    return BrokerAnswer(ResponseCode.SYSTEM_ERROR, f"the batch can't be read: {error}")
