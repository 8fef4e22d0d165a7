"""Request messages and reply messages. Pure. RocketMQ: MessageUtil, DefaultMQProducerImpl.request.

CORRELATION_ID    identifies the request that a reply belongs to
REPLY_TO_CLIENT   the client id of the requesting client: the broker finds its connection by it
TTL               how long the requesting client waits, in milliseconds
MSG_TYPE          `reply`, only in replies
CLUSTER           set by the broker: replies go to `<cluster>_REPLY_TOPIC`
"""

from collections.abc import Mapping
from copy import copy

from staticfire.protocol.errors import ClientError
from staticfire.protocol.messages import Message, ReceivedMessage
from staticfire.protocol.names import reply_topic
from staticfire.protocol.properties import CLUSTER, CORRELATION_ID, MSG_TYPE, REPLY_TO_CLIENT, TTL
from staticfire.protocol.requests.reply import SendReplyV2
from staticfire.protocol.requests.send import SendMessage

REPLY_TYPE = "reply"


def request_of(message: Message, correlation_id: str, client_id: str, timeout_ms: int) -> Message:
    """Return a copy of a message as a request; the program's own object isn't changed."""
    asking = copy(message)
    asking.system_properties = {
        **message.system_properties,
        CORRELATION_ID: correlation_id,
        REPLY_TO_CLIENT: client_id,
        TTL: str(timeout_ms),
    }
    return asking


def reply_to(request: ReceivedMessage, body: bytes, properties: Mapping[str, str] | None = None) -> Message:
    """Return the reply to a message. Raises: ClientError (the message isn't a request)."""
    cluster, client_id = request.get(CLUSTER), request.get(REPLY_TO_CLIENT)
    correlation_id = request.get(CORRELATION_ID)
    if not client_id or not correlation_id:
        raise ClientError(
            f"message {request.message_id} of {request.topic} is not a request: it has no {REPLY_TO_CLIENT} and "
            f"{CORRELATION_ID}; send requests with `await producer.request(...)`"
        )
    if not cluster:
        raise ClientError(
            f"create reply message fail, requestMessage error, property[{CLUSTER}] is null: message "
            f"{request.message_id} of {request.topic} doesn't contain the cluster for its reply"
        )
    reply = Message(reply_topic(cluster), body, properties=properties)
    reply.system_properties = {MSG_TYPE: REPLY_TYPE, CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id}
    if ttl := request.get(TTL):
        reply.system_properties[TTL] = ttl
    return reply


def reply_request(sending: SendMessage) -> SendReplyV2:
    """Return a send request as the request of a reply."""
    fields = {name: getattr(sending, name) for name in SendMessage.__struct_fields__}
    return SendReplyV2(**fields)
