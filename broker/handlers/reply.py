"""Pass replies on to the client that sent the request, and store them. RocketMQ: ReplyMessageProcessor.

Behaviour
- The checks are those of a send. REPLY_TO_CLIENT names the client that waits. The reply is pushed to this client before
  it is stored, on the client's own connection and in the codec of that connection.
- A reply that could not be pushed is still stored (storeReplyMessageEnable). Its response has RocketMQ's code and
  remark, and where the reply is stored.

Different from RocketMQ
- If the client returns another code than SUCCESS, its remark is added to RocketMQ's remark.
"""

from collections.abc import Callable
from typing import Any

from staticfire.broker.groups.producers import ProducerManager
from staticfire.broker.sends.sending import OUTCOME_CODE, Prepared, Sending
from staticfire.broker.sends.targets import Target, TargetTable
from staticfire.broker.state import BrokerState
from staticfire.broker.store.new_record import NewRecord
from staticfire.broker.store.outcomes import PutOutcome
from staticfire.protocol.codes import RequestCode, ResponseCode
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import BrokerAnswer, NetworkError, ProtocolError, StorageError
from staticfire.protocol.hosts import host_text
from staticfire.protocol.message_ids import offset_id
from staticfire.protocol.properties import PUSH_REPLY_TIME, REPLY_TO_CLIENT, text_property, with_property
from staticfire.protocol.requests.reply import PushReply
from staticfire.protocol.requests.send import SendAnswer, SendMessage
from staticfire.protocol.times import MessageMs
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.log import logger

log = logger("broker")

PUSH_TIMEOUT_MS = 10_000


class ReplyHandlers:
    """Handles replies."""

    def __init__(
        self, state: BrokerState, producers: ProducerManager, targets: TargetTable, settle: Callable[[], None]
    ) -> None:
        """`settle`: writes what was stored."""
        self._state = state
        self._producers = producers
        self._targets = targets
        self._settle = settle
        self._sending = Sending(state)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.SEND_REPLY_MESSAGE, self.reply)
        dispatcher.handle(RequestCode.SEND_REPLY_MESSAGE_V2, self.reply)

    async def reply(self, call: Call) -> Answer | None:
        """Pass a reply on, then store it."""
        request: SendMessage = call.request
        try:
            target = self._targets.for_request(request, call.peer)
            prepared = self._sending.prepare((request.properties or "").encode(), request.body)
            fault = await self._push(call, request, prepared[0])
            if not self._state.settings.store_reply_message_enable:
                return Answer() if fault is None else self._sending.refused(ResponseCode.SYSTEM_ERROR, fault)
            self._store(call, request, target, prepared, fault)
        except BrokerAnswer as error:
            return self._sending.refused(error.code, error.remark)
        except ProtocolError as error:
            return self._sending.refused(ResponseCode.SYSTEM_ERROR, str(error))
        except StorageError as error:
            return self._sending.refused(ResponseCode.SERVICE_NOT_AVAILABLE, self._sending.unavailable(error))
        self._settle()
        return None

    async def _push(self, call: Call, request: SendMessage, properties: bytes) -> str | None:
        """Push a reply to its client; return why that failed, or None."""
        client_id = text_property(properties, REPLY_TO_CLIENT)
        if not client_id:
            return f"reply message properties[{REPLY_TO_CLIENT}] is null"
        connection = self._producers.connection_of(client_id)
        if connection is None or not connection.is_open:
            log.warning("reply_to_nobody", client_id=client_id, topic=request.topic, peer=call.peer.address)
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = self._state.clock.message_ms()
        pushed = self._pushed(call, request, with_property(properties, PUSH_REPLY_TIME, str(now_ms)), now_ms)
        try:
            answer = await connection.ask(pushed, PUSH_TIMEOUT_MS)
        except (NetworkError, ProtocolError) as error:
            log.warning("reply_not_taken", client_id=client_id, topic=request.topic, reason=str(error))
            return f"push reply message to {client_id}fail."
        if answer.code != SUCCESS:
            return f"push reply message to {client_id}fail. {answer.remark or ''}".rstrip()
        return None

    def _pushed(self, call: Call, request: SendMessage, properties: bytes, stored_ms: MessageMs) -> PushReply:
        return PushReply(
            request.producer_group,
            request.topic,
            request.default_topic,
            request.default_topic_queue_nums,
            request.queue_id,
            request.sys_flag,
            request.born_timestamp,
            request.flag,
            properties.decode("utf-8", "replace"),
            request.reconsume_times,
            request.unit_mode,
            f"/{call.peer.address}",
            f"/{host_text(call.connection.store_host)}",
            stored_ms,
            body=request.body,
        )

    def _store(self, call: Call, request: SendMessage, target: Target, prepared: Prepared, fault: str | None) -> None:
        """Store a reply in the queue that it was sent to. Raises: BrokerAnswer, StorageError, ProtocolError."""
        properties, unique_id, tags_code, _ = prepared
        queue = target.queue(request.queue_id, call.peer)
        record = NewRecord(
            queue, properties, tags_code, request.body, request.born_timestamp, call.connection.born_host,
            request.sys_flag, request.flag, request.reconsume_times or 0,
        )  # fmt: skip
        context = (call, queue.queue_id, unique_id, fault)
        self._state.store.put(record, self._state.clock.message_ms(), self._stored, context)

    def _stored(self, context: Any, queue_offset: int, log_position: int, outcome: PutOutcome) -> None:
        call, queue_id, unique_id, fault = context
        sending = self._sending
        if outcome is PutOutcome.FAILED:
            call.answer(sending.not_stored())
            return
        message_id = offset_id(call.connection.store_id_prefix, log_position)
        code = OUTCOME_CODE[outcome] if fault is None else int(ResponseCode.SYSTEM_ERROR)
        call.answer(
            SendAnswer(
                message_id, queue_id, queue_offset, unique_id, sending.region, sending.trace_on, code=code, remark=fault
            )
        )
