"""The plan of a batch query: the offset ranges that it reads. It is made once, when Spark plans the query."""

from collections.abc import Callable

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.pipeline.errors import DataLost
from staticfire.pipeline.offsets import (
    EARLIEST,
    EARLIEST_NUMBER,
    LATEST,
    LATEST_NUMBER,
    GivenOffsets,
    Offsets,
    unknown_queues,
)
from staticfire.pipeline.options import Boundary, SourceOptions
from staticfire.pipeline.planning import Loss, QueueEnds, QueueRange, plan_reads, resolve, split
from staticfire.pipeline.survey import all_topics, find_at, find_ends, patiently, wanted_queues, while_busy
from staticfire.pipeline.topic_pattern import TopicPattern
from staticfire.protocol.errors import UsageError
from staticfire.runtime.log import logger

log = logger("pipeline")

NAMES_SHOWN_MAX = 20

Survey = dict[MessageQueue, QueueEnds]


async def survey(client: ClusterClient, options: SourceOptions) -> Survey:
    """Return all queues of the topics with their first and last offsets. Raises: SourceUnreachable, NetworkError."""

    async def find() -> list[MessageQueue]:
        return await wanted_queues(client, options)

    queues = await while_busy(client, options, find)

    async def ask() -> Survey:
        return await find_ends(client, queues)

    return await patiently(client, options, ask)


async def plan_batch(
    client: ClusterClient, options: SourceOptions, narrow: Callable[[list[QueueRange]], list[QueueRange]] = list
) -> list[QueueRange]:
    """Return the ranges of a batch. `narrow` removes those that the query doesn't need.

    Raises: DataLost, SourceUnreachable, UsageError, NetworkError.
    """
    there = await survey(client, options)
    if options.pattern is not None and not there:
        await _tell_no_match(client, options.pattern)
    starts = await starting_offsets(client, options, there, EARLIEST)
    ends = await _ending_offsets(client, options, there)
    # A batch whose end is before its start reads nothing. A start that doesn't exist is a loss.
    ends = {queue: max(end, min(starts[queue], there[queue].max_offset)) for queue, end in ends.items()}
    plan = plan_reads(starts, ends, there)
    tell_losses(options, plan.losses)
    return split(narrow(plan.ranges), options.min_partitions)


async def _tell_no_match(client: ClusterClient, pattern: TopicPattern) -> None:
    """Report that a pattern matches no topic: an empty batch would look like an empty topic. Raises: UsageError."""
    known, of_servers = await all_topics(client)
    names = TopicPattern(".*").choose(known, of_servers)
    shown = ", ".join(names[:NAMES_SHOWN_MAX]) + (", ..." if len(names) > NAMES_SHOWN_MAX else "")
    there = f"the topics are: {shown}" if names else "only RocketMQ's own topics exist"
    raise UsageError(f"subscribePattern={pattern.text} matches no topic; {there}")


async def starting_offsets(client: ClusterClient, options: SourceOptions, there: Survey, default: str) -> Offsets:
    """Return the first offset of each queue. Queues that an option doesn't name start at their earliest message.

    Raises: UsageError (no such queue, or no message at or after the given time), NetworkError.
    """
    times = _times("startingOffsetsByTimestamp", options.starting_ms, options.starting_times, there)
    if times is None:
        return _offsets("startingOffsets", options.starting_offsets or default, there, EARLIEST_NUMBER)
    found = await _offsets_at(client, options, times, there)
    if not options.is_late_start_latest:
        for queue, offset in sorted(found.items()):
            if offset >= there[queue].max_offset:
                raise UsageError(
                    f"{queue} has no message stored at {times[queue]} or later, and "
                    "startingOffsetsByTimestampStrategy=error; use latest to begin at its end"
                )
    return {queue: ends.min_offset for queue, ends in there.items()} | found


async def _ending_offsets(client: ClusterClient, options: SourceOptions, there: Survey) -> Offsets:
    times = _times("endingOffsetsByTimestamp", options.ending_ms, options.ending_times, there)
    if times is None:
        return _offsets("endingOffsets", options.ending_offsets, there, LATEST_NUMBER)
    return {queue: ends.max_offset for queue, ends in there.items()} | await _offsets_at(client, options, times, there)


async def _offsets_at(
    client: ClusterClient, options: SourceOptions, times: dict[MessageQueue, int], there: Survey
) -> Offsets:
    """Return each queue's first offset stored at its time or later. Messages that came after the survey don't count."""

    async def ask() -> Offsets:
        return await find_at(client, times)

    found = await patiently(client, options, ask)
    return {queue: min(offset, there[queue].max_offset) for queue, offset in found.items()}


def _times(name: str, of_all: int | None, given: GivenOffsets | None, there: Survey) -> dict[MessageQueue, int] | None:
    """Return the start or end time of each queue that has one, or None if offsets are used. Raises: UsageError."""
    if of_all is not None:
        return dict.fromkeys(there, of_all)
    if given is None:
        return None
    _check_queues(name, given, there)
    return dict(given.offsets)


def _offsets(name: str, boundary: Boundary, there: Survey, unnamed: int) -> Offsets:
    """Return the actual offsets of all queues. Raises: UsageError (no such queue)."""
    if isinstance(boundary, GivenOffsets):
        _check_queues(name, boundary, there)
        return resolve(there, {queue: boundary.offsets.get(queue, unnamed) for queue in there}, there)
    number = LATEST_NUMBER if boundary == LATEST else EARLIEST_NUMBER
    return resolve(there, dict.fromkeys(there, number), there)


def _check_queues(name: str, given: GivenOffsets, there: Survey) -> None:
    unknown = unknown_queues(given.offsets, there)
    if unknown:
        known = ", ".join(str(queue) for queue in sorted(there) if queue.topic == unknown[0].topic) or "none"
        raise UsageError(f"{name}={given.text}: there is no queue {unknown[0]}; {unknown[0].topic} has {known}")


def tell_losses(options: SourceOptions, losses: list[Loss]) -> None:
    """Log lost messages. Raises: DataLost, if `failOnDataLoss` is set."""
    if losses and options.fail_on_data_loss:
        more = f" (and {len(losses) - 1} more queues)" if len(losses) > 1 else ""
        raise DataLost(
            f"{losses[0]}{more}; messages were removed (by retention, or the topic was deleted and created again), or "
            "the offsets are wrong. To read the remaining messages set failOnDataLoss=false"
        )
    for loss in losses:
        log.warning("data_lost", queue=str(loss.queue), wanted=loss.wanted, there=tuple(loss.there[:2]))
