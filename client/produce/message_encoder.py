"""Prepares messages for sending: checks them, adds a unique id, encodes properties, compresses the body.

RocketMQ: Validators, MessageClientIDSetter, MessageBatch. The caller's object isn't changed, so the same `Message` can
be sent again; it gets a new id each time.
"""

from collections.abc import Sequence

from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.protocol.compression import checked_kind, compress
from staticfire.protocol.errors import ClientError
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.message_ids import UniqueIds
from staticfire.protocol.messages import Message, check_message, encode_message_properties
from staticfire.protocol.names import is_retry_topic, may_be_sent_to
from staticfire.protocol.properties import UNIQ_KEY, WAIT, format_properties
from staticfire.protocol.requests.send import ManyMessage
from staticfire.protocol.rocketmq_record import BatchMessage, encode_batch
from staticfire.protocol.sys_flag import with_compression
from staticfire.protocol.times import MessageMs
from staticfire.runtime.machine import Identity

QUEUE_UNKNOWN = -1


def unique_ids(identity: Identity) -> UniqueIds:
    """Return a source of unique ids for this process, which differ from those of all others."""
    ip = pack_host(identity.host_ip, 0)[:-4]
    return UniqueIds(ip, identity.pid, identity.random.getrandbits(32), identity.utc_offset_ms)


class MessageEncoder:
    """Encodes the messages of one producer."""

    def __init__(self, settings: ProducerSettings, ids: UniqueIds, namespace: Namespace | None = None) -> None:
        """Raises: UsageError (the compression of the settings isn't available)."""
        self._settings = settings
        self.next_id = ids.next_id
        self._wrap = (namespace or Namespace()).wrap
        self._body_bytes_max = settings.max_message_size_bytes
        self._compress_bytes = settings.compress_msg_body_over_bytes
        self._compression = checked_kind(settings.compress_type)
        self._compressed = with_compression(0, self._compression)
        self.plain_bytes_max = min(self._body_bytes_max, self._compress_bytes - 1)
        """The maximum size of bodies that are sent unchanged, without further checks."""

    def check(self, message: Message) -> None:
        """Check a message's topic and body. Raises: ClientError."""
        check_message(message, self._body_bytes_max)
        if not may_be_sent_to(message.topic):
            raise ClientError(f"topic {message.topic} is RocketMQ's own: sending to it is forbidden")

    def wrap(self, message: Message, wall_ms: MessageMs) -> tuple[ManyMessage, str]:
        """Return the encoded message, without a queue, and its id. The topic has been checked.

        Raises: ClientError (body empty or too large, properties too long).
        """
        body = message.body
        if not 0 < len(body) <= self._body_bytes_max:
            self.check(message)
        own_id = message.system_properties.get(UNIQ_KEY) if message.system_properties else None
        message_id = own_id or self.next_id(wall_ms)
        properties = encode_message_properties(message, "" if own_id else message_id)
        sys_flag = 0
        if len(body) >= self._compress_bytes:
            body, sys_flag = self._compress(body)
        topic = self._wrap(message.topic)
        return ManyMessage(topic, QUEUE_UNKNOWN, properties, body, sys_flag, message.flag, wall_ms), message_id

    def _compress(self, body: bytes) -> tuple[bytes, int]:
        small = compress(body, self._compression, self._settings.compress_level)
        return (small, self._compressed) if len(small) < len(body) else (body, 0)

    def wrap_batch(self, messages: Sequence[Message], wall_ms: MessageMs) -> tuple[ManyMessage, str]:
        """Return one message whose body contains all of them, and their ids joined by commas.

        Every message has its own id. The batch itself has none: brokers of RocketMQ 5.3 would show its id instead of
        the ids of its messages.

        Raises: ClientError (nothing in it, mixed topics, delays, retry topics, too large).
        """
        fault = batch_fault(messages)
        if fault is not None:
            raise ClientError(f"{fault}; send_many doesn't have this restriction")
        parts, ids = [], []
        for message in messages:
            self.check(message)
            message_id = self.next_id(wall_ms)
            ids.append(message_id)
            parts.append(BatchMessage(message.flag, message.body, encode_message_properties(message, message_id)))
        body = encode_batch(parts)
        if len(body) > self._body_bytes_max:
            raise ClientError(
                f"a batch of {len(messages)} messages has {len(body)} bytes, {self._body_bytes_max} are allowed: "
                "split it, or use send_many"
            )
        properties = format_properties({WAIT: "true" if messages[0].wait_stored else "false"})
        topic = self._wrap(messages[0].topic)
        return ManyMessage(topic, QUEUE_UNKNOWN, properties, body, 0, 0, wall_ms), ",".join(ids)


def batch_fault(messages: Sequence[Message]) -> str | None:
    """Return why these messages can't be one batch; None if they can. RocketMQ: MessageBatch.generateFromList."""
    if not messages:
        return "a batch must contain at least one message"
    first = messages[0]
    for message in messages:
        if message.delay_level or message.delay_ms is not None or message.deliver_ms is not None:
            return "delays are not supported in a batch"
        if is_retry_topic(message.topic):
            return "retry topics are not supported in a batch"
        if message.topic != first.topic:
            return f"the messages of a batch must have the same topic, not {first.topic} and {message.topic}"
        if message.wait_stored != first.wait_stored:
            return "the messages of a batch must have the same wait_stored"
    return None
