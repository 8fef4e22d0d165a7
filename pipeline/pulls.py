"""Read a range of a queue ahead of the reader: whole pull responses, in order, up to a limit.

Pulls run in the link's thread while the reader makes columns of earlier responses. The records of a response are kept
in one piece. Together, the responses cover the range exactly once, whatever happens to connections and brokers: the
next offset comes only from the responses, so a failed pull is simply sent again.

If the query wants all messages, offsets tell how many messages a pull returns. Then the range is read in stretches of
several pulls each, several stretches at the same time, and the responses are put in order. Otherwise the next offset is
known only from each response, so there is one pull after another.
"""

import asyncio
from collections import deque
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.pull_answers import packed_address
from staticfire.client.cluster.routes import address_to_write
from staticfire.pipeline.errors import DataLost, SourceUnreachable
from staticfire.pipeline.expressions import SQL92
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.survey import RETRY_PAUSE_MS
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import (
    BrokerAnswer,
    ConnectFailed,
    NetworkError,
    StaticfireError,
    TopicNotFound,
    broker_answer,
)
from staticfire.protocol.remarks import no_property_filter
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullAnswer, WholePull, WholePullAnswer
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.connection import Connection
from staticfire.runtime.log import logger

log = logger("pipeline")

_confirmed_of: WeakKeyDictionary[ClusterClient, dict[str, Connection]] = WeakKeyDictionary()

# The size of the responses that the reader hasn't taken yet.
AHEAD_BYTES_MAX = 4 * 1024 * 1024

# The reader gets at least this much at a time: each time costs a switch of threads, and numpy and Arrow need as many
# calls for thousands of messages as for one.
HANDED_BYTES = 1024 * 1024

# A stretch has this many times the messages of the first response, so that most of its pulls are full ones.
STRETCH_ANSWERS = 4
# Fewer if responses are large, since stretches in flight don't count as pulled ahead.
STRETCH_BYTES_MAX = 1024 * 1024

_FOUND = int(ResponseCode.SUCCESS)
_ANSWERS = {
    _FOUND,
    int(ResponseCode.PULL_NOT_FOUND),
    int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    int(ResponseCode.PULL_OFFSET_MOVED),
}


class Pulled(NamedTuple):
    """Responses of a range, and the broker's address (8 or 20 bytes) for records that don't contain it."""

    bodies: list[bytes]
    broker_host: bytes


