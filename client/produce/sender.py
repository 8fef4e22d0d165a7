"""From a message to its result: choice of queue and broker, and retries after a failure. Synchronous.

There is no task per message: a message is a pending send with a future. It waits for its topic's route at most once,
and then goes to the sender of a broker. If that fails, it goes to another broker while attempts and time are left.
RocketMQ: DefaultMQProducerImpl.sendDefaultImpl.
"""

import asyncio

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.settings import ProducerSettings
from staticfire.client.produce.backpressure import Backpressure
from staticfire.client.produce.destinations import Destinations
from staticfire.client.produce.message_encoder import MessageEncoder, unique_ids
from staticfire.client.produce.pending_send import NO_QUEUE, SEND_OVERHEAD_BYTES, PendingSend
from staticfire.client.produce.send_requests import Outcome
from staticfire.client.produce.send_result import SendResult
from staticfire.protocol.errors import (
    AnswerTimeout,
    BrokerAnswer,
    ConnectFailed,
    ConnectionLost,
    NetworkError,
    StaticfireError,
)
from staticfire.protocol.messages import GOES_ALONE, Message, encode_message_properties, not_a_message
from staticfire.protocol.names import is_retry_topic
from staticfire.protocol.properties import TRAN_MSG
from staticfire.protocol.requests.send import ManyMessage
from staticfire.protocol.sys_flag import TransactionKind
from staticfire.protocol.times import MessageMs, UptimeMs

# In the remark of a slave that is sent a message. RocketMQ: NettyRemotingAbstract.
REJECTED = "[REJECTREQUEST]"


