"""Known messages: how a restarted stream notices that a queue isn't the one that it has read.

Offsets alone don't identify messages. A new cluster at the same address, or a topic that was deleted and created again,
has messages at the same offsets. So a checkpoint also has, for each queue, when a message before its offset was stored.
If the queue has that offset, and the message there was stored at another time, the queue is another one. If retention
has removed the message, nothing is known.

If the known message is the newest one of its queue, the survey of the queues reports its time, for both RocketMQ and
staticfire. If the queue has grown since, one pull shows it: once for each queue after a start, and after a broker was
away. The other batches need no more requests.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.batch_plan import Survey
from staticfire.pipeline.errors import DataLost
from staticfire.pipeline.expressions import EVERYTHING
from staticfire.pipeline.link import ClusterLink
from staticfire.pipeline.offsets import KnownMessage, Offsets
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueRange
from staticfire.pipeline.pulls import PullAhead
from staticfire.protocol.durations import format_moment
from staticfire.protocol.record import decode_records
from staticfire.protocol.rocketmq_record import from_rocketmq
from staticfire.runtime.log import logger

log = logger("pipeline")

# Each of these pulls returns one message of up to some megabytes.
PULLS_AT_ONCE = 16

Known = dict[MessageQueue, KnownMessage]


class KnownMessages:
    """Compares the known messages of a checkpoint with the queues, and finds those of the next one."""

    def __init__(self, options: SourceOptions, link: ClusterLink) -> None:
        self._options = options
        self._link = link
        self._checked: set[MessageQueue] = set()
        self._foreign: Known = {}
        """Known messages that their queue doesn't have: what was read isn't there any more."""

    def forget_checks(self) -> None:
        """Check all queues again: their broker was away, and may be another one now."""
        self._checked.clear()

    def foreign(self, known: Known, there: Survey) -> set[MessageQueue]:
        """Return the queues whose known message is another one now. Raises: DataLost, if `failOnDataLoss` is set."""
        found: dict[MessageQueue, int | None] = {}
        unsure: Known = {}
        for queue, message in known.items():
            ends = there.get(queue)
            if ends is None or self._foreign.get(queue) == message:
                continue
            if message.queue_offset + 1 == ends.max_offset and ends.newest_ms > 0:
                found[queue] = ends.newest_ms
            elif queue not in self._checked and ends.min_offset <= message.queue_offset < ends.max_offset:
                unsure[queue] = message
        if unsure:
            found |= self._stored_ms({queue: message.queue_offset for queue, message in unsure.items()})
            self._checked |= unsure.keys()
        for queue, stored_ms in sorted(found.items()):
            if stored_ms is not None and stored_ms != known[queue].stored_ms:
                self._report(queue, known[queue], stored_ms)
        return {queue for queue, message in known.items() if self._foreign.get(queue) == message}

    def _report(self, queue: MessageQueue, message: KnownMessage, stored_ms: int) -> None:
        was, now = format_moment(message.stored_ms), format_moment(stored_ms)
        if self._options.fail_on_data_loss:
            raise DataLost(
                f"{queue}: the message at offset {message.queue_offset} was stored at {now}, but the query has read "
                f"one that was stored at {was}: this is another cluster, or the topic was deleted and created again. "
                "Start with a new checkpoint and output, or set failOnDataLoss=false to continue with the queue's "
                "first message"
            )
        log.warning("data_lost", queue=str(queue), offset=message.queue_offset, stored_at=now, read_at=was)
        self._foreign[queue] = message

    def of(self, begins: Offsets, ends: Offsets, there: Survey, known: Known) -> Known:
        """Return the known messages of a checkpoint with these ends. `known`: those of the one before.

        Only a queue of which no message is known, and that is not read up to its newest one, needs a request.
        """
        found: Known = {}
        wanted: Offsets = {}
        for queue, end in ends.items():
            now = there.get(queue)
            if now is not None and end == now.max_offset and now.newest_ms > 0:
                found[queue] = KnownMessage(end - 1, now.newest_ms)
            elif queue in known:
                found[queue] = known[queue]
            elif now is not None and now.min_offset < end <= now.max_offset and begins.get(queue, 0) < end:
                wanted[queue] = end - 1
        if wanted:
            times = self._stored_ms(wanted)
            found |= {q: KnownMessage(wanted[q], ms) for q, ms in times.items() if ms is not None}
        return found

    def _stored_ms(self, wanted: Offsets) -> Mapping[MessageQueue, int | None]:
        """Return when the messages at these offsets were stored; None if one is gone. Raises: SourceUnreachable."""
        options = replace(self._options, expression=EVERYTHING, fail_on_data_loss=False)

        async def ask(client: ClusterClient) -> Mapping[MessageQueue, int | None]:
            times: dict[MessageQueue, int | None] = {}
            for queues in _pieces(list(wanted)):
                pulls = (stored_ms_of(client, options, queue, wanted[queue]) for queue in queues)
                times |= dict(zip(queues, await asyncio.gather(*pulls), strict=True))
            return times

        return self._link.ask(ask)


def _pieces(queues: list[MessageQueue]) -> Iterable[list[MessageQueue]]:
    return (queues[at : at + PULLS_AT_ONCE] for at in range(0, len(queues), PULLS_AT_ONCE))


async def stored_ms_of(client: ClusterClient, options: SourceOptions, queue: MessageQueue, offset: int) -> int | None:
    """Return when the message at this offset was stored; None if it is gone. Raises: SourceUnreachable."""
    pulls = PullAhead(client, options, QueueRange(queue, offset, offset + 1))
    try:
        pulled = await pulls.take()
    finally:
        await pulls.stop()
    for body in pulled.bodies if pulled is not None else ():
        records = decode_records(body) if options.protocol == "staticfire" else [from_rocketmq(body, 0, False)[0]]
        for record in records:
            if record.queue_offset == offset:
                return record.stored_ms
    return None
