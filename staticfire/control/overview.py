"""What the whole cluster holds, in one response: topics, groups, backlog, dead letters.

GET /overview queries each broker once for the progress of all groups, so it is cheap with hundreds of them. Works with
RocketMQ's brokers, too. A broker that doesn't respond is named: the backlog is that at the other brokers then, and the
numbers of groups and dead letters are null, because they aren't known.
"""

import asyncio
from collections import Counter
from typing import Any

from staticfire.client import Admin
from staticfire.client.admin.listing import group_totals, own_among, own_groups, topic_totals
from staticfire.control.routes import ControlCall, Reply, Route
from staticfire.protocol.command import SUCCESS
from staticfire.protocol.errors import NetworkError
from staticfire.protocol.lag import lag_of
from staticfire.protocol.names import group_of_topic, is_dead_letter_topic, is_system_group
from staticfire.protocol.requests.statistics import BrokerConsumeStats, GetBrokerConsumeStats

SHOWN_MAX = 20


async def show(call: ControlCall) -> Reply:
    """Return the overview."""
    async with call.cluster.admin() as admin:
        all_topics = await admin.topics()
        topics = own_among(all_topics, await admin.cluster_info())
        quick = await _from_totals(admin, len(topics), all_topics)
        if quick is not None:
            return Reply(quick)
        masters = await admin.masters()
        parts = await asyncio.gather(*(_stats_of(admin, address) for address in masters.values()))
        silent = [name for name, part in zip(masters, parts, strict=True) if part is None]
        groups = None if silent else len(await own_groups(admin))
        dead = None if silent else await admin.dead_letters()
    lags = lags_of([part for part in parts if part is not None])
    return Reply(_summary(len(topics), groups, lags, dead, silent))


async def _from_totals(admin: Admin, topics: int, all_topics: list[str]) -> dict[str, Any] | None:
    """Return the overview as staticfire's brokers know it; None if one of them doesn't, or doesn't respond."""
    try:
        rows = await group_totals(admin)
        if rows is None:
            return None
        dead = {row["group"]: row["deadLetters"] for row in rows if row["deadLetters"]}
        # Dead letters of deleted groups.
        known = {row["group"] for row in rows}
        others = [topic for topic in all_topics if topic[:1] == "%" and is_dead_letter_topic(topic)]
        left = [topic for topic in others if group_of_topic(topic) not in known]
        for row in (await topic_totals(admin, left) or []) if left else []:
            dead |= {group_of_topic(row["topic"]) or "": row["messages"]} if row["messages"] else {}
    except NetworkError:
        return None
    groups = sum(not is_system_group(row["group"]) for row in rows)
    return _summary(topics, groups, {row["group"]: row["lag"] for row in rows if row["lag"]}, dead, [])


def _summary(
    topics: int, groups: int | None, lags: dict[str, int], dead: dict[str, int] | None, silent: list[str]
) -> dict[str, Any]:
    """Return the response."""
    return {
        "topics": topics,
        "groups": groups,
        "lag": sum(lags.values()),
        "behind": [{"group": group, "lag": lag} for group, lag in _first(lags)],
        "deadLetters": None if dead is None else sum(dead.values()),
        "dead": [{"group": group, "count": count} for group, count in _first(dead or {})],
        "silent": silent,
    }


async def lags(admin: Admin) -> dict[str, int]:
    """Return by how many messages each group lags. Brokers that don't respond are left out. Raises: NetworkError."""
    parts = await asyncio.gather(*(_stats_of(admin, address) for address in (await admin.masters()).values()))
    return lags_of([part for part in parts if part is not None])


async def _stats_of(admin: Admin, address: str) -> BrokerConsumeStats | None:
    """Return the progress of all groups at a broker; None if it doesn't respond."""
    try:
        answer = await admin.client.pool.ask(address, GetBrokerConsumeStats(False), admin.timeout_ms)
    except NetworkError:
        return None
    return answer.body if answer.code == SUCCESS and answer.body is not None else BrokerConsumeStats()


def lags_of(parts: list[BrokerConsumeStats]) -> dict[str, int]:
    """Return by how many messages each group lags, over all brokers. Groups without a lag are left out."""
    lags: Counter[str] = Counter()
    for part in parts:
        for by_group in part.consume_stats_list:
            for group, many in by_group.items():
                offsets = [one for stats in many for one in stats.offset_table.values()]
                lags[group] += sum(lag_of(one.broker_offset, one.consumer_offset) for one in offsets)
    return {group: lag for group, lag in sorted(lags.items()) if lag > 0}


def _first(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:SHOWN_MAX]


ROUTES = (Route("GET", "/overview", "the whole cluster: topics, groups, backlog, dead letters", show),)
