"""From a message to its result: which queue, which broker, and what happens after a failure. Synchronous.

No task per message: a message is a parcel with a future. It waits for its topic's route at most once, then goes to
the outbox of a broker; what comes back failed goes to another broker while attempts and time are left.
RocketMQ: DefaultMQProducerImpl.sendDefaultImpl.
"""

import asyncio

from staticfire.client.cluster_client import ClusterClient
from staticfire.client.destinations import Destinations
from staticfire.client.load import Load
from staticfire.client.parcel import NO_QUEUE, Parcel
from staticfire.client.queues import MessageQueue
from staticfire.client.send_requests import Outcome
from staticfire.client.send_result import SendResult
from staticfire.client.settings import ProducerSettings
from staticfire.client.wrapping import Wrapping, unique_ids
from staticfire.protocol.errors import (
    BrokerAnswer,
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    StaticfireError,
)
from staticfire.protocol.messages import Message, encode_message_properties
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.requests.send import ManyMessage
from staticfire.protocol.times import MessageMs, UptimeMs

PARCEL_BYTES = 256
# Counted for a message beside its body: topic, properties, numbers.


class Sender:
    """The engine of one producer. Lives in the running event loop."""

    def __init__(self, group: str, client: ClusterClient, settings: ProducerSettings) -> None:
        self._client = client
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._clock = client.machine.clock
        self._wrapping = Wrapping(settings, unique_ids(client.machine.identity))
        self._next_id = self._wrapping.next_id
        self._plain_bytes_max = self._wrapping.plain_bytes_max
        self._attempts_left = settings.retry_times_when_send_failed
        self.load = Load(settings.pending_messages_max, settings.pending_bytes_max)
        self._destinations = Destinations(group, client, settings, self.load, self._troubled)
        self._choices = self._destinations.choices
        self._avoided = self._destinations.avoided
        self.queues = self._destinations.queues
        self._unrouted: dict[str, list[Parcel]] = {}
        self._in_tick = False
        self._wall_ms = MessageMs(0)
        self._deadline_ms = UptimeMs(0)

    # -- messages in ---------------------------------------------------------------------------------------------

    def post(self, message: Message, queue: MessageQueue | None = None) -> asyncio.Future[SendResult]:
        """Take a message; it leaves at the end of this tick. Raises: ClientError for one that can't be sent.

        Hot: what is not plain goes the slow way, everything else is done here and in `encode_message_properties`.
        """
        choice = self._choices.get(message.topic)
        body = message.body
        size = len(body)
        if (
            choice is None
            or queue is not None
            or not 0 < size <= self._plain_bytes_max
            or message.system_properties
            or self._avoided
        ):
            return self._post_slowly(message, queue)
        if not self._in_tick:
            self._begin_tick()
        wall_ms = self._wall_ms
        message_id = self._next_id(wall_ms)
        properties = encode_message_properties(message, message_id)
        choice.turn = turn = choice.turn + 1
        queue, queue_id, outbox = choice.places[turn % choice.count]
        parcel = Parcel(
            ManyMessage(message.topic, queue_id, properties, body, 0, message.flag, wall_ms),
            message_id,
            queue,
            asyncio.Future(loop=self._loop),
            self._deadline_ms,
            self._attempts_left,
            size + PARCEL_BYTES,
        )
        outbox.put_plain(parcel)
        return parcel.future

    def _post_slowly(self, message: Message, queue: MessageQueue | None) -> asyncio.Future[SendResult]:
        if not self._in_tick:
            self._begin_tick()
        self._wrapping.check(message)
        wire, message_id = self._wrapping.wrap(message, self._wall_ms)
        parcel = self._parcel(wire, message_id, queue)
        parcel.alone = is_retry_topic(wire.topic)
        self._dispatch(parcel)
        return parcel.future

    def post_batch(self, messages: list[Message], queue: MessageQueue | None = None) -> asyncio.Future[SendResult]:
        """Take messages of one topic as RocketMQ's batch: one queue, all or nothing. Raises: ClientError."""
        if not self._in_tick:
            self._begin_tick()
        wire, message_ids = self._wrapping.wrap_batch(messages, self._wall_ms)
        parcel = self._parcel(wire, message_ids, queue)
        parcel.alone = parcel.batch = True
        self._dispatch(parcel)
        return parcel.future

    async def wrap(self, message: Message, queue: MessageQueue | None) -> tuple[ManyMessage, MessageQueue]:
        """Return a message as it travels and where to, for a one-way send. Raises: as `queues`."""
        self._wrapping.check(message)
        await self.queues(message.topic)
        queue = queue or self._destinations.next_queue(self._choices[message.topic])
        wire, _ = self._wrapping.wrap(message, self._clock.wall_ms())
        wire.queue_id = queue.queue_id
        return wire, queue

    def _begin_tick(self) -> None:
        # What comes in one tick shares one look at the clocks.
        self._in_tick = True
        self._wall_ms = self._clock.wall_ms()
        self._deadline_ms = UptimeMs(self._clock.uptime_ms() + self._settings.send_msg_timeout_ms)
        self._loop.call_soon(self._end_tick)

    def _end_tick(self) -> None:
        self._in_tick = False

    def _parcel(self, wire: ManyMessage, message_id: str, queue: MessageQueue | None) -> Parcel:
        return Parcel(
            wire,
            message_id,
            queue or NO_QUEUE,
            asyncio.Future(loop=self._loop),
            self._deadline_ms,
            0 if queue is not None else self._attempts_left,
            len(wire.body) + PARCEL_BYTES,
            ordered=queue is not None,
        )

    def _dispatch(self, parcel: Parcel) -> None:
        """Hand a parcel to its broker, or let it wait for its topic's route."""
        choice = self._choices.get(parcel.wire.topic)
        if parcel.wire.topic in self._unrouted:
            self._wait_for_route(parcel)  # Behind those that wait already, or it would overtake them.
        elif parcel.ordered and parcel.queue.broker_name in self._client.routes.addresses:
            self._put(parcel, parcel.queue)
        elif choice is not None and not parcel.ordered:
            self._put(parcel, self._destinations.next_queue(choice))
        else:
            self._wait_for_route(parcel)

    def _put(self, parcel: Parcel, queue: MessageQueue) -> None:
        parcel.queue = queue
        parcel.wire.queue_id = queue.queue_id
        self._destinations.outbox(queue.broker_name).put(parcel)

    # -- routes --------------------------------------------------------------------------------------------------

    def _wait_for_route(self, parcel: Parcel) -> None:
        self.load.messages += 1
        self.load.bytes += parcel.size
        waiting = self._unrouted.get(parcel.wire.topic)
        if waiting is None:
            self._unrouted[parcel.wire.topic] = [parcel]
            self._client.spawn(self._find_route(parcel.wire.topic), f"route for {parcel.wire.topic}")
        else:
            waiting.append(parcel)

    async def _find_route(self, topic: str) -> None:
        error: StaticfireError | None = ConnectFailed("this client is closed")
        try:
            await self.queues(topic)
            error = None
        except StaticfireError as caught:
            error = caught
        finally:
            self._settle_unrouted(topic, error)

    def _settle_unrouted(self, topic: str, error: StaticfireError | None) -> None:
        """Let go those that waited for a route, in the order in which they came."""
        parcels = self._unrouted.pop(topic)
        self.load.remove(len(parcels), sum(parcel.size for parcel in parcels))
        for parcel in parcels:
            if parcel.future.done():
                continue
            if error is not None:
                parcel.future.set_exception(copy_of(error))
            else:
                self._put(parcel, self._queue_of(parcel))

    def _queue_of(self, parcel: Parcel) -> MessageQueue:
        return parcel.queue if parcel.ordered else self._destinations.next_queue(self._choices[parcel.wire.topic])

    # -- failures ------------------------------------------------------------------------------------------------

    def _troubled(self, parcel: Parcel, outcome: Outcome) -> None:
        """Try another broker, or tell who waits."""
        if parcel.future.done():
            return
        if isinstance(outcome, SendResult):
            parcel.poor_result = outcome
            if not self._settings.retry_another_broker_when_not_store_ok or not self._tried_again(parcel):
                parcel.future.set_result(outcome)
            return
        self._note(parcel, outcome)
        if may_retry(outcome) and self._tried_again(parcel):
            return
        if parcel.poor_result is not None:
            parcel.future.set_result(parcel.poor_result)
        else:
            spent_ms = self._settings.send_msg_timeout_ms - (parcel.deadline_ms - self._clock.uptime_ms())
            parcel.future.set_exception(final_error(parcel, outcome, spent_ms))

    def _note(self, parcel: Parcel, error: StaticfireError) -> None:
        broker_name = parcel.queue.broker_name
        parcel.failures = [*(parcel.failures or ()), f"{broker_name}: {error}"]
        if isinstance(error, NetworkError):
            self._client.refresh_routes()
            if isinstance(error, ConnectFailed | ConnectionLost):
                self._destinations.avoid(broker_name)

    def _tried_again(self, parcel: Parcel) -> bool:
        """Hand the message to another broker if there are attempts and time left."""
        choice = self._choices.get(parcel.queue.topic)
        if parcel.attempts_left == 0 or choice is None or self._clock.uptime_ms() >= parcel.deadline_ms:
            return False
        parcel.attempts_left -= 1
        self._put(parcel, self._destinations.next_queue(choice, parcel.queue.broker_name))
        return True

    def close(self) -> None:
        """Hear of routes no more."""
        self._destinations.close()


def may_retry(error: StaticfireError) -> bool:
    """Whether another broker may take what this one didn't. RocketMQ: retryResponseCodes."""
    return isinstance(error, NetworkError) or (isinstance(error, BrokerAnswer) and error.retryable)


def final_error(parcel: Parcel, error: StaticfireError, spent_ms: int) -> StaticfireError:
    """Return what the caller gets: of the last error's class, with all that happened. Never a shared exception."""
    failures = parcel.failures or []
    if len(failures) == 1 and isinstance(error, BrokerAnswer):
        return error
    words = (
        f"message {parcel.message_id.partition(',')[0]} for {parcel.queue.topic} was not sent, attempts: "
        f"{len(failures)} in {spent_ms} ms: {'; '.join(failures)}"
    )
    return copy_of(error, words)


def copy_of(error: StaticfireError, words: str | None = None) -> StaticfireError:
    """Return an exception like it: one that several callers get would collect the tracebacks of all of them."""
    if isinstance(error, BrokerAnswer):
        return type(error)(error.code, words or error.remark)
    return type(error)(words or str(error))
