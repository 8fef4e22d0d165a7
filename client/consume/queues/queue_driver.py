"""Executes the instructions for queues: pulls over connections, timers, offsets, log lines.
RocketMQ: PullMessageService, DefaultMQPushConsumerImpl.pullMessage.

`queue_decisions.py` makes all decisions. There is no task per queue: the callback of a response passes it to the queue,
which usually returns the instruction to pull again. The broker holds a pull that finds nothing, so a new message
arrives here as soon as it is stored.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.condition_check import refuse_too_old
from staticfire.client.cluster.pull_answers import PullResult, packed_address, read_pull
from staticfire.client.cluster.routes import replica_to_read
from staticfire.client.cluster.subscriptions import TAG
from staticfire.client.consume.queues.consumer_state import ConsumerState
from staticfire.client.consume.queues.instructions import (
    Announce,
    Commit,
    Deliver,
    FindBrokers,
    ForgetOffset,
    GiveBack,
    Instructions,
    Leave,
    Pull,
    Tell,
    Wait,
)
from staticfire.client.consume.queues.queue_decisions import AssignedQueue
from staticfire.client.consume.queues.queue_timers import QueueTimers
from staticfire.client.consume.results.hooks import PullCall
from staticfire.client.offsets.offset_store import OffsetStore
from staticfire.protocol.command import Answer
from staticfire.protocol.errors import ClientError, NetworkError, ProtocolError, StaticfireError
from staticfire.protocol.messages import ReceivedMessage
from staticfire.protocol.requests.pull import FLAG_COMMIT_OFFSET, FLAG_SUBSCRIPTION, PullMessage
from staticfire.protocol.requests.routes import MASTER_ID
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger
from staticfire.runtime.pending_answers import Reply
from staticfire.runtime.service import Spawn

log = logger("client")

Queue = AssignedQueue[Any]


class Driver(Protocol):
    """Receives the instructions that follow from the results of listeners."""

    def carry_out(self, queue: Any, instructions: Instructions) -> None:
        """Execute the instructions for a queue. Its type is that of the queues that the listener was given."""


class Listening(Protocol):
    """Runs a consumer's listener."""

    @property
    def waiting(self) -> int:
        """The number of calls that have not begun."""

    @property
    def threads(self) -> int:
        """How many listener calls may run at once."""

    def resize(self, threads: int) -> None:
        """Allow this many concurrent listener calls from now on."""

    def submit(self, queue: Any, messages: Sequence[ReceivedMessage]) -> None:
        """Consume these messages; for an ordered queue, consume its next ones."""

    def give_back(self, queue: Any, overdue: GiveBack) -> None:
        """Send overdue messages back to a broker. Messages of ordered queues are never overdue."""

    def settle(self) -> None:
        """Report what is done to the queues, including finished calls of threads that are busy with later ones."""

    async def leave(self) -> None:
        """Start no new calls, and wait for the running ones, up to the limit of the settings."""


