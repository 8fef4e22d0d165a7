"""Messages whose consumption failed go back to a broker, which delivers them again later.

RocketMQ: DefaultMQPushConsumerImpl.sendMessageBack. The broker that stores the message is asked first: it looks the
message up and stores a copy for the retry topic. If it can't, the message itself is sent to the retry topic, which any
broker takes; the delay is then the one that the broker would have chosen.
"""

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.routes import address_to_write
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.send_result import SendStatus
from staticfire.client.produce.sender import Sender
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.delay_levels import retry_level
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
DEAD_LETTER_LEVEL = -1

_NOT_COPIED = frozenset({DELAY, WAIT, TRAN_MSG})


class SendBacks:
    """The failed messages of one consumer."""

    def __init__(self, group: str, client: ClusterClient, retries_max: int) -> None:
        """`retries_max`: after so many failures a message is dead."""
        self._group = group
        self._client = client
        self._retries_max = retries_max
        self._inner: Sender | None = None

    async def send_back(self, message: ReceivedMessage, delay_level: int) -> None:
        """Return when a broker has taken the message. `delay_level`: 0 the broker decides, -1 dead letter.

        Raises: StaticfireError when no broker took it.
        """
        try:
            await self._ask(message, delay_level)
        except StaticfireError as error:
            log.warning("send_back_failed", group=self._group, message_id=message.message_id, reason=str(error))
            await self._resend(message)

    async def bury(self, message: ReceivedMessage) -> None:
        """Return when a broker has put a message to the group's dead letters. Raises: StaticfireError."""
        await self._ask(message, DEAD_LETTER_LEVEL)

    async def give_up(self, message: ReceivedMessage, retries_max: int) -> None:
        """Send a message that was consumed in order, and failed too often, to the retry topic: the broker sees that
        the group holds queue locks, and puts it to the dead letters. Raises: StaticfireError.
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

    async def _resend(self, message: ReceivedMessage) -> None:
        """Send the message to the retry topic."""
        await self._post(self._as_retry(message, self._retries_max))

    def _as_retry(self, message: ReceivedMessage, retries_max: int) -> Message:
        return as_retry(message, self._group, retries_max, self._client.namespace.wrap(message.topic))

    async def _post(self, retry: Message) -> None:
        if self._inner is None:
            settings = ProducerSettings(client=self._client.settings, send_msg_timeout_ms=RESEND_TIMEOUT_MS)
            self._inner = Sender(INNER_PRODUCER_GROUP, self._client, settings)
        result = await self._inner.post(retry)
        if result.status is not SendStatus.SEND_OK:  # It comes twice rather than never, if the broker loses it.
            raise ClientError(f"a retry in {retry.topic} isn't safe yet: {result.status.value}")

    async def close(self) -> None:
        """Wait for what is under way."""
        inner, self._inner = self._inner, None
        if inner is not None:
            await inner.backpressure.idle()
            inner.close()


def as_retry(message: ReceivedMessage, group: str, retries_max: int, topic: str = "") -> Message:
    """Return a failed message as its next attempt: what a broker would have made of it, but for its origin.

    `topic`: the whole name of its topic, where the message has a plain one.
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
