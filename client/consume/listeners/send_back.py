"""Sends failed messages back to a broker, which redelivers them later.

RocketMQ: DefaultMQPushConsumerImpl.sendMessageBack. The first request goes to the broker that stores the message: it
finds the message and stores a copy in the retry topic. If it can't, the client sends the message itself to the retry
topic, which any broker accepts, with the delay that the broker would have chosen.
"""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.routes import address_to_write
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.send_result import SendStatus
from staticfire.client.produce.sender import Sender
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.delay_levels import DEAD_LETTER_LEVEL, retry_level
from staticfire.protocol.errors import ClientError, StaticfireError, broker_answer
from staticfire.protocol.messages import Message, ReceivedMessage
from staticfire.protocol.names import INNER_PRODUCER_GROUP, retry_topic
from staticfire.protocol.properties import (
    DELAY,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    RECONSUME_TIME,
    RETRY_TOPIC,
    TRAN_MSG,
    WAIT,
)
from staticfire.protocol.requests.send_back import SendBack
from staticfire.runtime.log import logger

log = logger("client")

SEND_BACK_TIMEOUT_MS = 5_000
RESEND_TIMEOUT_MS = 3_000

_NOT_COPIED = frozenset({DELAY, WAIT, TRAN_MSG})


class SendBacks:
    """Sends back the failed messages of one consumer."""

    def __init__(self, group: str, client: ClusterClient, retries_max: int) -> None:
        """`retries_max`: after this many retries a message is a dead letter."""
        self._group = group
        self._client = client
        self._retries_max = retries_max
        self._inner: Sender | None = None

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """Send a message back; return when a broker has accepted it.

        `delay_level`: 0 the broker decides, -1 dead letter. Raises: StaticfireError if no broker accepted it.
        """
        try:
            await self._ask(message, delay_level)
        except StaticfireError as error:
            log.warning("send_back_failed", group=self._group, message_id=message.message_id, reason=str(error))
            await self._post(self._as_retry(message, self._retries_max))

    async def bury(self, message: ReceivedMessage) -> None:
        """Let a broker move a message to the group's dead letters; return after that. Raises: StaticfireError."""
        await self._ask(message, DEAD_LETTER_LEVEL)

    async def give_up(self, message: ReceivedMessage, retries_max: int) -> None:
        """Send a message of an ordered queue that failed too often to the retry topic.

        The broker sees that the group holds queue locks, and moves it to the dead letters. Raises: StaticfireError.
        """
        retry = self._as_retry(message, retries_max)
        retry.system_properties[ORIGIN_MESSAGE_ID] = message.get(ORIGIN_MESSAGE_ID) or message.message_id
        await self._post(retry)

    async def _ask(self, message: ReceivedMessage, delay_level: int) -> None:
        address = address_to_write(self._client.routes.addresses, message.broker_name) or message.store_host
        request = SendBack(
            offset=message.log_position,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=self._client.namespace.wrap(message.topic),
            max_reconsume_times=self._retries_max,
            bname=message.broker_name,
        )
        answer = await self._client.pool.ask(address, request, SEND_BACK_TIMEOUT_MS)
        if answer.code != SUCCESS:
            raise broker_answer(answer.code, answer.remark, f"send back {message.message_id} to {address}")

    def _as_retry(self, message: ReceivedMessage, retries_max: int) -> Message:
        return as_retry(message, self._group, retries_max, self._client.namespace.wrap(message.topic))

    async def _post(self, retry: Message) -> None:
        if self._inner is None:
            settings = ProducerSettings(client=self._client.settings, send_msg_timeout_ms=RESEND_TIMEOUT_MS)
            self._inner = Sender(INNER_PRODUCER_GROUP, self._client, settings)
        result = await self._inner.post(retry)
        # If the broker loses the retry, the message would be lost. A duplicate is better.
        if result.status is not SendStatus.SEND_OK:
            raise ClientError(f"a retry in {retry.topic} isn't safe yet: {result.status.value}")

    async def close(self) -> None:
        """Wait for the sends that are in flight."""
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.backpressure.idle()
            inner.close()


def as_retry(message: ReceivedMessage, group: str, retries_max: int, topic: str = "") -> Message:
    """Return a retry of a failed message, as a broker would have made it, except for its origin.

    `topic`: the topic's full name, if the message has its plain name.
    """
    times = message.reconsume_times
    retry = Message(
        retry_topic(group),
        message.body,
        flag=message.flag,
        delay_level=retry_level(times),
        wait_stored=message.get(WAIT) != "false",
    )
    kept = {name: value for name, value in message.properties.items() if name not in _NOT_COPIED}
    retry.system_properties = {
        ORIGIN_MESSAGE_ID: message.offset_message_id,
        **kept,
        RETRY_TOPIC: topic or message.topic,
        RECONSUME_TIME: str(times + 1),
        MAX_RECONSUME_TIMES: str(retries_max),
    }
    return retry