class Sender:
    """Sends the messages of one producer. It uses the running event loop."""

    def __init__(self, group: str, client: ClusterClient, settings: ProducerSettings) -> None:
        self._client = client
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._clock = client.machine.clock
        self.encoder = MessageEncoder(settings, unique_ids(client.machine.identity), client.namespace)
        self._next_id = self.encoder.next_id
        self._plain_bytes_max = self.encoder.plain_bytes_max
        self._attempts_left = settings.retry_times_when_send_failed
        self.backpressure = Backpressure(settings.pending_messages_max, settings.pending_bytes_max)
        self.destinations = Destinations(group, client, settings, self.backpressure, self._troubled)
        self._choices = self.destinations.choices
        self._avoided = self.destinations.avoided
        self.queues = self.destinations.queues
        self._unrouted: dict[str, list[PendingSend]] = {}
        self._in_tick = False
        self._wall_ms = MessageMs(0)
        self._deadline_ms = UptimeMs(0)

    # -- messages in ---------------------------------------------------------------------------------------------

    def post(self, message: Message, queue: MessageQueue | None = None) -> asyncio.Future[SendResult]:
        """Accept a message; it is sent at the end of this tick. Raises: ClientError if it can't be sent.

        Hot: only plain messages are handled here and in `encode_message_properties`; all others take the slow path.
        """
        try:
            choice = self._choices.get(message.topic)
            body = message.body
        except AttributeError:
            raise not_a_message(message) from None
        size = len(body)
        if (
            choice is None
            or queue is not None
            or not 0 < size <= self._plain_bytes_max
            or message.system_properties
            or self._avoided
        ):
            return self._post_slow_path(message, queue)
        if not self._in_tick:
            self._begin_tick()
        wall_ms = self._wall_ms
        message_id = self._next_id(wall_ms)
        properties = encode_message_properties(message, message_id)
        choice.turn = turn = choice.turn + 1
        queue, queue_id, sender = choice.places[turn % choice.count]
        pending = PendingSend(
            ManyMessage(choice.topic, queue_id, properties, body, 0, message.flag, wall_ms),
            message_id,
            queue,
            asyncio.Future(loop=self._loop),
            self._deadline_ms,
            self._attempts_left,
            size + SEND_OVERHEAD_BYTES,
        )
        sender.put_plain(pending)
        return pending.future

    def _post_slow_path(self, message: Message, queue: MessageQueue | None) -> asyncio.Future[SendResult]:
        if not self._in_tick:
            self._begin_tick()
        self.encoder.check(message)
        wire, message_id = self.encoder.wrap(message, self._wall_ms)
        pending = self._pending_send(wire, message_id, queue)
        if TRAN_MSG in message.system_properties:
            wire.sys_flag |= TransactionKind.PREPARED
            pending.alone = True
        pending.alone = pending.alone or is_retry_topic(wire.topic) or GOES_ALONE in message.system_properties
        self._dispatch(pending)
        return pending.future

    def post_batch(self, messages: list[Message], queue: MessageQueue | None = None) -> asyncio.Future[SendResult]:
        """Accept messages of one topic as RocketMQ's batch: one queue, all or nothing. Raises: ClientError."""
        if not self._in_tick:
            self._begin_tick()
        wire, message_ids = self.encoder.wrap_batch(messages, self._wall_ms)
        pending = self._pending_send(wire, message_ids, queue)
        pending.alone = pending.batch = True
        self._dispatch(pending)
        return pending.future

    async def wrap(self, message: Message, queue: MessageQueue | None) -> tuple[ManyMessage, MessageQueue]:
        """Return an encoded message and its queue, for a one-way send. Raises: as `queues`."""
        self.encoder.check(message)
        await self.queues(message.topic)
        queue = queue or self.destinations.next_queue(self._choices[message.topic])
        wire, _ = self.encoder.wrap(message, self._clock.wall_ms())
        wire.queue_id = queue.queue_id
        return wire, queue

    def tick(self) -> tuple[MessageMs, UptimeMs]:
        """Return the wall time of this tick, and the deadline of its messages."""
        if not self._in_tick:
            self._begin_tick()
        return self._wall_ms, self._deadline_ms

    def _begin_tick(self) -> None:
        # All messages of a tick share one reading of the clocks.
        self._in_tick = True
        self._wall_ms = self._clock.wall_ms()
        self._deadline_ms = UptimeMs(self._clock.uptime_ms() + self._settings.send_msg_timeout_ms)
        self._loop.call_soon(self._end_tick)

    def _end_tick(self) -> None:
        self._in_tick = False

    def _pending_send(self, wire: ManyMessage, message_id: str, queue: MessageQueue | None) -> PendingSend:
        return PendingSend(
            wire,
            message_id,
            queue or NO_QUEUE,
            asyncio.Future(loop=self._loop),
            self._deadline_ms,
            0 if queue is not None else self._attempts_left,
            len(wire.body) + SEND_OVERHEAD_BYTES,
            ordered=queue is not None,
        )

    def _dispatch(self, pending: PendingSend) -> None:
        """Pass a send to its broker, or let it wait for its topic's route."""
        choice = self._choices.get(pending.wire.topic)
        if pending.wire.topic in self._unrouted:
            self._wait_for_route(pending)  # After those that wait already, or it would overtake them.
        elif pending.ordered and pending.queue.broker_name in self._client.routes.addresses:
            self._put(pending, pending.queue)
        elif choice is not None and not pending.ordered:
            self._put(pending, self.destinations.next_queue(choice))
        else:
            self._wait_for_route(pending)

    def _put(self, pending: PendingSend, queue: MessageQueue) -> None:
        pending.queue = queue
        pending.wire.queue_id = queue.queue_id
        self.destinations.sender(queue.broker_name).put(pending)

    # -- routes --------------------------------------------------------------------------------------------------

    def _wait_for_route(self, pending: PendingSend) -> None:
        self.backpressure.messages += 1
        self.backpressure.bytes += pending.size
        waiting = self._unrouted.get(pending.wire.topic)
        if waiting is None:
            self._unrouted[pending.wire.topic] = [pending]
            self._client.spawn(self._find_route(pending.wire.topic), f"route for {pending.wire.topic}")
        else:
            waiting.append(pending)

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
        """Release the sends that waited for a route, in their order."""
        sends = self._unrouted.pop(topic)
        self.backpressure.remove(len(sends), sum(pending.size for pending in sends))
        for pending in sends:
            if pending.future.done():
                continue
            if error is not None:
                pending.future.set_exception(copy_of(error))
            else:
                self._put(pending, self._queue_of(pending))

    def _queue_of(self, pending: PendingSend) -> MessageQueue:
        return pending.queue if pending.ordered else self.destinations.next_queue(self._choices[pending.wire.topic])

    # -- failures ------------------------------------------------------------------------------------------------

    def _troubled(self, pending: PendingSend, outcome: Outcome) -> None:
        """Try another broker, or set the caller's result."""
        if pending.future.done():
            return
        if pending.bundle is not None and not isinstance(outcome, SendResult):
            for number in range(pending.count):
                self._troubled(pending.bundle.alone(number, pending), copy_of(outcome))
            return
        if isinstance(outcome, SendResult):
            pending.poor_result = outcome
            if not self._settings.retry_another_broker_when_not_store_ok or not self._tried_again(pending):
                pending.future.set_result(outcome)
            return
        self._note(pending, outcome)
        if may_retry(outcome) and self._tried_again(pending):
            return
        if pending.poor_result is not None:
            pending.future.set_result(pending.poor_result)
        else:
            began_ms = pending.deadline_ms - pending.extension_ms - self._settings.send_msg_timeout_ms
            spent_ms = self._clock.uptime_ms() - began_ms
            pending.future.set_exception(final_error(pending, outcome, spent_ms))

    def _note(self, pending: PendingSend, error: StaticfireError) -> None:
        broker_name = pending.queue.broker_name
        pending.failures = [*(pending.failures or ()), (broker_name, error)]
        # A broker that rejects every send has become a slave.
        if isinstance(error, NetworkError) or (isinstance(error, BrokerAnswer) and REJECTED in error.remark):
            self._client.refresh_routes()
        self.destinations.note_failure(broker_name, error)

    def _tried_again(self, pending: PendingSend) -> bool:
        """Pass the message to another broker if attempts and time are left."""
        choice = self._choices.get(pending.queue.topic)
        uptime_ms = self._clock.uptime_ms()
        if pending.attempts_left == 0 or choice is None or uptime_ms >= pending.deadline_ms:
            return False
        pending.attempts_left -= 1
        pending.retried_ms = uptime_ms
        self._put(pending, self.destinations.next_queue(choice, pending.queue.broker_name))
        return True

    def close(self) -> None:
        """Stop following routes."""
        self.destinations.close()


