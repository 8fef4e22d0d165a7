"""Acknowledges messages, or changes their invisible time, at the broker that their handles name.

RocketMQ: MQClientAPIImpl.ackMessageAsync, batchAckMessageAsync, changeInvisibleTimeAsync.
"""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.namespaces import Namespace
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.pop.popped import PoppedMessage
from staticfire.protocol.batch_acks import make_entry
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS, Request
from staticfire.protocol.errors import BrokerAnswer, ProtocolError, broker_answer
from staticfire.protocol.pop_handles import PopHandle, format_handle
from staticfire.protocol.requests.pop import (
    AckMessage,
    BatchAck,
    BatchAckBody,
    ChangeInvisibleAnswer,
    ChangeInvisibleTime,
)
from staticfire.protocol.times import UptimeMs


def ack_request(group: str, topic: str, message: PoppedMessage) -> AckMessage:
    """Return the request that acknowledges a message. `topic`: the full name of the topic that it was received from."""
    handle = message.handle
    return AckMessage(
        group,
        handle.real_topic(topic, group),
        handle.queue_id,
        format_handle(handle),
        handle.queue_offset,
        handle.broker_name,
    )


def change_request(group: str, topic: str, message: PoppedMessage, invisible_ms: int) -> ChangeInvisibleTime:
    """Return the request for another invisible time, from now on."""
    handle = message.handle
    return ChangeInvisibleTime(
        group,
        handle.real_topic(topic, group),
        handle.queue_id,
        format_handle(handle),
        handle.queue_offset,
        invisible_ms,
        handle.broker_name,
    )


def batch_requests(
    group: str, messages: Iterable[PoppedMessage], namespace: Namespace
) -> dict[str, tuple[MessageQueue, BatchAck]]:
    """Return one acknowledging request per broker name, with a queue on that broker."""
    check_points: dict[tuple[str, PopHandle], list[int]] = {}
    for message in messages:
        key = (namespace.wrap(message.topic), message.handle._replace(queue_offset=-1))
        check_points.setdefault(key, []).append(message.handle.queue_offset)
    requests: dict[str, tuple[MessageQueue, BatchAck]] = {}
    for (topic, handle), queue_offsets in check_points.items():
        name = handle.broker_name
        if name not in requests:
            body = BatchAckBody([], name)
            requests[name] = (MessageQueue(topic, name, handle.queue_id), BatchAck(bname=name, body=body))
        requests[name][1].body.acks.append(make_entry(group, topic, handle, queue_offsets))
    return requests


async def _all(requests: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Await all requests. Raises: the first error, after all have ended."""
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


class Acknowledging:
    """The acknowledgements of one group. If one fails, the message is redelivered."""

    def __init__(self, group: str, client: ClusterClient, timeout_ms: int) -> None:
        """`timeout_ms`: for each response."""
        self._group = group
        self._client = client
        self._timeout_ms = timeout_ms
        self._takes_batches = True

    async def ack(self, message: PoppedMessage) -> None:
        """Acknowledge a message. Raises: BrokerAnswer, NetworkError."""
        queue = self._queue_of(message)
        await self._ask(queue, ack_request(self._group, queue.topic, message))

    async def ack_all(self, messages: Iterable[PoppedMessage]) -> None:
        """Acknowledge many messages, with one request per broker; one by one if a broker supports no batches.

        Raises: BrokerAnswer, NetworkError.
        """
        done = list(messages)
        if len(done) > 1 and self._takes_batches:
            requests = batch_requests(self._group, done, self._client.namespace).values()
            try:
                await _all(self._ask(queue, request) for queue, request in requests)
            except BrokerAnswer as refused:
                if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                self._takes_batches = False  # This is RocketMQ before 5.1.
            else:
                return
        await _all(map(self.ack, done))

    async def change(self, message: PoppedMessage, invisible_ms: int) -> None:
        """Set how long a message remains invisible, from now on; it gets a new handle.

        Raises: BrokerAnswer, NetworkError.
        """
        queue = self._queue_of(message)
        answer = await self._ask(queue, change_request(self._group, queue.topic, message, invisible_ms))
        if not isinstance(answer, ChangeInvisibleAnswer):
            raise ProtocolError(f"the response to a change of the invisible time of {message.message_id} has no handle")
        message.handle = message.handle.changed(answer.pop_time, answer.invisible_time, answer.revive_qid)
        message.invisible_until_ms = UptimeMs(self._client.machine.clock.uptime_ms() + invisible_ms)

    async def _ask(self, queue: MessageQueue, request: Request) -> object:
        client = self._client
        address = await client.address_to_write(queue)
        answer = await client.pool.ask(address, request, self._timeout_ms)
        if answer.code != SUCCESS:
            what = type(request).__name__
            raise broker_answer(answer.code, answer.remark, f"{what} of {queue} at {address} for {self._group}")
        return answer

    def _queue_of(self, message: PoppedMessage) -> MessageQueue:
        handle = message.handle
        return MessageQueue(self._client.namespace.wrap(message.topic), handle.broker_name, handle.queue_id)
