"""Executes the instructions for popped queues: pops over connections, timers, acknowledgements, log lines.

`pop_queue.py` makes all decisions. RocketMQ: DefaultMQPushConsumerImpl.popMessage.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.condition_check import refuse_too_old
from staticfire.client.cluster.pull_answers import packed_address
from staticfire.client.cluster.routes import address_to_write
from staticfire.client.consume.popping.pop_queue import PopQueue
from staticfire.client.consume.popping.pop_returns import PopReturns
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.instructions import (
    Ack,
    Announce,
    Deliver,
    FindBrokers,
    GiveUp,
    Instructions,
    Pop,
    PutBack,
    Tell,
    Wait,
)
from staticfire.client.consume.queues.queue_driver import Driver, Listening
from staticfire.client.consume.queues.queue_timers import QueueTimers
from staticfire.client.pop.acknowledging import Acknowledging
from staticfire.client.pop.popped import PopSource, give_plain_topic, read_pop
from staticfire.client.pop.receiving import PopTarget, pop_request
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import ClientError, NetworkError, ProtocolError, StaticfireError
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.pending_answers import Reply
from staticfire.runtime.service import Spawn

log = logger("client")

# How much longer to wait for a pop's response than the broker may hold it.
HOLD_MARGIN_MS = 10_000


class PopDriver:
    """The driver of one consumer's popped queues."""

    def __init__(
        self,
        state: ConsumerState,
        client: ClusterClient,
        acknowledging: Acknowledging,
        returns: PopReturns,
        listen: Callable[[Driver], Listening],
        spawn: Spawn,
    ) -> None:
        """`listen`: makes the listener's part, which reports its results here."""
        self.listening = listen(self)
        self._state = state
        self._client = client
        self._clock = client.machine.clock
        self._acknowledging = acknowledging
        self._spawn = spawn
        self._timers = QueueTimers(self._clock, lambda queue, now_ms: self.carry_out(queue, queue.time(now_ms)))
        self._saying: dict[asyncio.Task[None], None] = {}
        """Requests to brokers about messages that are in flight."""
        self._acts: dict[type, Callable[[PopQueue, Any], None]] = {
            Ack: lambda _, ack: self._say(self._ack(ack.messages), "acknowledge"),
            Announce: lambda *_: client.send_heartbeats(),
            Deliver: lambda queue, deliver: self.listening.submit(queue, deliver.messages),
            FindBrokers: lambda *_: client.refresh_routes(),
            GiveUp: lambda _, up: self._say(self._each(returns.give_up, up.messages), "give up"),
            Pop: self._pop,
            PutBack: lambda _, back: self._say(self._each(returns.put_back, back.messages), "put back"),
            Tell: lambda _, tell: (log.warning if tell.is_warning else log.info)(tell.event, **tell.fields),
            Wait: lambda queue, wait: self._timers.set(queue, wait.until_ms),
        }

    def carry_out(self, queue: Any, instructions: Instructions) -> None:
        """Execute the instructions for a queue, in order."""
        for instruction in instructions:
            self._acts[type(instruction)](queue, instruction)

    def uptime_ms(self) -> UptimeMs:
        """Return the clock's time, which events are passed with."""
        return self._clock.uptime_ms()

    def forget(self, queue: PopQueue) -> None:
        """Cancel a queue's timer."""
        self._timers.forget(queue)

    # -- pops ----------------------------------------------------------------------------------------------------

    def _pop(self, queue: PopQueue, pop: Pop) -> None:
        client = self._client
        address = address_to_write(client.routes.addresses, queue.queue.broker_name)
        connection = client.pool.open_connection(address) if address is not None else None
        if connection is None:
            self._spawn(self._connect(queue, pop), f"connect for {queue.queue}")
        else:
            self._send(queue, pop, connection)

    async def _connect(self, queue: PopQueue, pop: Pop) -> None:
        client = self._client
        try:
            connection = await client.pool.connection(await client.address_to_write(queue.queue))
        except StaticfireError as error:
            self.carry_out(queue, queue.pop_failed(error, self.uptime_ms()))
        else:
            self._send(queue, pop, connection)

    def _send(self, queue: PopQueue, pop: Pop, connection: Connection) -> None:
        settings, mq = self._state.settings, queue.queue
        target = PopTarget(mq.topic, mq.broker_name)
        from_where = settings.consume_from_where
        request = pop_request(self._state.group, target, mq.queue_id, pop.subscription, from_where)
        request.max_msg_nums, request.invisible_time = settings.pop_batch_nums, settings.pop_invisible_time_ms
        request.poll_time = settings.broker_suspend_max_ms
        try:
            refuse_too_old(connection, pop.subscription.data.expression_type)
            timeout_ms = request.poll_time + HOLD_MARGIN_MS
            connection.ask_for(request, timeout_ms, partial(self._answered, queue, connection))
            connection.flush()
        except (NetworkError, ProtocolError, ClientError) as error:
            self.carry_out(queue, queue.pop_failed(error, self.uptime_ms()))

    def _answered(self, queue: PopQueue, connection: Connection, outcome: Reply) -> None:
        mq, uptime_ms = queue.queue, self.uptime_ms()
        try:
            if not isinstance(outcome, Answer):
                raise outcome
            host = packed_address(connection.peer.address)
            result = read_pop(outcome, PopSource(self._state.group, mq.topic, mq.broker_name, host), uptime_ms)
        except StaticfireError as error:
            self.carry_out(queue, queue.pop_failed(error, uptime_ms))
        else:
            if self._client.namespace.name:
                give_plain_topic(result.messages, self._client.namespace.unwrap(mq.topic))
            self.carry_out(queue, queue.popped(result, uptime_ms))

    # -- acknowledgements and returns ------------------------------------------------------------------------------

    def _say(self, saying: Any, what: str) -> None:
        task = self._spawn(saying, f"{what} for {self._state.group}")
        self._saying[task] = None
        task.add_done_callback(self._saying.pop)

    async def _ack(self, messages: Sequence[Any]) -> None:
        try:
            await self._acknowledging.ack_all(messages)
        except StaticfireError as error:
            log.warning("not_acknowledged", group=self._state.group, messages=len(messages), reason=str(error))

    async def _each(self, act: Callable[[Any], Awaitable[None]], messages: Sequence[Any]) -> None:
        outcomes = await asyncio.gather(*map(act, messages), return_exceptions=True)
        for message, outcome in zip(messages, outcomes, strict=True):
            if isinstance(outcome, StaticfireError):
                log.warning(
                    "left_to_its_time", group=self._state.group, message_id=message.message_id, reason=str(outcome)
                )  # fmt: skip
            elif isinstance(outcome, BaseException):
                raise outcome

    async def idle(self) -> None:
        """Return when all requests to brokers have ended, successful or not."""
        while self._saying:
            await asyncio.wait(list(self._saying))
