"""Store messages that were stored elsewhere, unchanged. Specific to staticfire: `staticfire copy` sends these requests.

Behaviour
- Unique ids, properties, born times, born hosts, flags and retry counts are kept; stored times are those of this
  broker.
- No message is delayed, whatever its properties request: it was already delivered in its original cluster.
- All messages of a request are written with one write, and are next to each other in their queue.

Not done
- Messages of system topics: delayed messages, half messages, those of POP.
"""

from typing import Any

import msgspec

from staticfire.broker.handlers.queues import TopicQueues
from staticfire.broker.state import BrokerState
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import Answer, refusal
from staticfire.protocol.errors import BrokerAnswer
from staticfire.protocol.limits import PROPERTIES_BYTES_MAX
from staticfire.protocol.names import is_system_topic
from staticfire.protocol.requests.imports import ImportAnswer, ImportedMessage, ImportMessages
from staticfire.protocol.sys_flag import INNER_BATCH, UNSEEN
from staticfire.protocol.tags import tags_code
from staticfire.runtime.dispatcher import Call, Dispatcher

HOST_SIZES = (8, 20)


class Import(msgspec.Struct, gc=False):
    """A request while its messages are stored."""

    call: Call
    missing: int
    first_offset: int = -1
    failed: bool = False


class ImportHandlers:
    """Handles imports of messages."""

    def __init__(self, state: BrokerState, queues: TopicQueues) -> None:
        self._state = state
        self._queues = queues

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.IMPORT_MESSAGES, self.put)

    def put(self, call: Call) -> Answer | None:
        """Store all messages of a request, or none if one of them can't be stored."""
        request: ImportMessages = call.request
        messages: list[ImportedMessage] = request.body or []
        queue = self._queues.find(request.topic, request.queue_id)
        if queue is None or is_system_topic(request.topic):
            words = f"queue {request.queue_id} of {request.topic} doesn't exist: can't import messages into it"
            raise BrokerAnswer(ResponseCode.TOPIC_NOT_EXIST, words)
        if not self._state.writable:
            words = f"the broker {self._state.settings.broker_name} is read-only"
            raise BrokerAnswer(ResponseCode.NO_PERMISSION, words)
        for message in messages:
            self._check(message)
        if not messages:
            return ImportAnswer(queue.max_offset)
        stored_ms, under_way = self._state.clock.message_ms(), Import(call, len(messages))
        for message in messages:
            record = NewRecord(
                queue, message.properties, tags_code(message.properties), message.body, message.born_timestamp,
                message.born_host, message.sys_flag & ~(UNSEEN | INNER_BATCH), message.flag, message.reconsume_times,
            )  # fmt: skip
            self._state.store.put(record, stored_ms, self._stored, under_way)
        return None

    def _check(self, message: ImportedMessage) -> None:
        body_bytes_max = self._state.settings.max_message_size
        if len(message.body) > body_bytes_max:
            words = f"a message has {len(message.body)} bytes: raise maxMessageSize, which is {body_bytes_max} here"
        elif len(message.properties) > PROPERTIES_BYTES_MAX:
            words = f"a message has {len(message.properties)} bytes of properties, the limit is {PROPERTIES_BYTES_MAX}"
        elif len(message.born_host) not in HOST_SIZES:
            words = f"a born host must have 8 or 20 bytes, not {len(message.born_host)}"
        else:
            return
        raise BrokerAnswer(ResponseCode.MESSAGE_ILLEGAL, words)

    def _stored(self, under_way: Any, queue_offset: int, _log_position: int, outcome: PutOutcome) -> None:
        under_way.missing -= 1
        under_way.failed |= outcome is PutOutcome.FAILED
        if under_way.first_offset < 0:
            under_way.first_offset = queue_offset
        if under_way.missing:
            return
        if under_way.failed:
            words = str(self._state.store.failure or "the messages could not be stored")
            under_way.call.answer(refusal(ResponseCode.SERVICE_NOT_AVAILABLE, words))
        else:
            under_way.call.answer(ImportAnswer(under_way.first_offset))
