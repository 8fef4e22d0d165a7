"""Find what can be read: the queues of topics, their first and last offsets, and the offset of a point in time.

One request per topic and broker covers all its queues. If a broker is away or busy, requests are retried with fresh
routes until `reconnectTimeoutMs` is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from staticfire.client.cluster.cluster_client import ClusterClient
from staticfire.client.cluster.queues import MessageQueue
from staticfire.client.cluster.routes import address_to_write, subscribe_queues
from staticfire.client.offsets.queue_offsets import QueueOffsets
from staticfire.pipeline.errors import SourceUnreachable
from staticfire.pipeline.options import SourceOptions
from staticfire.pipeline.planning import QueueEnds
from staticfire.protocol.codes import ResponseCode
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import BrokerAnswer, NetworkError, TopicNotFound, broker_answer
from staticfire.protocol.requests.routes import GetAllTopics, GetClusterInfo
from staticfire.protocol.requests.statistics import GetTopicStats, TopicOffset, TopicStatsAnswer

T = TypeVar("T")

SURVEY_TIMEOUT_MS = 3_000
RETRY_PAUSE_MS = 100
# What ACL 1.0 refuses begins with this.
ACL_REFUSAL = "AclException"
# A server that responds with one of these may respond with the result next time.
BUSY_CODES = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.GO_AWAY,
    }
)


def _is_busy(error: BrokerAnswer) -> bool:
    """Return whether another try may succeed. ACL 1.0 refuses with SYSTEM_ERROR, too: that doesn't change."""
    return error.code in BUSY_CODES and ACL_REFUSAL not in (error.remark or "")


async def find_queues(client: ClusterClient, topics: Iterable[str], may_miss: bool = False) -> list[MessageQueue]:
    """Return the readable queues of topics, with fresh routes. `may_miss`: ignore topics that don't exist.

    Raises: SourceUnreachable (no such topic), NetworkError.
    """
    routes = [_route_queues(client, topic, may_miss) for topic in topics]
    return [queue for queues in await asyncio.gather(*routes) for queue in queues]


async def _route_queues(client: ClusterClient, topic: str, may_miss: bool) -> list[MessageQueue]:
    try:
        return subscribe_queues(topic, await client.routes.fetch(topic))
    except TopicNotFound as error:
        if may_miss:
            return []
        raise SourceUnreachable(f"subscribe={topic}: {error.remark}") from None


async def wanted_queues(client: ClusterClient, options: SourceOptions, may_miss: bool = False) -> list[MessageQueue]:
    """Return the readable queues of all topics that a query reads now; none if no topic matches its pattern.

    `may_miss`: as in `find_queues`. Raises: SourceUnreachable, NetworkError, BrokerAnswer.
    """
    if options.pattern is None:
        return await find_queues(client, options.topics, may_miss)
    # A topic that is deleted between the two requests is no error: it doesn't match any more.
    return await find_queues(client, options.pattern.choose(*await all_topics(client)), may_miss=True)


async def all_topics(client: ClusterClient) -> tuple[list[str], set[str]]:
    """Return the names of all topics, and the topic names that servers use themselves.

    Raises: NetworkError, BrokerAnswer.
    """
    topics, cluster = await asyncio.gather(
        client.nameservers.ask(GetAllTopics(), SURVEY_TIMEOUT_MS),
        client.nameservers.ask(GetClusterInfo(), SURVEY_TIMEOUT_MS),
    )
    for answer in (topics, cluster):
        if answer.code != SUCCESS or answer.body is None:
            raise broker_answer(answer.code, answer.remark, f"topics at {client.nameservers.chosen}")
    known = cluster.body
    return topics.body.topic_list, {*known.cluster_addr_table, *known.broker_addr_table}


async def find_ends(client: ClusterClient, queues: Sequence[MessageQueue]) -> dict[MessageQueue, QueueEnds]:
    """Return the first and last offsets of queues. Raises: NetworkError, BrokerAnswer."""
    one_of = {(queue.topic, queue.broker_name): queue for queue in queues}
    addresses = client.routes.addresses
    answers = await asyncio.gather(*(_topic_ends(client, queue) for queue in one_of.values()))
    known = {queue: ends for answer in answers for queue, ends in answer.items()}
    ends: dict[MessageQueue, QueueEnds] = {}
    for queue in queues:
        offset = known.get(queue, TopicOffset())
        has_master = address_to_write(addresses, queue.broker_name) is not None
        ends[queue] = QueueEnds(offset.min_offset, offset.max_offset, has_master, offset.last_update_timestamp)
    return ends


async def _topic_ends(client: ClusterClient, one: MessageQueue) -> dict[MessageQueue, TopicOffset]:
    """Request the offsets of all queues of a topic on one broker."""
    request = GetTopicStats(topic=one.topic, bname=one.broker_name)
    answer = await client.ask_broker(one, request, SURVEY_TIMEOUT_MS)
    if answer.code != SUCCESS or not isinstance(answer, TopicStatsAnswer):
        raise broker_answer(answer.code, answer.remark, f"offsets of {one.topic} on {one.broker_name}")
    if answer.body is None:
        return {}
    return {
        MessageQueue(one.topic, one.broker_name, queue.queue_id): offset
        for queue, offset in answer.body.offset_table.items()
    }


async def find_at(client: ClusterClient, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Return each queue's first offset stored at its time or later. Raises: NetworkError, BrokerAnswer."""
    asking = QueueOffsets(client, SURVEY_TIMEOUT_MS)
    offsets = await asyncio.gather(*(asking.search_offset(queue, stored_ms) for queue, stored_ms in times.items()))
    return dict(zip(times, offsets, strict=True))


async def patiently(client: ClusterClient, options: SourceOptions, ask: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `ask`, and retry while brokers are away or busy. Raises: SourceUnreachable, BrokerAnswer."""
    return await _retried(client, options, ask, (NetworkError, BrokerAnswer))


async def while_busy(client: ClusterClient, options: SourceOptions, ask: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `ask`, and retry while servers are busy. A server that is away is reported at once.

    Raises: SourceUnreachable, BrokerAnswer, NetworkError.
    """
    return await _retried(client, options, ask, (BrokerAnswer,))


async def _retried(
    client: ClusterClient,
    options: SourceOptions,
    ask: Callable[[], Awaitable[T]],
    kinds: tuple[type[NetworkError | BrokerAnswer], ...],
) -> T:
    uptime_ms = client.machine.clock.uptime_ms
    deadline_ms = uptime_ms() + options.reconnect_timeout_ms
    while True:
        try:
            return await ask()
        except kinds as error:
            if isinstance(error, BrokerAnswer) and not _is_busy(error):
                raise
            if uptime_ms() >= deadline_ms:
                raise SourceUnreachable(
                    f"nameServer={options.name_server}: {error}; tried for {options.reconnect_timeout_ms} ms "
                    "(reconnectTimeoutMs)"
                ) from None
        await client.pause_for(RETRY_PAUSE_MS)