class QueueDriver:
    """The driver of one consumer's queues."""

    def __init__(
        self,
        state: ConsumerState,
        client: ClusterClient,
        offsets: OffsetStore,
        listen: Callable[[Driver], Listening],
        leave: Callable[[Queue, Leave], None],
        spawn: Spawn,
    ) -> None:
        """`listen`: makes the listener's part, which reports its results here. `leave`: removes a queue."""
        self.listening = listen(self)
        self._state = state
        self._client = client
        self._clock = client.machine.clock
        self._offsets = offsets
        self._leave = leave
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._hooks = state.hooks if state.hooks.hears_of("pull") else None
        self._requests: dict[Queue, PullMessage] = {}
        self._pulls: list[tuple[Queue, Pull]] = []
        self._timers = QueueTimers(self._clock, self.look)
        self._seldom: dict[type, Callable[[Queue, Any], None]] = {
            Announce: lambda queue, _: client.send_heartbeats(),
            FindBrokers: lambda queue, _: client.refresh_routes(),
            ForgetOffset: lambda queue, gone: offsets.topic_is_gone(queue.queue, gone.answered_by),
            GiveBack: lambda queue, overdue: self.listening.give_back(queue, overdue),
            Leave: leave,
            Tell: lambda queue, tell: (log.warning if tell.is_warning else log.info)(tell.event, **tell.fields),
            Wait: lambda queue, wait: self._timers.set(queue, wait.until_ms),
        }

    def carry_out(self, queue: Queue, instructions: Instructions) -> None:
        """Execute the instructions for a queue, in order."""
        for instruction in instructions:
            kind = type(instruction)
            if kind is Pull:
                self._pull(queue, instruction)  # type: ignore[arg-type]
            elif kind is Deliver:
                self.listening.submit(queue, instruction.messages)  # type: ignore[union-attr]
            elif kind is Commit:
                self._commit(queue, instruction)  # type: ignore[arg-type]
            else:
                self._seldom[kind](queue, instruction)

    def look(self, queue: Queue, uptime_ms: UptimeMs) -> None:
        """Let a queue do what is due. What is done must be reported before it looks for messages that take too long."""
        self.listening.settle()
        self.carry_out(queue, queue.time(uptime_ms))

    def uptime_ms(self) -> UptimeMs:
        """Return the clock's time, which events are passed with."""
        return self._clock.uptime_ms()

    def forget(self, queue: Queue) -> None:
        """Remove a queue. Responses that are still to come are ignored."""
        self._requests.pop(queue, None)
        self._timers.forget(queue)

    # -- pulls ---------------------------------------------------------------------------------------------------

    def _pull(self, queue: Queue, pull: Pull) -> None:
        """Send a pull at the end of this tick: the listener gets the messages of the previous pull first."""
        if not self._pulls:
            self._loop.call_soon(self._send_pulls)
        self._pulls.append((queue, pull))

    def _send_pulls(self) -> None:
        """Send the pulls of this tick, with one write per connection."""
        pulls, self._pulls = self._pulls, []
        used: dict[Connection, None] = {}
        for queue, pull in pulls:
            connection = None if queue.is_dropped or self._state.is_over else self._send_pull(queue, pull)
            if connection is not None:
                used[connection] = None
        for connection in used:
            connection.flush()

    def _send_pull(self, queue: Queue, pull: Pull) -> Connection | None:
        """Send a pull, and return the connection to flush; None if it must be opened first, or if the pull failed."""
        client = self._client
        replica = replica_to_read(client.routes.addresses, queue.queue.broker_name, pull.broker_id)
        connection = client.pool.open_connection(replica.address) if replica is not None else None
        if replica is None or connection is None:
            self._spawn(self._connect(queue, pull), f"connect for {queue.queue}")
            return None
        request = self._requests.get(queue) or self._new_request(queue)
        self._fill_in(request, pull, queue, connection, replica.broker_id)
        if replica.broker_id != queue.replica.read_at:
            self.carry_out(queue, queue.replica.moved_to(*replica))
        call = self._call_hooks_before(queue, pull) if self._hooks is not None else None
        try:
            if pull.subscription.tags is None:
                refuse_too_old(connection, pull.subscription.data.expression_type)
            answered = partial(self._answered, queue, pull, connection, call)
            connection.ask_for(request, self._state.settings.pull_timeout_ms, answered)
        except (NetworkError, ProtocolError, ClientError) as error:
            self._call_hooks_after(call, queue, error=error)
            self._failed(queue, error)
            return None
        return connection

    async def _connect(self, queue: Queue, pull: Pull) -> None:
        """Find the broker and connect; then let the queue decide again."""
        client = self._client
        try:
            await client.pool.connection(await client.address_to_read(queue.queue, pull.broker_id))
        except StaticfireError as error:
            self._failed(queue, error)
        else:
            self.carry_out(queue, queue.connected(self._clock.uptime_ms()))

    def _fill_in(self, request: PullMessage, pull: Pull, queue: Queue, connection: Connection, broker_id: int) -> None:
        data = pull.subscription.data
        request.queue_offset = pull.queue_offset
        way = self._state.way
        request.sys_flag = way.flags
        request.sub_version = data.sub_version if way.sends_version or data.expression_type != TAG else 0
        request.expression_type = data.expression_type
        if broker_id == MASTER_ID:  # Offsets belong to the master. At a slave, `persist` commits while it is away.
            request.commit_offset = self._offsets.ride_along(queue.queue, connection)
            if request.commit_offset:
                request.sys_flag |= FLAG_COMMIT_OFFSET
        else:
            request.commit_offset = 0
        if self._state.settings.post_subscription_when_pull:
            request.sys_flag |= FLAG_SUBSCRIPTION
            request.subscription = data.sub_string

    def _new_request(self, queue: Queue) -> PullMessage:
        settings = self._state.settings
        request = self._requests[queue] = self._state.way.request(
            consumer_group=self._state.group,
            topic=queue.queue.topic,
            queue_id=queue.queue.queue_id,
            queue_offset=0,
            max_msg_nums=settings.pull_batch_size,
            sys_flag=self._state.way.flags,
            suspend_timeout_millis=settings.broker_suspend_max_ms,
            max_msg_bytes=settings.pull_batch_size_in_bytes,
            bname=queue.queue.broker_name,
        )
        return request

    def _answered(
        self, queue: Queue, pull: Pull, connection: Connection, call: PullCall | None, outcome: Reply
    ) -> None:
        is_gone = queue.is_dropped or self._state.is_over
        if is_gone and call is None:
            return
        try:
            if not isinstance(outcome, Answer):
                raise outcome
            host = packed_address(connection.peer.address)
            result = read_pull(outcome, queue.queue, pull.subscription.tags, host)
        except StaticfireError as error:
            self._call_hooks_after(call, queue, error=error)
            if not is_gone:
                self._failed(queue, error, self._client.pool.address_of(connection))
        else:
            self._call_hooks_after(call, queue, result)
            if not is_gone:
                self.carry_out(queue, queue.pulled(result, self._clock.uptime_ms()))

    def _call_hooks_before(self, queue: Queue, pull: Pull) -> PullCall | None:
        assert self._hooks is not None
        call = PullCall(self._state.group, queue.queue, pull.queue_offset)
        self._hooks.call("before_pull", call)
        return call

    def _call_hooks_after(
        self, call: PullCall | None, queue: Queue, result: PullResult | None = None, error: Exception | None = None
    ) -> None:
        """Report the result of a pull to hooks, if there are hooks for pulls."""
        if call is None or self._hooks is None:
            return
        call.error, call.took_ms = error, self._clock.uptime_ms() - queue.last_pull_ms
        if result is not None:
            call.status, call.messages, call.next_offset = result.status, len(result.messages), result.next_offset
        self._hooks.call("after_pull", call)

    def _failed(self, queue: Queue, error: StaticfireError, answered_by: str = "") -> None:
        self._offsets.pull_failed(queue.queue)
        self.carry_out(queue, queue.pull_failed(error, self._clock.uptime_ms(), answered_by))

    # -- offsets -------------------------------------------------------------------------------------------------

    def _commit(self, queue: Queue, commit: Commit) -> None:
        self._offsets.update(queue.queue, commit.queue_offset, increase_only=not commit.may_go_back)
        if commit.is_drained:
            self._offsets.drained(queue.queue)

    async def let_pulls_commit(self, queues: Iterable[Queue]) -> None:
        """Wait for pulls in flight that carry an older offset: RocketMQ stores the last offset, not the highest."""
        self.listening.settle()
        behind = [
            (queue, request)
            for queue in queues
            if (request := self._requests.get(queue)) is not None
            and 0 < (request.commit_offset or 0) < self._offsets.memory(queue.queue)
        ]
        await asyncio.gather(*(self._overtake(queue, request.sub_version) for queue, request in behind))

    async def _overtake(self, queue: Queue, sub_version: int) -> None:
        """Wait until the broker has processed the last pull, which it may be holding.

        The broker processes pulls in order. So the response to a pull that may not be held comes after the earlier
        ones.
        """
        request = PullMessage(
            consumer_group=self._state.group,
            topic=queue.queue.topic,
            queue_id=queue.queue.queue_id,
            queue_offset=queue.next_offset,
            max_msg_nums=1,
            sys_flag=0,
            sub_version=sub_version,
            bname=queue.queue.broker_name,
        )
        with suppress(StaticfireError):
            await self._client.ask_broker(queue.queue, request, self._state.settings.offset_timeout_ms)
