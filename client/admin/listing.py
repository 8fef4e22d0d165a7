"""Lists all topics and all consumer groups of a cluster."""

import asyncio
from collections.abc import Sequence
from typing import Any

from staticfire.client.admin.admin import Admin
from staticfire.client.admin.group_survey import GroupSurvey
from staticfire.client.admin.replica_choice import readers_among, replicas_of, warnings_without_master
from staticfire.client.admin.totals import broker_totals
from staticfire.client.cluster.routes import address_to_read
from staticfire.protocol.errors import TopicNotFound
from staticfire.protocol.names import group_of_topic, is_system_group, is_system_topic, reply_topic
from staticfire.protocol.requests.routes import ClusterInfo
from staticfire.protocol.requests.statistics import GetTopicStats
from staticfire.protocol.requests.totals import GroupTotal

# How many topics or groups are looked at at the same time: a survey of a group queries all brokers and all members.
AT_ONCE_MAX = 8


async def list_topics(
    admin: Admin, all_of_them: bool = False, names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return name, brokers, queues and stored messages of each topic, or of those with these names.

    `all_of_them`: include RocketMQ's own topics, retries and dead letters. Raises: NetworkError, BrokerAnswer.
    """
    if names is None:
        names = await (admin.topics() if all_of_them else own_topics(admin))
    if (rows := await topic_totals(admin, names)) is not None:
        return rows
    turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def line(name: str) -> dict[str, Any] | None:
        async with turns:
            try:
                return await _topic(admin, name)
            except TopicNotFound:
                return None  # It was deleted meanwhile.

    return [one for one in await asyncio.gather(*map(line, names)) if one is not None]


async def topic_totals(admin: Admin, names: Sequence[str]) -> list[dict[str, Any]] | None:
    """Return the topics as brokers report them all together; None if they don't."""
    totals = await broker_totals(admin.client, await admin.readers(), topics=names, timeout_ms=admin.timeout_ms)
    if totals is None:
        return None
    found = {name: [part.topics[name] for part in totals.values() if name in part.topics] for name in names}
    return [
        {
            "topic": name,
            "brokers": len(parts),
            "queues": sum(one.queues for one in parts),
            "messages": sum(one.messages for one in parts),
        }
        for name, parts in found.items()
        if parts
    ]


async def topic_ranks(admin: Admin, column: str) -> dict[str, int] | None:
    """Return the number of queues or messages of each topic, by name; None if brokers don't report them together."""
    totals = await broker_totals(admin.client, await admin.readers(), topics=None, timeout_ms=admin.timeout_ms)
    if totals is None:
        return None
    found: dict[str, int] = {}
    for part in totals.values():
        for name, one in part.topics.items():
            found[name] = found.get(name, 0) + (one.queues if column == "queues" else one.messages)
    return found


async def group_totals(admin: Admin, names: Sequence[str] | None = None) -> list[dict[str, Any]] | None:
    """Return name, members, lag, dead letters and problems of all groups, or of those with these names.

    They are what brokers know, without asking members. None if they don't report it. Raises: NetworkError.
    """
    replicas = replicas_of(await admin.cluster_info())
    totals = await broker_totals(admin.client, readers_among(replicas), groups=names, timeout_ms=admin.timeout_ms)
    if totals is None:
        return None
    lost = len(warnings_without_master(replicas))
    found: dict[str, list[GroupTotal]] = {}
    for part in totals.values():
        for name, one in part.groups.items():
            found.setdefault(name, []).append(one)
    return [
        {
            "group": name,
            "members": len({client for one in parts for client in one.members}),
            "lag": sum(one.lag for one in parts),
            "deadLetters": sum(one.dead_letters for one in parts),
            "warnings": max(one.findings for one in parts) + lost,
        }
        for name, parts in sorted(found.items())
    ]


async def member_counts(admin: Admin, names: Sequence[str]) -> dict[str, int]:
    """Return the number of members of each group, by one request per group and broker. Raises: NetworkError."""
    turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def count(name: str) -> int:
        async with turns:
            return len(await admin.members(name))

    return dict(zip(names, await asyncio.gather(*map(count, names)), strict=True))


async def own_topics(admin: Admin) -> list[str]:
    """Return the topics that users have created: no retries, no dead letters, none of RocketMQ's own."""
    return own_among(await admin.topics(), await admin.cluster_info())


def own_among(topics: Sequence[str], known: ClusterInfo) -> list[str]:
    """Return those of topics that users have created, in a cluster with these brokers."""
    clusters = known.cluster_addr_table
    of_servers = {*clusters, *map(reply_topic, clusters), *known.broker_addr_table}
    # Most names don't begin like retries, which saves a call for each of ten thousand topics.
    of_no_group = (name for name in topics if name[:1] != "%" or group_of_topic(name) is None)
    return [name for name in of_no_group if not is_system_topic(name, of_servers)]


async def _topic(admin: Admin, name: str) -> dict[str, Any]:
    route = await admin.client.routes.look_up(name)
    messages = 0
    for broker in route.broker_datas:
        if (address := address_to_read({name: broker.broker_addrs}, name)) is None:
            continue
        answer = await admin.client.pool.ask(address, GetTopicStats(name), admin.timeout_ms)
        if answer.body is not None:
            messages += sum(ends.max_offset - ends.min_offset for ends in answer.body.offset_table.values())
    queues = sum(one.read_queue_nums for one in route.queue_datas)
    return {"topic": name, "brokers": len(route.queue_datas), "queues": queues, "messages": messages}


async def own_groups(admin: Admin) -> list[str]:
    """Return the groups of users: none of RocketMQ's own."""
    return [name for name in await admin.groups() if not is_system_group(name)]


async def list_groups(
    admin: Admin, all_of_them: bool = False, names: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """Return name, members, lag, dead letters and warnings of each group, or of those with these names.

    `all_of_them`: include RocketMQ's own groups. Raises: NetworkError, BrokerAnswer.
    """
    replicas = replicas_of(await admin.cluster_info())
    brokers = readers_among(replicas)
    lost = len(warnings_without_master(replicas))
    turns = asyncio.Semaphore(AT_ONCE_MAX)

    async def line(name: str) -> dict[str, Any]:
        async with turns:
            one = await GroupSurvey(admin.client, brokers, name, admin.timeout_ms).look()
        return {
            "group": one.group,
            "members": len(one.members),
            "lag": one.lag,
            "deadLetters": one.dead_letters,
            "warnings": len(one.warnings) + lost,
        }

    if names is None:
        names = await (admin.groups() if all_of_them else own_groups(admin))
    return await asyncio.gather(*map(line, names))
