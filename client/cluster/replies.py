"""Replies to this client's requests, pushed by brokers. RocketMQ: RequestFutureHolder, ClientRemotingProcessor.

A reply is matched with its request by CORRELATION_ID. If no request waits for it any more, it is logged and accepted:
the broker has stored it anyway.
"""

import asyncio

from staticfire.client.cluster.pull_answers import expand_body
from staticfire.protocol.checksums import crc32
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.hosts import pack_host
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.properties import ARRIVE_TIME, CORRELATION_ID, with_property
from staticfire.protocol.record import StoredRecord
from staticfire.protocol.requests.reply import PushReply
from staticfire.protocol.sys_flag import COMPRESSED
from staticfire.runtime.addresses import parse_address
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.log import logger
from staticfire.runtime.machine import Clock

log = logger("client")


class Replies:
    """The requests that wait for their replies, by correlation id."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[ReceivedMessage]] = {}
        dispatcher.handle(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self._arrived)

    def expect(self, correlation_id: str) -> asyncio.Future[ReceivedMessage]:
        """Return the future of a reply. Call `forget` when it is no longer awaited."""
        future = self._waiting[correlation_id] = asyncio.get_running_loop().create_future()
        return future

    def forget(self, correlation_id: str) -> None:
        """Stop waiting for a reply."""
        future = self._waiting.pop(correlation_id, None)
        if future is not None:
            future.cancel()

    def _arrived(self, call: Call) -> Answer:
        request: PushReply = call.request
        reply = self._received(request)
        future = self._waiting.pop(reply.get(CORRELATION_ID) or "", None)
        if future is None or future.done():
            log.warning(
                "reply_unexpected",
                topic=request.topic,
                correlation_id=reply.get(CORRELATION_ID),
                broker=call.peer.address,
                reason="no request waits for it (any more)",
            )
        else:
            future.set_result(reply)
        return Answer()

    def _received(self, request: PushReply) -> ReceivedMessage:
        """Return a reply as a received message. Raises: ProtocolError (an invalid host)."""
        properties = with_property((request.properties or "").encode(), ARRIVE_TIME, str(self._clock.wall_ms()))
        record = StoredRecord(
            0, 0, 0, 0, request.queue_id, 0, request.store_timestamp, request.born_timestamp, request.sys_flag,
            request.flag, request.reconsume_times or 0, 0, crc32(request.body) & 0x7FFFFFFF,
            _packed(request.born_host), request.topic, properties, request.body,
        )  # fmt: skip
        message = ReceivedMessage(record, "", _packed(request.store_host))
        if request.sys_flag & COMPRESSED:
            expand_body(message)
        return message


def _packed(host: str) -> bytes:
    """Convert a host as Java writes it, `name/ip:port`, to bytes."""
    return pack_host(*parse_address(host.rpartition("/")[2])) if host else bytes(8)
