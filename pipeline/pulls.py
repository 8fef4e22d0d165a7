"""Reads a range of a queue ahead of whoever uses it: whole answers, in order, up to a bound.

Pulling goes on in the link's thread while the reader makes columns of what came before. An answer's records stay in one
piece. What is handed out covers the range exactly once, whatever happens to connections and brokers: the next offset
is known from the answers alone, so a pull that failed is simply sent again.
"""

import asyncio
from typing import NamedTuple

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.consume.pull_answers import packed_address
from staticfire.pipeline.errors import DataLost, SourceUnreachable
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.survey import RETRY_PAUSE_MS
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.errors import BrokerAnswer, NetworkError, StaticfireError, TopicNotFound, broker_answer
from staticfire.protocol.requests.pull import FLAG_SUBSCRIPTION, PullAnswer, WholePull, WholePullAnswer
from staticfire.protocol.times import UptimeMs
from staticfire.runtime.log import logger

log = logger("pipeline")

AHEAD_BYTES_MAX = 4 * 1024 * 1024
# Of answers that the reader has not taken.

HANDED_BYTES = 1024 * 1024
# The reader is given at least this much at a time: each time costs a switch of threads, and some thousand
# messages make as many calls of numpy and Arrow as one.

_FOUND = int(ResponseCode.SUCCESS)
_ANSWERS = {
    _FOUND,
    int(ResponseCode.PULL_NOT_FOUND),
    int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    int(ResponseCode.PULL_OFFSET_MOVED),
}


class Pulled(NamedTuple):
    """Answers of a range, and the broker's address (8 or 20 bytes) for records that don't carry it."""

    bodies: list[bytes]
    broker_host: bytes


class PullAhead:
    """Pulls one range. Lives on the link's loop; `take` is called from there, too."""

    def __init__(self, client: ClusterClient, options: SourceOptions, wanted: QueueRange) -> None:
        self._client = client
        self._options = options
        self._wanted = wanted
        self._bodies: list[bytes] = []
        self._bytes = 0
        self._broker_host = b""
        self._changed = asyncio.Condition()
        self._task = asyncio.get_running_loop().create_task(self._pull_loop(), name=f"pull {wanted}")
        self._task.add_done_callback(self._ended)

    async def take(self) -> Pulled | None:
        """Return what was pulled meanwhile, None at the end. Raises: DataLost, SourceUnreachable, ProtocolError."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._bytes >= HANDED_BYTES or self._task.done())
            bodies, self._bodies, self._bytes = self._bodies, [], 0
            self._changed.notify_all()
        if bodies:
            return Pulled(bodies, self._broker_host)
        self._task.result()
        return None

    async def stop(self) -> None:
        """Pull no more."""
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _pull_loop(self) -> None:
        _, offset, end = self._wanted
        while offset < end:
            answer = await self._pull_patiently(offset)
            if answer.code == _FOUND:
                await self._put(answer.body)
                self._check_progress(offset, answer)
                offset = answer.next_begin_offset
            else:
                offset = self._after_nothing(offset, answer)

    def _ended(self, _: asyncio.Task[None]) -> None:
        self._last_news = asyncio.get_running_loop().create_task(self._notify())

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
                f"{self._wanted}: the broker answers offset {offset}, and calls {answer.next_begin_offset} the next"
            )

    def _after_nothing(self, offset: int, answer: PullAnswer) -> int:
        """Return where to go on behind messages that aren't wanted, or are gone. Raises: DataLost."""
        following = answer.next_begin_offset
        if answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and following > offset:
            return following
        there = f"the broker has {answer.min_offset} to {answer.max_offset}"
        going_on = following if following > offset else self._wanted.end
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{self._wanted.queue}: wanted offsets {offset} to {self._wanted.end}, {there}; messages were removed "
                "(retention, or a broker that lost its disk). To read what is left set failOnDataLoss=false"
            )
        log.warning("data_lost", queue=str(self._wanted.queue), wanted=offset, there=there, going_on=going_on)
        return going_on

    async def _pull_patiently(self, offset: int) -> PullAnswer:
        """Pull, again and again while the broker is away. Raises: SourceUnreachable."""
        uptime_ms = self._client.machine.clock.uptime_ms
        deadline_ms = UptimeMs(uptime_ms() + self._options.reconnect_timeout_ms)
        while True:
            try:
                return await self._pull(offset)
            except (NetworkError, BrokerAnswer) as error:
                is_refusal = isinstance(error, BrokerAnswer) and not error.retryable
                if is_refusal or uptime_ms() >= deadline_ms:
                    raise SourceUnreachable(self._given_up(offset, error, is_refusal)) from None
                log.info("pull_failed", queue=str(self._wanted.queue), offset=offset, reason=str(error))
            await self._client.pause_for(RETRY_PAUSE_MS)
            await self._refresh_route()

    def _given_up(self, offset: int, error: StaticfireError, is_refusal: bool) -> str:
        queue, _, end = self._wanted
        if is_refusal:
            return f"{queue}: the broker refuses offsets {offset} to {end}: {error}"
        tried_ms = self._options.reconnect_timeout_ms
        return (
            f"{queue}: offsets {offset} to {end} can't be read, tried for {tried_ms} ms (reconnectTimeoutMs): {error}; "
            f"is broker {queue.broker_name} running, and can this machine reach it?"
        )

    async def _refresh_route(self) -> None:
        try:
            await self._client.routes.fetch(self._wanted.queue.topic)
        except (NetworkError, TopicNotFound):
            pass  # The next pull tells what is missing.

    async def _pull(self, offset: int) -> PullAnswer:
        queue, _, end = self._wanted
        options = self._options
        request = WholePull(
            consumer_group=options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=min(options.pull_batch_size, end - offset),
            sys_flag=FLAG_SUBSCRIPTION,
            subscription=options.sub_expression,
            expression_type="TAG",
            bname=queue.broker_name,
        )
        connection = await self._client.pool.connection(await self._client.address_to_read(queue))
        answer = await connection.ask(request, options.pull_timeout_ms)
        if answer.code not in _ANSWERS or not isinstance(answer, WholePullAnswer):
            raise broker_answer(answer.code, answer.remark, f"pull {queue} at {connection.peer.address}")
        self._broker_host = packed_address(connection.peer.address)
        return answer
