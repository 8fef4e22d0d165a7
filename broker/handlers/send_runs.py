"""Handle runs of plain sends: sends that follow each other in the data of a connection. The compiled twin does the
work.

The twin reads the frames and makes the log records, the queue entries and the responses, without a Python object per
message. The result is the same, byte by byte, as that of single requests (send.py, send_many.py); tests compare them.
Without the compiled twin this module does nothing.

Behaviour
- Half messages, and the end of half messages that are kept in memory, are part of a run.
- All other sends are left to send.py and send_many.py: those that may be refused, delayed or dead letters, that are
  compressed or flagged, or unusual in another way. These modules then also handle what follows in the same burst.
- The responses are made together with the records, as if these were stored. If the write fails, or the disk is late,
  the responses are parsed again and replaced.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, NamedTuple

from staticfire.broker.handlers.transactions import ended
from staticfire.broker.replication.lineage import waits_for_copies
from staticfire.broker.sends.sending import OUTCOME_CODE, Sending
from staticfire.broker.sends.targets import Target, TargetTable
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.broker.store.consume_queue import Queue
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.broker.transactions.runs import TransactionRuns
from staticfire.protocol.checksums import crc32
from staticfire.protocol.codecs import JSON, NATIVE, Codec, codec_for
from staticfire.protocol.codecs.hot_json import sent_parts
from staticfire.protocol.codecs.hot_native import sent_forms
from staticfire.protocol.command import Answer, answer_shape
from staticfire.protocol.compiled import Packed, TakenTransactions, TakeSends, Twin
from staticfire.protocol.errors import BrokerAnswer, StorageError
from staticfire.protocol.frame_reader import HEAD_BYTES, AnswerFrame, Peer
from staticfire.protocol.requests.send import ManyResult, SendAnswer, SendManyAnswer
from staticfire.runtime.connection import Connection

# How many templates for responses are kept: one for each address under which clients reach the broker.
FORMS_KEPT_MAX = 64
_head = Struct(">II").unpack_from


class _Kind(NamedTuple):
    """How sends of one codec are taken, and the templates for their responses, by the prefix of their message ids."""

    take: TakeSends
    make_form: Callable[[str, str, str], tuple[Any, ...] | None]
    forms: dict[str, tuple[Any, ...] | None]


class SendRunHandler:
    """Stores runs of sends. Registered with `Routes.offer_sends`."""

    def __init__(
        self,
        state: BrokerState,
        targets: TargetTable,
        sending: Sending,
        transactions: TransactionRuns,
        twin: Twin,
    ) -> None:
        self._store = state.store
        self._clock = state.clock
        self._find_target = targets.by_topic.get
        self._sending = sending
        self._transactions = transactions
        self._kinds = {
            codec_for(NATIVE): _Kind(twin.take_native_sends, sent_forms, {}),
            codec_for(JSON): _Kind(twin.take_json_sends, lambda *words: (sent_parts(*words),), {}),
        }
        self._use(state.settings)
        state.on_settings(self._use)

    def _use(self, settings: BrokerSettings) -> None:
        self._waits_for_copies = waits_for_copies(settings)
        for kind in self._kinds.values():
            kind.forms.clear()

    def take(self, codec: Codec, data: bytes, at: int, stop: int, alike: tuple[Any, ...], source: Connection) -> int:
        """See `codecs.SendRuns`. Hot path."""
        kind, prefix, sending, store = self._kinds[codec], source.store_id_prefix, self._sending, self._store
        form = kind.forms.get(prefix) or self._new_form(kind, prefix)
        if form is None:
            return at
        stored_ms = self._clock.message_ms()
        taken = kind.take(
            data, at, stop, (*alike, *form), store.room, sending.body_bytes_max, stored_ms, source.born_host,
            sending.added, self._place, crc32, self._transactions.known, self._waits_for_copies,
        )  # fmt: skip
        if taken is None:
            return at
        taken_to, packed, answers, transactions = taken
        context = source, codec, answers
        if transactions is None:
            store.put_packed(packed, stored_ms, self._stored, context)
        else:
            self._append_with_transactions(packed, transactions, context)
        return taken_to

    def _append_with_transactions(self, packed: Packed, transactions: TakenTransactions, context: Any) -> None:
        if packed[2]:
            self._store.put_packed(packed, self._clock.shown_ms, self._stored, context)
            self._transactions.begin(transactions)
            self._transactions.end(transactions, None, None)
        else:
            self._transactions.end(transactions, self._stored, context)  # All of them were rolled back.

    def _place(self, topic: str, queue_id: int) -> tuple[Queue, bytes, int] | None:
        """Return the queue of a plain send, its packed topic and its next offset; None if the send isn't plain."""
        target = self._find_target(topic)
        if target is None or target.is_special:
            return None
        queue = target.at_hand.get(queue_id) or self._new_at_hand(target, queue_id)
        return None if queue is None or queue.deleted else (queue, queue.packed_topic, queue.next_offset)

    def _new_at_hand(self, target: Target, queue_id: int) -> Queue | None:
        if queue_id < 0:
            return None  # The send is for any queue, which is chosen at random.
        try:
            return target.queue(queue_id, _UNKNOWN_PEER)
        except (BrokerAnswer, StorageError, OSError):
            return None  # send.py handles it again, and returns the error.

    def _new_form(self, kind: "_Kind", prefix: str) -> tuple[Any, ...] | None:
        if len(kind.forms) >= FORMS_KEPT_MAX:
            kind.forms.clear()
        form = kind.forms[prefix] = kind.make_form(self._sending.region, self._sending.trace_on, prefix)
        return form

    # -- answers -------------------------------------------------------------------------------------------------

    def _stored(self, context: Any, _queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        connection, codec, answers = context
        out = connection.outgoing()
        if out is None:
            return
        if outcome is PutOutcome.STORED:
            out.append(answers)
            return
        for frame in answers_in(answers):
            codec.write_answer(out, self._reworded(frame, outcome), frame.envelope.opaque, connection.store_host)

    def _reworded(self, frame: AnswerFrame, outcome: PutOutcome) -> Answer:
        """Return the response to send instead, since the message isn't stored, or not flushed in time."""
        codec, envelope, body = frame
        if body:
            many = codec.decode_answer(answer_shape(SendManyAnswer), envelope, body)
            return SendManyAnswer(body=[self._reworded_result(result, outcome) for result in many.body])
        if envelope.fields in _OF_ENDS:
            return ended(outcome)
        if outcome is PutOutcome.FAILED:
            return self._sending.not_stored()
        answer = codec.decode_answer(answer_shape(SendAnswer), envelope, body)
        answer.code = OUTCOME_CODE[outcome]
        return answer

    def _reworded_result(self, result: ManyResult, outcome: PutOutcome) -> ManyResult:
        if outcome is PutOutcome.FAILED:
            answer = self._sending.not_stored()
            return ManyResult(answer.code, result.queue_id, -1, -1, answer.remark or "")
        return ManyResult(OUTCOME_CODE[outcome], result.queue_id, result.queue_offset, result.log_position)


def answers_in(data: bytes) -> Iterator[AnswerFrame]:
    """Yield the responses in complete frames that we wrote ourselves."""
    at = 0
    while at < len(data):
        length, word = _head(data, at)
        codec, body_at = codec_for(word >> 24), at + HEAD_BYTES + (word & 0xFFFFFF)
        yield AnswerFrame(
            codec, codec.decode_envelope(data[at + HEAD_BYTES : body_at]), data[body_at : at + 4 + length]
        )
        at += 4 + length


# The fields in the header of a response to the end of a transaction: in JSON, and in the native codec.
_OF_ENDS = (None, b"\xc0")
_UNKNOWN_PEER = Peer("?")