class PullAhead:
    """Pulls one range. It runs on the link's event loop, where `take` must be called, too."""

    def __init__(self, client: ClusterClient, options: SourceOptions, wanted: QueueRange) -> None:
        self._client = client
        self._options = options
        self._wanted = wanted
        self._bodies: list[bytes] = []
        self._bytes = 0
        self._broker_host = b""
        self._connection: Connection | None = None
        """The connection of this task's pulls, if no fresh route has confirmed it."""
        self._changed = asyncio.Condition()
        self._task = asyncio.get_running_loop().create_task(self._pull_loop(), name=f"pull {wanted}")
        self._task.add_done_callback(self._ended)

    async def take(self) -> Pulled | None:
        """Return the responses since the last call, or None at the end.

        Raises: DataLost, SourceUnreachable, ProtocolError.
        """
        async with self._changed:
            await self._changed.wait_for(lambda: self._bytes >= HANDED_BYTES or self._task.done())
            bodies, self._bodies, self._bytes = self._bodies, [], 0
            self._changed.notify_all()
        if bodies:
            return Pulled(bodies, self._broker_host)
        self._task.result()
        return None

    async def stop(self) -> None:
        """Stop pulling."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _pull_loop(self) -> None:
        """Pull one response after another or, if all messages are wanted, several stretches at the same time.

        If the query filters messages, only a response says where the next one starts.
        """
        _, offset, end = self._wanted
        may_split = self._options.expression.wants_all and self._options.pulls_in_flight > 1
        while offset < end:
            answers: list[bytes] = []
            following = await self._pull_one(offset, end, answers)
            for body in answers:
                await self._put(body)
            if answers and may_split:
                messages = min(following - offset, self._options.pull_batch_size)
                at_once = max(1, min(STRETCH_ANSWERS, STRETCH_BYTES_MAX // max(1, len(answers[0]))))
                return await self._pull_side_by_side(following, messages * at_once)
            offset = following

    async def _pull_side_by_side(self, offset: int, stretch: int) -> None:
        """Pull stretches of `stretch` messages at the same time, and put their responses in order.

        A stretch may reach beyond its end if messages are gone, or if a broker returns others instead of damaged ones.
        Then the stretches after it are dropped and requested again from the new position.
        """
        end = self._wanted.end
        under_way: deque[tuple[int, asyncio.Task[tuple[list[bytes], int]]]] = deque()
        try:
            while offset < end or under_way:
                while offset < end and len(under_way) < self._options.pulls_in_flight:
                    following = min(end, offset + stretch)
                    task = asyncio.get_running_loop().create_task(self._pull_stretch(offset, following))
                    under_way.append((following, task))
                    offset = following
                answers, reached = await under_way[0][1]
                for body in answers:
                    await self._put(body)
                requested_to, _ = under_way.popleft()
                if reached > requested_to:
                    await _drop(under_way)
                    offset = reached
        finally:
            await _drop(under_way)

    async def _pull_stretch(self, offset: int, end: int) -> tuple[list[bytes], int]:
        """Return the responses of a stretch, and the next offset."""
        answers: list[bytes] = []
        while offset < end:
            offset = await self._pull_one(offset, end, answers)
        return answers, offset

    async def _pull_one(self, offset: int, end: int, answers: list[bytes]) -> int:
        """Pull once, add the response to `answers`, and return the next offset."""
        answer = await self._pull_patiently(offset, end)
        if answer is None:
            return end
        if answer.code != _FOUND:
            return self._after_nothing(offset, end, answer)
        self._check_progress(offset, answer)
        answers.append(answer.body)
        return answer.next_begin_offset

    def _ended(self, _: asyncio.Task[None]) -> None:
        # The loop itself wouldn't keep the task.
        self._last_news = asyncio.get_running_loop().create_task(self._notify())  # house: kept, never read

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _put(self, body: bytes) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._bytes < AHEAD_BYTES_MAX)
            self._bodies.append(body)
            self._bytes += len(body)
            self._changed.notify_all()

    def _check_progress(self, offset: int, answer: PullAnswer) -> None:
        if answer.next_begin_offset <= offset:
            raise SourceUnreachable(
                f"{self._wanted}: the broker responded to offset {offset} with the next offset "
                f"{answer.next_begin_offset}"
            )

    def _after_nothing(self, offset: int, end: int, answer: PullAnswer) -> int:
        """Return the next offset after messages that are filtered out or gone. Raises: DataLost."""
        following = answer.next_begin_offset
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and following > offset:
            return following
        there = f"the broker has {answer.min_offset} to {answer.max_offset}"
        going_on = following if following > offset else end
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{self._wanted.queue}: wanted offsets {offset} to {self._wanted.end}, {there}; messages were removed "
                "(by retention, or the broker lost its disk). To read the remaining messages set failOnDataLoss=false"
            )
        log.warning("data_lost", queue=str(self._wanted.queue), wanted=offset, there=there, going_on=going_on)
        return going_on

    async def _pull_patiently(self, offset: int, end: int) -> PullAnswer | None:
        """Pull, and retry while the broker is away. Return None if the topic is gone.

        Raises: SourceUnreachable, DataLost.
        """
        uptime_ms = self._client.machine.clock.uptime_ms
        deadline_ms = UptimeMs(uptime_ms() + self._options.reconnect_timeout_ms)
        while True:
            try:
                return await self._pull(offset, end)
            except (NetworkError, BrokerAnswer) as error:
                is_refusal = isinstance(error, BrokerAnswer) and (not error.retryable or _is_by_tags_alone(error))
                if isinstance(error, TopicNotFound) and uptime_ms() >= deadline_ms:
                    self._tell_without_topic(offset, error)
                    return None
                if is_refusal or uptime_ms() >= deadline_ms:
                    raise SourceUnreachable(self._given_up(offset, error, is_refusal)) from None
                log.info("pull_failed", queue=str(self._wanted.queue), offset=offset, reason=str(error))
            self._connection = None
            self._confirmed().pop(self._wanted.queue.broker_name, None)
            await self._client.pause_for(RETRY_PAUSE_MS)

    def _tell_without_topic(self, offset: int, error: TopicNotFound) -> None:
        """Log that the rest of the range is gone. Raises: DataLost."""
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{self._wanted.queue}: wanted offsets {offset} to {self._wanted.end}, and the topic no longer exists: "
                f"{error.remark}. To continue without it set failOnDataLoss=false"
            )
        log.warning("data_lost", queue=str(self._wanted.queue), wanted=offset, reason=str(error))

    def _given_up(self, offset: int, error: StaticfireError, is_refusal: bool) -> str:
        queue, _, end = self._wanted
        if _is_by_tags_alone(error):
            return (
                f"expression={self._options.expression.text}: broker {queue.broker_name} filters only by tags, because "
                f"it has enablePropertyFilter=false: turn it on there, or filter in Spark ({error})"
            )
        if is_refusal:
            return f"{queue}: the broker rejects offsets {offset} to {end}: {error}"
        tried_ms = self._options.reconnect_timeout_ms
        return (
            f"{queue}: offsets {offset} to {end} can't be read, tried for {tried_ms} ms (reconnectTimeoutMs): {error}; "
            f"check that broker {queue.broker_name} is running and that this machine can connect to it"
        )

    async def _connect(self) -> tuple[str, Connection]:
        """Return the broker's address and connection. Fetch the route before the first pull over a connection.

        A worker's client is older than its tasks, and brokers may have been started again with each other's addresses.
        A broker responds to pulls that are meant for another one, too.

        Raises: ConnectFailed (no such broker), TopicNotFound, NetworkError.
        """
        queue, pool, confirmed = self._wanted.queue, self._client.pool, self._confirmed()
        address = await self._client.address_to_read(queue)
        current = pool.open_connection(address)
        if current is None or current not in (self._connection, confirmed.get(queue.broker_name)):
            is_fresh = await self._refresh_route()
            address = await self._client.address_to_read(queue)
            self._connection = await pool.connection(address)
            if is_fresh:
                confirmed[queue.broker_name] = self._connection
        return address, await pool.connection(address)

    def _confirmed(self) -> dict[str, Connection]:
        """Return the connections of this client that led to a broker by a fresh route, by the broker's name."""
        return _confirmed_of.setdefault(self._client, {})

    async def _refresh_route(self) -> bool:
        """Fetch the route; return False if that fails: the next pull uses the known route, or reports the problem."""
        try:
            await self._client.routes.fetch(self._wanted.queue.topic)
        except StaticfireError:
            return False
        return True

    async def _pull(self, offset: int, end: int) -> PullAnswer:
        queue, options = self._wanted.queue, self._options
        request = WholePull(
            consumer_group=options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=min(options.pull_batch_size, end - offset),
            sys_flag=FLAG_SUBSCRIPTION,
            subscription=options.expression.text,
            expression_type=options.expression.kind,
            bname=queue.broker_name,
        )
        address, connection = await self._connect()
        answer = await connection.ask(request, options.pull_timeout_ms)
        if answer.code not in _ANSWERS or not isinstance(answer, WholePullAnswer):
            raise broker_answer(answer.code, answer.remark, f"pull {queue} at {connection.peer.address}")
        if answer.code != _FOUND and answer.max_offset <= offset:
            await self._check_master(address, answer.max_offset)
        self._broker_host = packed_address(connection.peer.address)
        return answer

    async def _check_master(self, address: str, end: int) -> None:
        """Check that no later messages exist: a slave may lack some. Raises: ConnectFailed (ask the master instead)."""
        await self._refresh_route()
        name = self._wanted.queue.broker_name
        if address != address_to_write(self._client.routes.addresses, name):
            raise ConnectFailed(f"{address} has only messages before offset {end}, and isn't the master of {name}")


async def _drop(under_way: deque[tuple[int, asyncio.Task[Any]]]) -> None:
    tasks = [task for _, task in under_way]
    under_way.clear()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _is_by_tags_alone(error: StaticfireError) -> bool:
    """Return whether a broker accepts no conditions. It responds with SYSTEM_ERROR, which looks temporary."""
    return isinstance(error, BrokerAnswer) and no_property_filter(SQL92) in error.remark
