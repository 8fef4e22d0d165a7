"""What a batch query reads: decided once, when Spark plans the query."""

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
from staticfire.pipeline.survey import find_at, find_ends, find_queues, patiently
from staticfire.protocol.errors import UsageError
from staticfire.runtime.log import logger

log = logger("pipeline")

Survey = dict[MessageQueue, QueueEnds]


async def survey(client: ClusterClient, options: SourceOptions) -> Survey:
    """Return all queues of the topics, and where each begins and ends. Raises: SourceUnreachable, NetworkError."""
    queues = await find_queues(client, options.topics)

    async def ask() -> Survey:
        return await find_ends(client, queues)

    return await patiently(client, options, ask)


async def plan_batch(client: ClusterClient, options: SourceOptions) -> list[QueueRange]:
    """Return the ranges of a batch. Raises: DataLost, SourceUnreachable, UsageError, NetworkError."""
    there = await survey(client, options)
    starts = await starting_offsets(client, options, there, EARLIEST)
    ends = await _ending_offsets(client, options, there)
    ends = {queue: max(end, starts[queue]) for queue, end in ends.items()}
    plan = plan_reads(starts, ends, there)
    tell_losses(options, plan.losses)
    return split(plan.ranges, options.min_partitions)


async def starting_offsets(client: ClusterClient, options: SourceOptions, there: Survey, default: str) -> Offsets:
    """Return where a query begins. Queues that an option doesn't name begin at their earliest message.

    Raises: UsageError (no such queue), NetworkError.
    """
    if options.starting_ms is not None:
        return await find_at(client, list(there), options.starting_ms)
    return _offsets("startingOffsets", options.starting_offsets or default, there, EARLIEST_NUMBER)


async def _ending_offsets(client: ClusterClient, options: SourceOptions, there: Survey) -> Offsets:
    if options.ending_ms is not None:
        return await find_at(client, list(there), options.ending_ms)
    return _offsets("endingOffsets", options.ending_offsets, there, LATEST_NUMBER)


def _offsets(name: str, boundary: Boundary, there: Survey, unnamed: int) -> Offsets:
    """Return real offsets of all queues. Raises: UsageError (no such queue)."""
    if isinstance(boundary, GivenOffsets):
        unknown = unknown_queues(boundary.offsets, there)
        if unknown:
            known = ", ".join(str(queue) for queue in sorted(there) if queue.topic == unknown[0].topic)
            raise UsageError(f"{name}={boundary.text}: there is no queue {unknown[0]}; {unknown[0].topic} has {known}")
        return resolve(there, {queue: boundary.offsets.get(queue, unnamed) for queue in there}, there)
    number = LATEST_NUMBER if boundary == LATEST else EARLIEST_NUMBER
    return resolve(there, dict.fromkeys(there, number), there)


def tell_losses(options: SourceOptions, losses: list[Loss]) -> None:
    """Say that messages are gone. Raises: DataLost where that ends the query."""
    if losses and options.fail_on_data_loss:
        more = f" (and {len(losses) - 1} more queues)" if len(losses) > 1 else ""
        raise DataLost(
            f"{losses[0]}{more}; messages were removed (retention, or a topic that was made anew), or the offsets are "
            "wrong. To read what is left set failOnDataLoss=false"
        )
    for loss in losses:
        log.warning("data_lost", queue=str(loss.queue), wanted=loss.wanted, there=tuple(loss.there))
