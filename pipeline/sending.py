"""Send the rows of one task: several sends in flight while Spark makes the next rows. Runs on the link's event loop.

Invariant: a row for a specific queue is sent when each earlier one for that queue is stored, or skipped for good. If a
failed row is the end of the task, no later one for its queue is sent. So the first copies are in the order of the
partition, also if a task is retried.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from staticfire.client import Message, MessageQueue, Producer, ProducerSettings
from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.produce.selectors import by_hash
from staticfire.pipeline.errors import RowHeldBack, RowsNotSent
from staticfire.pipeline.row_messages import RowError, RowMessage
from staticfire.pipeline.sink_options import SinkOptions
from staticfire.protocol.errors import (
    AnswerTimeout,
    ConnectFailed,
    ConnectionLost,
    NoMaster,
    StaticfireError,
    SystemBusy,
    UsageError,
)
from staticfire.protocol.times import UptimeMs

EXAMPLES_MAX = 3
TRY_AGAIN_MS = 200

Send = Callable[[Sequence[Message]], Awaitable[Sequence[object]]]


def _passes(error: StaticfireError) -> bool:
    """Return whether an error is temporary: a broker is away or busy. A nameserver that never responded isn't."""
    if isinstance(error, RowHeldBack):
        error = error.cause
    return isinstance(error, ConnectFailed | ConnectionLost | AnswerTimeout | SystemBusy | NoMaster)


class SentRows(msgspec.Struct):
    """The result of sending rows."""

    sent: int = 0
    failed: int = 0
    examples: list[str] = []
    """Some of the rows that weren't sent, with the reasons."""

    def add(self, other: "SentRows") -> None:
        """Add the result of another task."""
        self.sent += other.sent
        self.failed += other.failed
        self.examples = [*self.examples, *other.examples][:EXAMPLES_MAX]

    def fail(self, words: str) -> None:
        """Count one row that wasn't sent."""
        self.failed += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(words)

    def __str__(self) -> str:
        if not self.failed:
            return f"{self.sent:,} rows sent"
        return f"{self.failed:,} of {self.sent + self.failed:,} rows not sent, for example {'; '.join(self.examples)}"