def may_retry(error: StaticfireError) -> bool:
    """Whether another broker may accept what this one didn't. RocketMQ: retryResponseCodes."""
    return isinstance(error, NetworkError) or (isinstance(error, BrokerAnswer) and error.retryable)


def final_error(pending: PendingSend, error: StaticfireError, spent_ms: int) -> StaticfireError:
    """Return the caller's exception: of the last error's class, with all failures. Never a shared object."""
    failures = pending.failures or []
    if len(failures) == 1 and isinstance(error, BrokerAnswer):
        return error
    is_unknown = any(isinstance(failure, (ConnectionLost, AnswerTimeout)) for _, failure in failures)
    words = (
        f"message {pending.message_id.partition(',')[0]} for {pending.queue.topic} "
        f"{'was not confirmed and may be stored' if is_unknown else 'was not sent'}, attempts: "
        f"{len(failures)} in {spent_ms} ms: {'; '.join(f'{broker}: {failure}' for broker, failure in failures)}"
    )
    return copy_of(error, words)


def copy_of(error: StaticfireError, words: str | None = None) -> StaticfireError:
    """Return a copy of an exception: one shared by several callers would collect the tracebacks of all of them."""
    if isinstance(error, BrokerAnswer):
        return type(error)(error.code, words or error.remark)
    return type(error)(words or str(error))
