"""Recalls a delayed message: the request, and what its response means. RocketMQ: recallMessage."""

from staticfire.client.cluster.queues import MessageQueue
from staticfire.protocol.command import SUCCESS, Answer
from staticfire.protocol.errors import ClientError, ProtocolError, broker_answer
from staticfire.protocol.names import is_dead_letter_topic, is_retry_topic
from staticfire.protocol.recall_handle import decode_handle
from staticfire.protocol.requests.recall import RecallAnswer, RecallMessage


def recall_request(topic: str, handle: str, group: str) -> tuple[MessageQueue, RecallMessage]:
    """Return the request, and a queue on the broker to send it to. Raises: ClientError."""
    try:
        meant = decode_handle(handle)
    except ProtocolError as error:
        raise ClientError(f"{error}: {handle!r:.100}") from None
    if is_retry_topic(topic) or is_dead_letter_topic(topic):
        raise ClientError(f"topic is not supported: messages of {topic} have no handle")
    return MessageQueue(topic, meant.broker_name, 0), RecallMessage(topic, handle, group, meant.broker_name)


def recalled_id(answer: Answer, queue: MessageQueue) -> str:
    """Return the unique id of the recalled message. Raises: BrokerAnswer."""
    if answer.code != SUCCESS or not isinstance(answer, RecallAnswer):
        raise broker_answer(answer.code, answer.remark, f"recall a message of {queue.topic} from {queue.broker_name}")
    return answer.msg_id or ""
