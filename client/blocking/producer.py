"""The producer without asyncio.

    with Producer("orders", namesrv="127.0.0.1:9876") as producer:
        result = producer.send(Message("orders", b"..."))

Each send is a trip to another thread and back, so many of them go faster together: `send_many`, or `post`.
"""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Literal, overload

from staticfire.client.blocking.face import BlockingFace, blocking, on_loop, stands_for
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.produce.producer import Producer
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.messages import Message


class BlockingProducer(BlockingFace[Producer]):
    """Sends messages. Any number of threads may use it."""

    send = blocking(Producer.send)
    send_oneway = blocking(Producer.send_oneway)
    queues = blocking(Producer.queues)
    request = blocking(Producer.request)
    reply = blocking(Producer.reply)
    recall = blocking(Producer.recall)
    add_hook = on_loop(Producer.add_hook)

    @stands_for(Producer.post)
    def post(self, message: Message, queue: MessageQueue | None = None) -> "Future[SendResult]":
        """Send a message without waiting for its broker; return the future of its result.

        Raises: ClientError (can't be sent, or too much is under way: `send` waits instead).
        """

        async def post() -> Future[SendResult]:
            posted = self.service.post(message, queue)

            async def result() -> SendResult:
                return await posted

            return self._thread.submit(result())

        return self._call(post)

    @overload
    def send_many(
        self, messages: Iterable[Message], *, return_exceptions: Literal[False] = False
    ) -> list[SendResult]: ...

    @overload
    def send_many(
        self, messages: Iterable[Message], *, return_exceptions: Literal[True]
    ) -> list[SendResult | Exception]: ...

    @stands_for(Producer.send_many)
    def send_many(
        self, messages: Iterable[Message], *, return_exceptions: bool = False
    ) -> list[SendResult] | list[SendResult | Exception]:
        """Send messages of any topics and return the result of each, in their order, when all are settled.

        Raises: the first failure, if there is one and `return_exceptions` is False.
        """
        given = list(messages)  # Here: a generator may block, or send something itself.
        if return_exceptions:
            return self._call(lambda: self.service.send_many(given, return_exceptions=True))
        return self._call(lambda: self.service.send_many(given))

    @stands_for(Producer.send_batch)
    def send_batch(self, messages: Iterable[Message], *, queue: MessageQueue | None = None) -> SendResult:
        """Send messages of one topic as RocketMQ's batch: they land in one queue, side by side, all or none.

        Raises: ClientError (nothing in it, mixed topics, delays, too large), and as `send`.
        """
        return self._call(self.service.send_batch, list(messages), queue=queue)
