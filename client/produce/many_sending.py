"""One running `send_many`: messages in, bundles out, results in the order of the messages.

Each message goes to the same queue as a single send would, in the same order. A bundle is sent when it is full, so that
its broker works while the next messages are encoded. Retries, messages of topics without a known route, and all
messages to RocketMQ's own brokers are posted one by one.
"""

import asyncio
from functools import partial

from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.broker_sender import BrokerSender
from staticfire.client.produce.bundle import Bundle, Results, as_exception
from staticfire.client.produce.pending_send import NO_QUEUE, SEND_OVERHEAD_BYTES, PendingSend
from staticfire.client.produce.send_result import SendResult
from staticfire.client.produce.sender import Sender
from staticfire.protocol.errors import ClientError
from staticfire.protocol.messages import GOES_ALONE, Message, encode_message_properties, not_a_message
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.requests.send import ManyMessage

# The size of the first bundle, which is small so that its broker starts early.
FIRST_MESSAGES_MAX = 32
_OF_A_BUNDLE = ManyMessage("", -1, b"", b"")


class ManySending:
    """Accepts messages with `add`. After it returns True, await `turn` before the next; at the end, `results`."""

    def __init__(self, sender: Sender, settings: ProducerSettings) -> None:
        self._sender = sender
        self._messages_max = settings.gathered_messages_max
        self._bundle_messages_max = min(FIRST_MESSAGES_MAX, settings.gathered_messages_max)
        self._bytes_max = settings.gathered_bytes_max
        self._attempts_left = settings.retry_times_when_send_failed
        self._backpressure = sender.backpressure
        self._destinations = sender.destinations
        self._choices = sender.destinations.choices
        self._avoided = sender.destinations.avoided
        self._encoder = sender.encoder
        self._next_id = sender.encoder.next_id
        self._is_gathering = settings.client.protocol == "staticfire"
        self._plain_bytes_max = sender.encoder.plain_bytes_max if self._is_gathering else -1
        self._bundles: dict[BrokerSender, Bundle] = {}
        self._results: Results = []
        self._settled = 0
        self._posted: list[asyncio.Future[SendResult]] = []
        loop = asyncio.get_running_loop()
        # Replaces the futures of messages in bundles: it is cancelled when their results are no longer wanted.
        self._wanted: asyncio.Future[SendResult] = loop.create_future()
        self._all_settled: asyncio.Future[None] | None = None
        self._wall_ms, self._deadline_ms = sender.tick()

    # -- messages in ---------------------------------------------------------------------------------------------

    def add(self, message: Message) -> bool:
        """Add a message. Return whether the event loop must run now. Hot.

        If the message can't be sent, that is its result.
        """
        results = self._results
        index = len(results)
        results.append(None)
        try:
            choice = self._choices.get(message.topic)
            body = message.body
        except AttributeError:
            raise not_a_message(message) from None
        size = len(body)
        try:
            if choice is None or not 0 < size <= self._plain_bytes_max or message.system_properties or self._avoided:
                return self._add_slow_path(index, message)
            message_id = self._next_id(self._wall_ms)
            properties = encode_message_properties(message, message_id)
        except ClientError as error:
            results[index] = error
            self._settle(1)
            return False
        choice.turn = turn = choice.turn + 1
        queue, queue_id, broker = choice.places[turn % choice.count]
        size += SEND_OVERHEAD_BYTES
        bundle = self._bundles.get(broker)
        if bundle is None or bundle.size + size > self._bytes_max:
            bundle = self._begin(broker)
        bundle.rows.append((choice.topic, queue_id, properties, body, 0, message.flag, self._wall_ms))
        bundle.places.append((index, message_id, queue))
        return self._is_added(broker, bundle, size)

    def _is_added(self, broker: BrokerSender, bundle: Bundle, size: int) -> bool:
        bundle.size += size
        backpressure = self._backpressure
        backpressure.messages += 1
        backpressure.bytes += size
        if len(bundle.rows) >= self._bundle_messages_max:
            self._leave(broker)
            return True
        return backpressure.messages >= backpressure.messages_max or backpressure.bytes >= backpressure.bytes_max

    def _add_slow_path(self, index: int, message: Message) -> bool:
        """Add a message that must be compressed, has properties of the client's, or can't be in a bundle.

        Raises: ClientError.
        """
        self._encoder.check(message)
        choice = self._choices.get(message.topic)
        goes_alone = is_retry_topic(message.topic) or GOES_ALONE in message.system_properties
        if choice is None or not self._is_gathering or goes_alone:
            return self._post(index, message)
        wire, message_id = self._encoder.wrap(message, self._wall_ms)
        queue = self._destinations.next_queue(choice)
        broker = self._destinations.sender(queue.broker_name)
        size = len(wire.body) + SEND_OVERHEAD_BYTES
        bundle = self._bundles.get(broker)
        if bundle is None or bundle.size + size > self._bytes_max:
            bundle = self._begin(broker)
        bundle.rows.append(
            (wire.topic, queue.queue_id, wire.properties, wire.body, wire.sys_flag, wire.flag, wire.born_timestamp)
        )
        bundle.places.append((index, message_id, queue))
        return self._is_added(broker, bundle, size)

    def _post(self, index: int, message: Message) -> bool:
        """Post a message on its own. Raises: ClientError."""
        # Otherwise it could overtake earlier messages.
        self._leave_all()
        future = self._sender.post(message)
        future.add_done_callback(partial(self._post_settled, index))
        self._posted.append(future)
        return len(self._posted) % self._messages_max == 0 or self._backpressure.is_full

    def _post_settled(self, index: int, future: asyncio.Future[SendResult]) -> None:
        if not future.cancelled():
            error = future.exception()
            self._results[index] = future.result() if error is None else as_exception(error)
        self._settle(1)

    # -- bundles out ---------------------------------------------------------------------------------------------

    def _begin(self, broker: BrokerSender) -> Bundle:
        self._leave(broker)
        bundle = self._bundles[broker] = Bundle(self._results, self._settle)
        return bundle

    def _leave(self, broker: BrokerSender) -> None:
        bundle = self._bundles.pop(broker, None)
        if bundle is not None:
            broker.put_bundle(
                PendingSend(
                    _OF_A_BUNDLE, bundle.places[0][1], NO_QUEUE, self._wanted, self._deadline_ms, self._attempts_left,
                    bundle.size, alone=True, bundle=bundle,
                )
            )  # fmt: skip

    def _leave_all(self) -> None:
        for broker in list(self._bundles):
            self._leave(broker)

    async def turn(self) -> None:
        """Let the event loop run. Return when there is room for another message."""
        self._bundle_messages_max = self._messages_max
        if self._backpressure.is_full:
            self._leave_all()
            # The next message isn't known yet, so the average size of those in flight has to do.
            await self._backpressure.room(self._backpressure.bytes // max(1, self._backpressure.messages))
        else:
            await asyncio.sleep(0)
        self._wall_ms, self._deadline_ms = self._sender.tick()

    # -- results -------------------------------------------------------------------------------------------------

    def _settle(self, count: int) -> None:
        self._settled += count
        if self._all_settled is not None and self._settled == len(self._results) and not self._all_settled.done():
            self._all_settled.set_result(None)

    async def results(self) -> list[SendResult | Exception]:
        """Return the result of each message, or its exception, when all are settled."""
        self._leave_all()
        self._all_settled = asyncio.get_running_loop().create_future()
        self._settle(0)
        await self._all_settled
        return [result for result in self._results if result is not None]

    def abandon(self) -> None:
        """Stop waiting for results. Messages that wait may still be sent, but aren't retried."""
        self._wanted.cancel()
        for future in self._posted:
            future.cancel()
        for bundle in self._bundles.values():
            self._backpressure.remove(len(bundle.rows), bundle.size)
        self._bundles.clear()
