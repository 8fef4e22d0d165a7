"""The producer: sends a program's messages. RocketMQ: DefaultMQProducer.

    async with Producer("orders", namesrv="127.0.0.1:9876") as producer:
        result = await producer.send(Message("orders", b"...", tags="paid", keys=["42"]))

Without asyncio, `with Producer(...) as producer: producer.send(...)`.

Every send has one result or one exception. Leaving `async with` waits for posted messages; after that nothing is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, overload
from uuid import UUID

from staticfire.client.cluster.blocking import BlockingFace, blocking, on_loop, stands_for
from staticfire.client.cluster.client_service import ClientService
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.bundle import as_exception, checked
from staticfire.client.produce.detector import Detector
from staticfire.client.produce.hooks import ProducerHook, ProducerHooks
from staticfire.client.produce.many_sending import ManySending
from staticfire.client.produce.recalling import recall_request, recalled_id
from staticfire.client.produce.request_reply import reply_request, reply_to, request_of
from staticfire.client.produce.selectors import Selector, checked_choice
from staticfire.client.produce.send_requests import single_outcome, single_request
from staticfire.client.produce.send_result import SendResult
from staticfire.client.produce.sender import Sender
from staticfire.protocol.errors import (
    AnswerTimeout,
    ClientError,
    StaticfireError,
)
from staticfire.protocol.messages import Message, ReceivedMessage, not_a_message
from staticfire.protocol.names import DEFAULT_PRODUCER_GROUP, group_fault
from staticfire.protocol.properties import UNIQ_KEY, text_property
from staticfire.runtime.machine import Machine
from staticfire.runtime.pending_answers import deadline

if TYPE_CHECKING:
    from staticfire.client.produce.tracing import ProducerTracing

# house: all ways to send, with and without `await`
REQUEST_TIMEOUT_MS = 3_000


class Producer(ClientService):  # house: the face of all sends: most of it says what they raise
    """Sends messages. One producer is enough for a program; any number of tasks of its event loop may use it."""

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        settings: ProducerSettings | None = None,
        machine: Machine | None = None,
        client: ClusterClient | None = None,
    ) -> None:
        """`client`: a shared client, instead of `namesrv`. Raises: UsageError, ClientError."""
        self.settings = settings or ProducerSettings()
        super().__init__(namesrv, self.settings.client, machine, client)
        fault = group_fault(group)
        if fault is not None or group == DEFAULT_PRODUCER_GROUP:
            raise ClientError(fault or f"producer group {group} belongs to RocketMQ: choose another name")
        self.group = self.client.namespace.wrap(group)
        """The full name of the group, as brokers know it."""
        self._sender: Sender | None = None
        self._tracing: ProducerTracing | None = None
        self._hooks: ProducerHooks | None = None
        self._is_watched = self.settings.enable_trace
        """Whether sends are observed, by a trace or a hook."""
        # Brokers that know this producer, so that they can pass it replies.
        self._introduced: set[str] = set()

    def __enter__(self) -> "BlockingProducer":
        return BlockingProducer.enter(self)

    async def _join(self) -> None:
        self.client.join_producers(self.group)
        self._sender = Sender(self.group, self.client, self.settings)
        if self.settings.enable_trace:
            from staticfire.client.produce.tracing import trace_producer  # Imported only if it is used.

            group = self.client.namespace.unwrap(self.group)
            self._tracing = trace_producer(self.client, group, self.settings.trace_topic, self.spawn)
        if self.settings.send_latency_fault_enable and self.settings.start_detector_enable:
            self.spawn(Detector(self.client, self._sender.destinations, self.settings).loop(), "detector")

    async def _part(self) -> None:
        """Refuse new messages, wait for those in flight, unregister."""
        sender, self._sender = self._sender, None
        if sender is not None:
            try:
                await sender.backpressure.idle()
                if self._tracing is not None:
                    await self._tracing.writer.close()
            finally:
                # A shared client continues: nothing of this producer may remain in it if the exit is cancelled.
                if self._tracing is not None:
                    self._tracing.writer.detach()
                sender.close()
                unregistered = self.client.unregister_producers(self.group)
            await unregistered

    @property
    def _open(self) -> Sender:
        if self._sender is None:
            raise ClientError(f"producer {self.group} isn't open: use it inside `async with producer`")
        return self._sender

    def add_hook(self, hook: ProducerHook) -> None:
        """Call a hook's methods around each send, from now on."""
        if self._hooks is None:
            self._hooks = ProducerHooks(self.group, self.client.machine.clock)
        self._hooks.add(hook)
        self._is_watched = True

    # -- sending -------------------------------------------------------------------------------------------------

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: Any = None,
    ) -> SendResult:
        """Send a message, with up to three attempts on different brokers, and return where it is stored.

        With a `queue`, or one that `selector(queues, message, key)` returns, the message is *ordered*: there is one
        attempt, and this producer sends no other message to that queue until it is settled.

        A cancelled send may still reach the broker.

        Raises: ClientError (can't be sent), TopicNotFound, BrokerAnswer (refused), NetworkError (the outcome is
        unknown).
        """
        sender = self._sender
        if sender is None or queue is not None or selector is not None or self._is_watched:
            return await self._send_slow_path(message, queue, selector, key)
        backpressure = sender.backpressure
        if backpressure.messages >= backpressure.messages_max or backpressure.bytes >= backpressure.bytes_max:
            return await self._send_slow_path(message, None, None, None)
        return await sender.post(message)

    async def _send_slow_path(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, key: Any
    ) -> SendResult:
        sender = self._open
        queue = self._fitting(await self._selected(message, queue, selector, key), message)
        if sender.backpressure.is_full:
            await sender.backpressure.room(len(message.body))
        return await self._posted(message, queue)

    async def _selected(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, key: Any
    ) -> MessageQueue | None:
        """Return the queue that the program or its selector chose. Raises: ClientError (both given, or not a queue)."""
        if selector is None:
            return queue
        if queue is not None:
            raise ClientError("use either queue or selector, not both")
        queues = await self._open.queues(message.topic)
        return checked_choice(selector(queues, message, key), queues, message.topic)

    def _hooked(
        self, message: Message, queue: MessageQueue | None, post: Callable[[], asyncio.Future[SendResult]]
    ) -> asyncio.Future[SendResult]:
        """Send with `post`, with hooks around it. Raises: as `post`, and what a hook forbids it with."""
        hooks = self._hooks
        if hooks is None:
            return post()
        call = hooks.begin(message, queue)
        try:
            future = post()
        except BaseException as error:
            hooks.end(call, None, error)
            raise
        hooks.follow(call, future)
        return future

    def _posted(self, message: Message, queue: MessageQueue | None) -> asyncio.Future[SendResult]:
        sender = self._open
        future = self._hooked(message, queue, lambda: sender.post(message, queue))
        if self._tracing is not None:
            self._tracing.follow(message, future, is_ordered=queue is not None)
        return future

    def _fitting(self, queue: MessageQueue | None, message: Message) -> MessageQueue | None:
        """Return the queue with its plain name. Raises: ClientError (it isn't one, or of another topic; no message)."""
        if not isinstance(message, Message):
            raise not_a_message(message)
        if queue is None:
            return None
        if not _is_queue(queue):
            raise ClientError(f"{queue!r:.200} isn't a queue: `queues(topic)` of a producer returns those of a topic")
        namespace = self.client.namespace
        if queue.topic != message.topic and namespace.wrap(queue.topic) != namespace.wrap(message.topic):
            raise ClientError(f"the message's topic {message.topic} isn't that of the queue {queue}")
        return namespace.unwrapped(queue)

    def post(self, message: Message, queue: MessageQueue | None = None) -> asyncio.Future[SendResult]:
        """Send a message without waiting, from synchronous code in the event loop. Return the future of its result.

        Raises: ClientError (can't be sent, or too much is in flight: `send` waits instead).
        """
        sender = self._open
        if sender.backpressure.is_full:
            raise ClientError(
                f"{sender.backpressure.messages} messages with {sender.backpressure.bytes} bytes are in flight, which "
                "is the limit (pending_messages_max, pending_bytes_max): await some of their futures, or "
                "`await producer.send(...)`"
            )
        return self._posted(message, self._fitting(queue, message))

    @overload
    async def send_many(
        self, messages: Iterable[Message], *, return_exceptions: Literal[False] = False
    ) -> list[SendResult]: ...

    @overload
    async def send_many(
        self, messages: Iterable[Message], *, return_exceptions: Literal[True]
    ) -> list[SendResult | Exception]: ...

    async def send_many(
        self, messages: Iterable[Message], *, return_exceptions: bool = False
    ) -> list[SendResult] | list[SendResult | Exception]:
        """Send messages of any topics. Return the result of each, in the same order, when all are settled.

        This is the fastest way to send: many messages are sent in one request, while further ones are taken from
        `messages`. In each queue their order is kept. Each message succeeds or fails by itself.

        Raises: the first failure, if there is one and `return_exceptions` is False.
        """
        sender = self._open
        if self._hooks is not None:
            return await self._send_one_by_one(messages, return_exceptions)
        if self._tracing is not None:
            messages = list(messages)
        began_ms = self.client.machine.clock.wall_ms()
        many = ManySending(sender, self.settings)
        try:
            if sender.backpressure.is_full:
                await many.turn()
            for message in messages:
                if many.add(message):
                    await many.turn()
                    sender = self._open  # It may have been closed meanwhile.
            outcomes = await many.results()
        finally:
            many.abandon()
        if self._tracing is not None:
            self._tracing.all_sent(messages, outcomes, began_ms)
        return checked(outcomes, return_exceptions)

    async def _send_one_by_one(
        self, messages: Iterable[Message], return_exceptions: bool
    ) -> list[SendResult | Exception]:
        """Send many messages, with hooks around each. One task posts all of them, which keeps their order."""
        backpressure = self._open.backpressure
        posted: list[asyncio.Future[SendResult]] = []
        try:
            for message in messages:
                try:
                    self._fitting(None, message)
                    await backpressure.room(len(message.body))
                    posted.append(self._posted(message, None))
                except Exception as error:  # noqa: BLE001 (the result of this message; a hook may raise anything)
                    posted.append(_failed(error))
            outcomes = await asyncio.gather(*posted, return_exceptions=True)
        finally:
            for future in posted:
                future.cancel()
        return checked(
            [as_exception(one) if isinstance(one, BaseException) else one for one in outcomes], return_exceptions
        )

    async def send_batch(self, messages: Iterable[Message], *, queue: MessageQueue | None = None) -> SendResult:
        """Send messages of one topic as RocketMQ's batch: all are stored next to each other in one queue, or none is.

        Raises: ClientError (nothing in it, mixed topics, a queue of another topic, delays, too large), and as `send`.
        """
        sender = self._open
        batch = list(messages)
        if not batch:
            await sender.post_batch(batch, queue)  # It raises the reason.
        queue = self._fitting(queue, batch[0])
        await sender.backpressure.room(sum(len(message.body) for message in batch))
        began_ms = self.client.machine.clock.wall_ms()
        sender = self._open
        result = await self._hooked(batch[0], queue, lambda: sender.post_batch(batch, queue))
        if self._tracing is not None:
            self._tracing.sent(batch[0], result, began_ms)
        return result

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: Any = None,
    ) -> None:
        """Send a message without a response: it may be lost without notice.

        Raises: ClientError (can't be sent), TopicNotFound, NetworkError (no connection, or its broker reads no data).
        """
        chosen = self._fitting(await self._selected(message, queue, selector, key), message)
        if self._hooks is None:
            await self._tell(message, chosen)
            return
        call = self._hooks.begin(message, chosen)
        try:
            await self._tell(message, chosen)
        except BaseException as error:
            self._hooks.end(call, None, error)
            raise
        self._hooks.end(call, None, None)

    async def _tell(self, message: Message, chosen: MessageQueue | None) -> None:
        wire, queue = await self._open.wrap(message, chosen)
        connection = await self.client.pool.connection(await self.client.address_to_write(queue))
        writable = connection.writable()
        if writable is not None:
            await self._written(writable, queue.broker_name)
        connection.tell(single_request(wire, queue.broker_name, self.group, self.settings))

    async def _written(self, writable: Awaitable[None], broker_name: str) -> None:
        """Wait until a broker reads data. Raises: AnswerTimeout after the timeout of a send."""
        timeout_ms = self.settings.send_msg_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await writable
        except TimeoutError:
            raise AnswerTimeout(f"not sent within {timeout_ms} ms: {broker_name} reads no data") from None

    async def recall(self, topic: str, handle: str) -> str:
        """Recall a delayed message that isn't delivered yet. Return its unique id.

        `handle`: `recall_handle` of the result of its send. If the message was recalled before, or never existed, that
        is no error: RocketMQ's brokers can't tell.

        Raises: ClientError (invalid handle; a retry or dead-letter topic, which has none), BrokerAnswer (too late, or a
        handle of another topic), NetworkError.
        """
        topic = self.client.namespace.wrap(topic)
        queue, request = recall_request(topic, handle, self.group)
        await self._open.queues(topic)
        answer = await self.client.ask_master(queue, request, self.settings.send_msg_timeout_ms)
        if self._tracing is not None:
            self._tracing.recalled(request, answer)
        return recalled_id(answer, queue)

    # -- request and reply -----------------------------------------------------------------------------------------

    async def request(
        self,
        message: Message,
        timeout_ms: int = REQUEST_TIMEOUT_MS,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        key: Any = None,
    ) -> ReceivedMessage:
        """Send a message and return a consumer's reply to it (`producer.reply`).

        RocketMQ: DefaultMQProducer.request, which in 5.3 fails if the send's response comes before the reply; this
        method waits for the reply until the timeout.

        Raises: AnswerTimeout (sent, but no reply in time), and as `send`.
        """
        client = self.client
        correlation_id = str(UUID(int=client.machine.identity.random.getrandbits(128), version=4))
        asking = request_of(message, correlation_id, client.client_id, timeout_ms)
        reply = client.replies.expect(correlation_id)
        is_sent = False
        try:
            async with deadline(timeout_ms / 1000):
                await self._introduce(message.topic)
                await self.send(asking, queue=queue, selector=selector, key=key)
                is_sent = True
                return await reply
        except TimeoutError as error:
            went = "OK, but wait reply message timeout" if is_sent else "didn't end in time"
            raise AnswerTimeout(f"send request message to <{message.topic}> {went}, {timeout_ms} ms.") from error
        finally:
            client.replies.forget(correlation_id)

    async def _introduce(self, topic: str) -> None:
        """Make sure that the brokers of a topic know this producer: they pass it the reply."""
        brokers = {queue.broker_name for queue in await self._open.queues(topic)}
        if not brokers <= self._introduced:
            await self.client.announce()
            self._introduced |= brokers

    async def reply(
        self, request: ReceivedMessage, body: bytes, properties: Mapping[str, str] | None = None
    ) -> SendResult:
        """Reply to a received request message. Return where the reply is stored.

        It is sent to the broker that stores the request: the requesting client is connected there.

        Raises: ClientError (the message isn't a request), BrokerAnswer (the requesting client is gone; the reply is
        stored anyway), NetworkError.
        """
        message = reply_to(request, body, properties)
        queues = await self._open.queues(message.topic)
        queue = next((one for one in queues if one.broker_name == request.broker_name), queues[0])
        wire, queue = await self._open.wrap(message, queue)
        sent = reply_request(single_request(wire, queue.broker_name, self.group, self.settings))
        answer = await self.client.ask_master(queue, sent, self.settings.send_msg_timeout_ms)
        outcome = single_outcome(text_property(wire.properties, UNIQ_KEY), queue, answer)
        if isinstance(outcome, StaticfireError):
            raise outcome
        return outcome

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic that can be written. Raises: TopicNotFound, NetworkError, ClientError."""
        return list(await self._open.queues(topic))


def _failed(error: Exception) -> "asyncio.Future[SendResult]":
    failed: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
    failed.set_exception(error)
    failed.exception()  # Otherwise asyncio would log it if the caller is cancelled before it reads the outcomes.
    return failed


def _is_queue(chosen: object) -> bool:
    return isinstance(chosen, MessageQueue) and chosen.queue_id >= 0


class BlockingProducer(BlockingFace[Producer]):
    """Sends messages. Any number of threads may use it.

        with Producer("orders", namesrv="127.0.0.1:9876") as producer:
            result = producer.send(Message("orders", b"..."))

    Each send waits for another thread, so many sends are faster together: `send_many`, or `post`.
    """

    send = blocking(Producer.send)
    send_oneway = blocking(Producer.send_oneway)
    queues = blocking(Producer.queues)
    request = blocking(Producer.request)
    reply = blocking(Producer.reply)
    recall = blocking(Producer.recall)
    add_hook = on_loop(Producer.add_hook)

    @stands_for(Producer.post)
    def post(self, message: Message, queue: MessageQueue | None = None) -> "Future[SendResult]":
        """Send a message without waiting for its broker. Return the future of its result.

        Raises: ClientError (can't be sent, or too much is in flight: `send` waits instead).
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
        """Send messages of any topics. Return the result of each, in the same order, when all are settled.

        Raises: the first failure, if there is one and `return_exceptions` is False.
        """
        # Iterate in the caller's thread: a generator may block, or send messages itself.
        given = list(messages)
        if return_exceptions:
            return self._call(lambda: self.service.send_many(given, return_exceptions=True))
        return self._call(lambda: self.service.send_many(given))

    @stands_for(Producer.send_batch)
    def send_batch(self, messages: Iterable[Message], *, queue: MessageQueue | None = None) -> SendResult:
        """Send messages of one topic as RocketMQ's batch: all are stored next to each other in one queue, or none is.

        Raises: ClientError (nothing in it, mixed topics, delays, too large), and as `send`.
        """
        return self._call(self.service.send_batch, list(messages), queue=queue)