class RowSender:
    """Sends the rows of one task."""

    def __init__(self, client: ClusterClient, options: SinkOptions) -> None:
        self._options = options
        settings = ProducerSettings(send_msg_timeout_ms=options.send_timeout_ms)
        self._producer = Producer(options.group, settings=settings, client=client)
        self._client = client
        self._queues: dict[str, list[MessageQueue]] = {}
        self._routed: set[str] = set()
        """The topics whose routes this task has fetched."""
        self._under_way: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()
        """Held while a slice's rows for specific queues are sent: those of later slices wait."""
        self.rows = SentRows()
        self._crash: BaseException | None = None

    async def open(self) -> "RowSender":
        """Start the producer. Raises: NetworkError."""
        await self._producer.__aenter__()
        return self

    async def offer(self, rows: Sequence[RowMessage | RowError]) -> None:
        """Send rows. If too many sends are in flight, wait for one of them first.

        Raises: RowsNotSent, and what has ended an earlier send unexpectedly.
        """
        while len(self._under_way) >= self._options.sends_in_flight:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
        self._check()
        await self._fetch_routes({row.message.topic for row in rows if isinstance(row, RowMessage)})
        task = asyncio.create_task(self._send(rows), name="rows to messages")
        self._under_way.add(task)
        task.add_done_callback(self._ended)

    async def _fetch_routes(self, topics: set[str]) -> None:
        """Fetch routes once per task: its client is older, and may know queues that were added or removed since."""
        new = sorted(topics - self._routed)
        self._routed.update(new)
        await asyncio.gather(*map(self._fetch_route, new))

    async def _fetch_route(self, topic: str) -> None:
        with suppress(StaticfireError):  # The sends use the known route, or report the problem.
            await self._client.routes.fetch(topic)

    async def finish(self) -> SentRows:
        """Wait until all rows are settled; return the result. Raises: as `offer`."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._check()
        return self.rows

    async def close(self) -> None:
        """Cancel the sends in flight, and stop the producer."""
        for task in list(self._under_way):
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)
        await self._producer.__aexit__(None, None, None)

    @property
    def _has_failed(self) -> bool:
        """Whether the task fails, so that Spark may retry it from its first row."""
        return self.rows.failed > 0 and self._options.fail_on_error

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._under_way.discard(task)
        error = None if task.cancelled() else task.exception()
        self._crash = self._crash or error

    def _check(self) -> None:
        if self._crash is not None:  # Its rows count neither as sent nor as failed.
            raise self._crash
        if self._has_failed:
            raise RowsNotSent(f"{self.rows}; set failOnError=false to skip such rows")

    async def _send(self, rows: Sequence[RowMessage | RowError]) -> None:
        """Send rows: first those for specific queues, in order, then those for any queue, in bulk."""
        plain: list[Message] = []
        placed: list[RowMessage] = []
        for row in rows:
            if isinstance(row, RowError):
                self.rows.fail(str(row))
            elif row.queue is None and row.ordering_key is None:
                plain.append(row.message)
            else:
                placed.append(row)
        if placed:
            # Tasks start in the order of `offer`. So they take the lock in that order, if they wait for nothing before.
            async with self._in_order:
                await self._send_placed(placed)
        if plain:
            await self._settle(plain, self._send_plain, self._deadline_ms())

    async def _send_placed(self, rows: Sequence[RowMessage]) -> None:
        """Send rows to their queues, to all of these at the same time."""
        by_queue: dict[MessageQueue, list[Message]] = {}
        deadline_ms = self._deadline_ms()
        for row in rows:
            try:
                queue = await self._place(row, deadline_ms)
            except StaticfireError as error:
                self.rows.fail(f"{row.message}: {error}")
            else:
                by_queue.setdefault(queue, []).append(row.message)
        if self._has_failed:
            return
        async with asyncio.TaskGroup() as sends:
            for queue, messages in by_queue.items():
                sends.create_task(self._settle(messages, partial(self._send_in_order, queue), deadline_ms))

    async def _send_in_order(self, queue: MessageQueue, messages: Sequence[Message]) -> Sequence[object]:
        """Send messages to one queue, one after the other. After one that may be retried, hold back the others."""
        outcomes: list[object] = []
        for message in messages:
            try:
                outcomes.append(await self._producer.send(message, queue=queue))
            except StaticfireError as error:
                outcomes.append(error)
                if _passes(error) or self._options.fail_on_error:
                    held_back = RowHeldBack(error)
                    return outcomes + [held_back] * (len(messages) - len(outcomes))
        return outcomes

    async def _send_plain(self, messages: Sequence[Message]) -> Sequence[object]:
        return await self._producer.send_many(messages, return_exceptions=True)

    def _deadline_ms(self) -> UptimeMs:
        """Return the deadline of rows that are sent now."""
        return UptimeMs(self._client.machine.clock.uptime_ms() + self._options.send_timeout_ms)

    def _may_wait(self, deadline_ms: UptimeMs) -> bool:
        """Return whether there is time for another attempt."""
        return self._client.machine.clock.uptime_ms() + TRY_AGAIN_MS < deadline_ms

    async def _settle(self, messages: Sequence[Message], send: Send, deadline_ms: UptimeMs) -> None:
        """Send until all messages are sent or failed.

        If a broker is away, the producer itself gives up within milliseconds, so this retries until the deadline.
        """
        while messages:
            outcomes = await send(messages)
            messages = self._note(messages, outcomes, self._may_wait(deadline_ms))
            if messages:
                await self._client.pause_for(TRY_AGAIN_MS)

    def _note(self, messages: Sequence[Message], outcomes: Sequence[object], may_wait: bool) -> list[Message]:
        """Count the results; return the messages to retry."""
        again: list[Message] = []
        for message, outcome in zip(messages, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                self.rows.sent += 1
            elif not isinstance(outcome, StaticfireError):
                raise outcome
            elif may_wait and _passes(outcome):
                again.append(message)
            else:
                self.rows.fail(f"{message}: {outcome}")
        return again

    async def _place(self, row: RowMessage, deadline_ms: UptimeMs) -> MessageQueue:
        """Return the queue that a row specifies. Raises: UsageError, and as `_find_queues`."""
        topic = row.message.topic
        if topic not in self._queues:
            self._queues[topic] = await self._find_queues(topic, deadline_ms)
        queues = self._queues[topic]
        if row.queue is None:
            return by_hash(queues, row.message, row.ordering_key)
        if not 0 <= row.queue < len(queues):
            raise UsageError(f"queue={row.queue}: topic {topic} has the queues 0 to {len(queues) - 1}")
        return queues[row.queue]

    async def _find_queues(self, topic: str, deadline_ms: UptimeMs) -> list[MessageQueue]:
        """Return the queues of a topic, sorted; wait for a master. Raises: TopicNotFound, NetworkError, ClientError."""
        while True:
            try:
                return sorted(await self._producer.queues(topic))
            except NoMaster:
                if not self._may_wait(deadline_ms):
                    raise
            await self._client.pause_for(TRY_AGAIN_MS)
