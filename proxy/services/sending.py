"""Send messages to brokers. RocketMQ: SendMessageActivity, ProducerProcessor.

Behaviour
- Several messages of a call are one batch in one queue, with one entry in the response. Official clients send one
  message per call.
- A message with a group goes to the queue that the group's hash selects, other messages round robin over all brokers.
- An unknown topic is refused by its type (40014) and never created.

Not done
- Delays, transactions and compressed messages in a call of several messages: refused, because a batch has one place and
  one time, and it is compressed as a whole.
"""

from collections.abc import Sequence

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import ProtocolError
from staticfire.protocol.message_ids import parse_offset_id
from staticfire.protocol.names import AUTO_CREATE_TOPIC
from staticfire.protocol.properties import WAIT, format_properties
from staticfire.protocol.record import PROPERTIES_BYTES_MAX
from staticfire.protocol.requests.send import SendAnswer, SendBatch, SendMessageV2
from staticfire.protocol.rocketmq_record import BatchMessage, encode_batch
from staticfire.protocol.sys_flag import COMPRESSED
from staticfire.protocol.tags import java_hash
from staticfire.protocol.times import UptimeMs
from staticfire.proxy.proto.rocketmq_v2_pb2 import (
    Code,
    SendMessageRequest,
    SendMessageResponse,
    SendResultEntry,
    Status,
)
from staticfire.proxy.services.callers import Caller
from staticfire.proxy.services.known_cluster import KnownCluster
from staticfire.proxy.services.message_groups import bucket_of
from staticfire.proxy.services.message_time import MessageTime
from staticfire.proxy.services.message_types import DELAYED, TRANSACTION, type_of_message
from staticfire.proxy.services.open_transactions import TRANSACTION_KEPT_MS, OpenTransaction
from staticfire.proxy.services.sent_messages import SentMessage, check_messages, sent_message
from staticfire.proxy.services.statuses import StatusError, ok, refused
from staticfire.proxy.services.transactions import TransactionCalls

QUEUES_OF_NEW_TOPIC = 4
_CODES: dict[int, Code] = {
    ResponseCode.SUCCESS: Code.OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: Code.MASTER_PERSISTENCE_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: Code.SLAVE_PERSISTENCE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: Code.HA_NOT_AVAILABLE,
}


class SendCalls:
    """SendMessage."""

    def __init__(self, cluster: KnownCluster, time: MessageTime, transactions: TransactionCalls) -> None:
        self._cluster = cluster
        self._time = time
        self._transactions = transactions

    async def send(self, request: SendMessageRequest, caller: Caller) -> SendMessageResponse:
        """Store messages and return their places. Raises: StaticfireError."""
        topic = check_messages(request.messages, await self._time.now_ms())
        messages = [sent_message(topic, message, caller.address) for message in request.messages]
        kinds = [type_of_message(message.properties) for message in messages]
        await self._cluster.check_types(topic, *kinds)
        queue = await self._queue(topic, messages)
        if len(messages) == 1:
            if kinds[0] == TRANSACTION:
                await self._transactions.introduce(topic)
            entry = await self._send_one(messages[0], queue, is_half=kinds[0] == TRANSACTION)
        else:
            entry = await self._send_batch(messages, queue, kinds)
        return SendMessageResponse(status=entry.status, entries=[entry])

    async def _queue(self, topic: str, messages: Sequence[SentMessage]) -> MessageQueue:
        queues = await self._cluster.write_queues(topic)
        if not queues:
            raise StatusError(Code.FORBIDDEN, "no writable queue")
        if len(messages) == 1 and messages[0].group:
            return queues[bucket_of(java_hash(messages[0].group), len(queues))]
        return queues[self._cluster.turn(topic, len(queues))]

    async def _send_one(self, message: SentMessage, queue: MessageQueue, is_half: bool) -> SendResultEntry:
        request = SendMessageV2(
            producer_group=queue.topic,
            topic=queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=QUEUES_OF_NEW_TOPIC,
            queue_id=queue.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_ms,
            flag=0,
            properties=_encoded(message).decode(),
            reconsume_times=0,
            bname=queue.broker_name,
            body=message.body,
        )
        answer, status = await self._ask(queue, request)
        if is_half:
            self._remember(message, queue, answer)
        return SendResultEntry(
            status=status,
            message_id=message.message_id,
            transaction_id=message.message_id,
            offset=answer.queue_offset or 0,
            recall_handle=answer.recall_handle or "",
        )

    async def _send_batch(
        self, messages: Sequence[SentMessage], queue: MessageQueue, kinds: Sequence[str]
    ) -> SendResultEntry:
        if TRANSACTION in kinds or DELAYED in kinds:
            words = "a message with a delivery time, or of a transaction, must be sent in a separate call"
            raise StatusError(Code.INTERNAL_SERVER_ERROR, words)
        if any(message.sys_flag & COMPRESSED for message in messages):
            raise StatusError(Code.INTERNAL_SERVER_ERROR, "a compressed message must be sent in a separate call")
        body = encode_batch([BatchMessage(0, message.body, _encoded(message)) for message in messages])
        request = SendBatch(
            producer_group=queue.topic,
            topic=queue.topic,
            default_topic=AUTO_CREATE_TOPIC,
            default_topic_queue_nums=QUEUES_OF_NEW_TOPIC,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=messages[0].born_ms,
            flag=0,
            properties=format_properties({WAIT: "true"}).decode(),
            reconsume_times=0,
            batch=True,
            bname=queue.broker_name,
            body=body,
        )
        answer, status = await self._ask(queue, request)
        ids = ",".join([message.message_id for message in messages])
        return SendResultEntry(status=status, message_id=ids, transaction_id=ids, offset=answer.queue_offset or 0)

    async def _ask(self, queue: MessageQueue, request: SendMessageV2 | SendBatch) -> tuple[SendAnswer, Status]:
        answer: Answer = await self._cluster.ask(queue.broker_name, request)
        code = _CODES.get(answer.code)
        if code is None:
            if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                self._cluster.forget(queue.topic)
            status = refused(answer.code, answer.remark)
            raise StatusError(status.code, status.message)
        if not isinstance(answer, SendAnswer):
            raise ProtocolError(f"the answer to a send to {queue} reports success without any result")
        return answer, ok() if answer.code == SUCCESS else Status(code=code, message=answer.remark or Code.Name(code))

    def _remember(self, message: SentMessage, queue: MessageQueue, answer: SendAnswer) -> None:
        """Keep the place of a half message until its transaction is ended."""
        kept_until_ms = UptimeMs(self._cluster.client.machine.clock.uptime_ms() + TRANSACTION_KEPT_MS)
        transaction = OpenTransaction(
            queue.broker_name,
            answer.queue_offset or 0,
            parse_offset_id(answer.msg_id or "")[1],
            message.message_id,
            kept_until_ms,
        )
        self._transactions.open.add(queue.topic, message.message_id, transaction)


def _encoded(message: SentMessage) -> bytes:
    """Return a message's properties in their wire format. Raises: StatusError (too long to be stored)."""
    encoded = format_properties(message.properties)
    if len(encoded) > PROPERTIES_BYTES_MAX:
        words = f"the properties are {len(encoded)} bytes long, the limit is {PROPERTIES_BYTES_MAX}"
        raise StatusError(Code.MESSAGE_PROPERTIES_TOO_LARGE, words)
    return encoded
